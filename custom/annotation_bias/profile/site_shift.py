"""By how far all annotations of a site are translated against its images, seen in the images, without a model.

The contours of a case are laid over its image at every translation, and at every distance inward and outward: a site
may annotate too large as well. Where they fit, the image changes along their normals. All translations of a contour
together are a correlation, computed by Fourier transforms.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft, stats

from ....transforms.array_types import AnyFloats, Array, Booleans, Floats
from ....transforms.surfaces import checked_spacing, grown_box
from ..thresholds import THRESHOLDS as OF_ESTIMATES
from .contours import ContourSurroundings, channel_slopes, fine_axes
from .scales import ProfileCase
from .thresholds import THRESHOLDS

# The longest translation that is looked for, in units of the finest spacing.
LONGEST_SHIFT = 6.0
# Contours are moved so far inward and outward, in units; a peak is found among the inner ones.
CONTOUR_LEVELS = np.arange(-10.0, 10.5, 1.0)
_FARTHEST_LEVEL, _CHORD_LEVELS = 6.0, 4
_BAND = 1.0

_MIN_WEIGHT = 6.0
_MIN_VISIBLE = 0.25
# Another place is so far from the best one, in units.
_ELSEWHERE = 3.0

_Spectra = Mapping[tuple[int, int], Array]


@dataclass(frozen=True)
class SiteShift:
    """By how far a site's annotations of a class lie from what its images show.

    Attributes:
        patients: behind it.
        vector: along each axis in millimetres, pixels without spacing: where an annotation is, less where it belongs.
            NaN where no case has contours.
        standard_error: along each axis over patients, in pixels of the axis, of draws that agree on the place. NaN
            along an axis whose pixels are longer than the longest translation: nothing is said there.
        half_width: of the 90 % interval along each axis, as the vector; infinite where nothing is said.
        pixel: length of a pixel along each axis, as the vector.
        prominence: by how much the contours fit better there than at any place more than 3 units away, as a fraction of
            the mean; −1 where they fit still better beyond the longest translation.
        agreement: fraction of draws of patients whose best place is at most 3 units away; 0 for one patient.
    """

    patients: int
    vector: tuple[float, ...]
    standard_error: tuple[float, ...]
    half_width: tuple[float, ...]
    pixel: tuple[float, ...]
    prominence: float
    agreement: float

    @classmethod
    def absent(cls, num_axes: int, patients: int = 0) -> "SiteShift":
        """Return what stands for a class of which the site has too little."""
        nothing, infinite = (np.nan,) * num_axes, (np.inf,) * num_axes
        return cls(patients, nothing, infinite, infinite, (1.0,) * num_axes, np.nan, 0.0)

    @property
    def is_known(self) -> bool:
        """Whether the images say it: one place stands out, draws of patients agree on it, the interval is short."""
        said = [
            half_width / pixel
            for half_width, pixel, error in zip(self.half_width, self.pixel, self.standard_error, strict=True)
            if not np.isnan(error)
        ]
        return (
            bool(np.isfinite(self.vector).all() and said)
            and self.prominence >= THRESHOLDS.min_shift_prominence
            and self.agreement >= THRESHOLDS.min_shift_agreement
            and max(said) <= THRESHOLDS.max_shift_half_width
        )

    @property
    def is_significant(self) -> bool:
        """Whether it is known, and along an axis beyond its interval and the minimum effect."""
        least = THRESHOLDS.min_shift
        return self.is_known and any(
            abs(length) > half_width and abs(length) >= least * pixel
            for length, half_width, pixel in zip(self.vector, self.half_width, self.pixel, strict=True)
        )


@dataclass(frozen=True)
class _Grid:
    """The translations of a site's contours: whole pixels, somewhat farther than is looked for.

    Attributes:
        steps: length of a pixel along each axis in units.
        reach: most pixels along each axis.
    """

    steps: Floats
    reach: tuple[int, ...]

    @classmethod
    def of(cls, lengths: Floats) -> "_Grid":
        steps = lengths / lengths.min()
        # A neighbour more on each side for the parabolas.
        searched = np.floor(LONGEST_SHIFT / steps + 1e-9).astype(int)
        return cls(steps, tuple(np.where(searched > 0, searched + 1, 0).tolist()))

    @cached_property
    def translations(self) -> Floats:
        """All translations in units, ``(d, *grid)``."""
        indices = np.indices([2 * most + 1 for most in self.reach], dtype=np.float64)
        shape = (-1, *[1] * len(self.reach))
        return np.asarray((indices - np.reshape(self.reach, shape)) * np.reshape(self.steps, shape))

    @cached_property
    def searched(self) -> Booleans:
        """Where a peak is looked for, as the grid."""
        near: Booleans = (self.translations**2).sum(axis=0) <= LONGEST_SHIFT**2 + 1e-6
        return near


@dataclass(frozen=True)
class _Peak:
    """Where contours fit best: in pixels along each axis, see :attr:`SiteShift.prominence`."""

    place: Floats
    prominence: float


def case_scores(
    image: AnyFloats, mask: Booleans, *, other: Booleans | None = None, spacing: Sequence[float] | None = None
) -> Floats | None:
    """Return how well the contours of a case fit its image at every translation and level, divided by the mean.

    s(d, t) = √(Σ_x n(x)ᵀ G(x + t) n(x) / Σ_x |n(x)|²) over pixels x at signed distance d to the contour, within a band
    of one unit. n is the contour's normal and G = Σ_channels ∇I ∇Iᵀ the image's gradient tensor, along the axes with a
    spacing below 1.5 units alone. It is 1 on average, so that every case weighs the same. It stays at the site.

    Args:
        image: ``(C, H, W[, D])``.
        mask: one class of the annotation, ``(H, W[, D])``.
        other: pixels of other classes and ignored ones; contours nearer to them than to the object do not count.
        spacing: size of a pixel along each axis in millimetres; None for pixels.

    Returns:
        ``(21, *translations)``: for levels −10 to 10 and translations up to seven units along each axis, the middle
        being none; NaN where too little of the contour is in the image. None where the object or what surrounds it is
        too small.

    Raises:
        ValueError: when the image is not finite, or the shapes do not fit.
    """
    around = ContourSurroundings.of(image, mask, other, spacing, reach=CONTOUR_LEVELS[-1] + _BAND)
    if around is None:
        return None
    grid, box = _Grid.of(around.steps), around.box
    size = [
        fft.next_fast_len(side.stop - side.start + 2 * most, True) for side, most in zip(box, grid.reach, strict=True)
    ]
    tensor = _spectra_of_image(image, box, grid, size)
    visible = fft.rfftn(_around(np.ones(mask.shape), box, grid), size)
    cut = tuple(slice(0, 2 * most + 1) for most in grid.reach)
    levels = []
    for weight in _bands(around):
        trace = weight * sum(around.normals[axis] ** 2 for axis in fine_axes(around.steps))
        total = float(trace.sum())
        if total <= _MIN_WEIGHT:
            levels.append(np.full([2 * most + 1 for most in grid.reach], np.nan))
            continue
        energy = fft.irfftn(_product(weight, around.normals, tensor, size), size)[cut]
        area = fft.irfftn(np.conj(fft.rfftn(trace, size)) * visible, size)[cut]
        mean = np.maximum(energy, 0.0) / np.maximum(area, 1e-9)
        levels.append(np.where(area >= _MIN_VISIBLE * total, np.sqrt(mean), np.nan))
    return _divided_by_mean(np.stack(levels), grid)


def estimate_site_shift(cases: Sequence[ProfileCase], label: int, *, seed: int) -> SiteShift:
    """Estimate by how far a site's annotations of a class are translated; it needs no other site.

    The score of the site is the mean over cases; its peak over translations up to six units, and contours moved up to
    six units inward or outward, is the shift. A level counts by how much it exceeds those four units inward and outward
    of it. Patients are drawn with replacement for the standard error.

    Args:
        cases: of the site, with the same number of axes; translations are in pixels of each, their lengths the median.
        label: the class.
        seed: decides the draws.

    Raises:
        ValueError: when there is no case, or an image is not finite.
    """
    if not cases:
        raise ValueError("Expected at least one case, but there is none.")
    axes = cases[0].annotation.ndim
    lengths = np.median([checked_spacing(case.annotation.shape, case.spacing) for case in cases], axis=0)
    grid = _Grid.of(lengths)
    sums: dict[str, Floats] = {}
    counts: dict[str, Floats] = {}
    for case in cases:
        scores = _scores_of(case, label, lengths)
        if scores is None:
            continue
        known = np.isfinite(scores)
        sums[case.patient] = sums.get(case.patient, 0.0) + np.where(known, scores, 0.0)
        counts[case.patient] = counts.get(case.patient, 0.0) + known.astype(np.float64)
    if not sums:
        return SiteShift.absent(axes)
    patients = sorted(sums)
    peaks = _peaks(
        np.stack([sums[name] for name in patients]), np.stack([counts[name] for name in patients]), grid, seed
    )
    best = next(peaks)
    agreeing, agreement = _agreeing(best, list(peaks), grid)
    error = _standard_error(agreeing, len(patients), grid)
    return _shift(best, error, agreement, len(patients), lengths)


def _scores_of(case: ProfileCase, label: int, lengths: Floats) -> Floats | None:
    """Scores of a case; None where it has none, or where its pixels have another form than the site's."""
    own = np.asarray(checked_spacing(case.annotation.shape, case.spacing))
    if _Grid.of(own).reach != _Grid.of(lengths).reach:
        return None
    other = (case.annotation != label) & (case.annotation != 0)
    return case_scores(case.image, case.annotation == label, other=other, spacing=case.spacing)


def _around(values: Floats, box: tuple[slice, ...], grid: _Grid) -> Floats:
    """Values of an image in a box and as far around it as contours are translated; 0 outside the image."""
    wide = grown_box(box, grid.reach, values.shape)
    pads = [
        (most - (side.start - inner.start), most - (inner.stop - side.stop))
        for side, inner, most in zip(box, wide, grid.reach, strict=True)
    ]
    return np.pad(values[wide], pads)


def _spectra_of_image(
    image: AnyFloats, box: tuple[slice, ...], grid: _Grid, size: Sequence[int]
) -> dict[tuple[int, int], Array]:
    """Spectra of Σ_channels ∇I ∇Iᵀ: three components in 2D, six in 3D, of the fine axes; channels as in curves."""
    pairs = list(itertools.combinations_with_replacement(fine_axes(grid.steps), 2))
    tensor = {pair: np.zeros(image.shape[1:]) for pair in pairs}
    for slopes in channel_slopes(image, None, grid.steps, np.float64):
        for first, second in pairs:
            tensor[first, second] += slopes[first] * slopes[second]
    return {pair: fft.rfftn(_around(values, box, grid), size) for pair, values in tensor.items()}


def _bands(around: ContourSurroundings) -> Iterator[Floats]:
    """The weight of pixels on the contour at each level."""
    for level in CONTOUR_LEVELS:
        weight = np.clip(1 - np.abs(around.distance - level) / _BAND, 0.0, None)
        yield np.where(around.is_clear_of_other(np.abs(level) + _BAND), weight, 0.0)


def _product(weight: Floats, normals: Floats, tensor: _Spectra, size: Sequence[int]) -> Array:
    """The spectrum of Σ_x n(x)ᵀ G(x + t) n(x) over translations t."""
    terms = [
        (1 if first == second else 2) * np.conj(fft.rfftn(weight * normals[first] * normals[second], size)) * spectrum
        for (first, second), spectrum in tensor.items()
    ]
    return np.asarray(sum(terms))


def _divided_by_mean(scores: Floats, grid: _Grid) -> Floats | None:
    """Scores divided by their mean over levels and the translations that are searched."""
    near = scores[:, grid.searched]
    known = near[np.isfinite(near)]
    mean = float(known.mean()) if len(known) else 0.0
    return scores / mean if mean > 0 else None


def _peaks(sums: Floats, counts: Floats, grid: _Grid, seed: int) -> Iterator[_Peak]:
    """The peak of all patients ``(P, levels, *grid)``, then of each draw of them."""
    num = len(sums)
    draws = THRESHOLDS.bootstrap_draws if num > 1 else 0
    drawn = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), draws).astype(np.float64)
    for weights in np.concatenate([np.ones((1, num)), drawn]):
        total = np.tensordot(weights, counts, 1)
        mean = np.where(total > 0, np.tensordot(weights, sums, 1) / np.maximum(total, 1e-9), np.nan)
        yield _peak(mean, grid)


def _peak(scores: Floats, grid: _Grid) -> _Peak:
    """The highest chord over levels, among all translations that are searched, with parabolas for fractions."""
    chords = _chords(scores)
    best = chords.max(axis=0)
    searched = grid.searched
    flat = int(np.where(searched, best, -np.inf).argmax())
    place = tuple(int(index) for index in np.unravel_index(flat, best.shape))
    level = int(chords.reshape(len(chords), -1)[:, flat].argmax())
    top = float(best[place])
    fractions, is_inside = np.zeros(len(place)), True
    for axis, most in enumerate(grid.reach):
        if most == 0:
            continue
        before, after = (_neighbour(chords[level], place, axis, step) for step in (-1, 1))
        is_inside &= max(before, after) <= top
        bend = before - 2 * top + after
        if np.isfinite(bend) and bend < 0:
            fractions[axis] = np.clip(0.5 * (before - after) / bend, -0.5, 0.5)
    translations = grid.translations.reshape(len(place), -1)
    away = ((translations - translations[:, [flat]]) ** 2).sum(axis=0).reshape(best.shape)
    elsewhere = float(best[searched & (away > _ELSEWHERE**2)].max(initial=-np.inf))
    mean = float(np.nanmean(scores[:, searched]))
    prominence = (top - max(elsewhere, 0.0)) / mean if is_inside and top > 0 else -1.0
    return _Peak(np.array(place) - grid.reach + fractions, prominence)


def _neighbour(values: Floats, place: tuple[int, ...], axis: int, step: int) -> float:
    index = list(place)
    index[axis] += step
    return float(values[tuple(index)])


def _chords(scores: Floats) -> Floats:
    """C(d) = s(d) − ½ (s(d − 4) + s(d + 4)) for the inner levels; −∞ where s has no value.

    A level that the objects are too small for has the value of the next one.
    """
    middle = len(CONTOUR_LEVELS) // 2
    filled = scores.copy()
    for outward in (1, -1):
        for distance in range(1, middle + 1):
            level = middle + outward * distance
            filled[level] = np.where(np.isfinite(filled[level]), filled[level], filled[level - outward])
    (inner,) = np.nonzero(np.abs(CONTOUR_LEVELS) <= _FARTHEST_LEVEL)
    chords = filled[inner] - 0.5 * (filled[inner - _CHORD_LEVELS] + filled[inner + _CHORD_LEVELS])
    return np.where(np.isfinite(scores[inner]) & np.isfinite(chords), chords, -np.inf)


def _agreeing(best: _Peak, drawn: Sequence[_Peak], grid: _Grid) -> tuple[Floats, float]:
    """The places of draws near the site's, ``(draws, d)``, and their fraction of all."""
    places = np.array([peak.place for peak in drawn]).reshape(-1, len(grid.reach))
    near = (((places - best.place) * grid.steps) ** 2).sum(axis=1) <= _ELSEWHERE**2
    return places[near], float(near.mean()) if len(near) else 0.0


def _standard_error(places: Floats, patients: int, grid: _Grid) -> Floats:
    """The standard error along each axis in pixels; infinite without draws, NaN where nothing is searched."""
    is_searched = np.array(grid.reach) > 0
    if len(places) < 2:
        return np.where(is_searched, np.inf, np.nan)
    return np.where(is_searched, places.std(axis=0) * np.sqrt(patients / (patients - 1)), np.nan)


def _shift(best: _Peak, error: Floats, agreement: float, patients: int, lengths: Floats) -> SiteShift:
    """The record of a site; contours that have to be moved back lie too far forth."""
    quantile = stats.t.ppf(0.5 + OF_ESTIMATES.interval_level / 2, max(patients - 1, 1))
    width = quantile * np.hypot(error, THRESHOLDS.min_standard_error) * lengths
    return SiteShift(
        patients,
        tuple((-best.place * lengths + 0.0).tolist()),
        tuple(error.tolist()),
        tuple(np.where(np.isnan(width), np.inf, width).tolist()),
        tuple(lengths.tolist()),
        best.prominence,
        agreement,
    )
