"""Align the curves of all sites, and find the image boundary on their mean: the boundary bias of each site."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Booleans, Floats, Indices
from .curves import LEVELS, STEP
from .origin import chords_of, origin_of, vertex_of
from .thresholds import THRESHOLDS

# The largest bias that is looked for, in pixels.
LARGEST_BIAS = 7.0
SHIFTS = np.arange(-LARGEST_BIAS, LARGEST_BIAS + STEP / 2, STEP)
# Curves are compared so far to both sides of the boundary; the template is wider.
WINDOW, _TEMPLATE_WINDOW = 5.0, 8.0

_FARTHEST_BOUNDARY, _BOUNDARY_PRIOR = 6.0, 4.0
_CHORD, _PROMINENCE_CHORD = 2.0, 3.0
_PROMINENCE_LEVELS = 6
_SWEEPS = 10
_MIN_SITES_TO_EXCLUDE = 4
_CENTRE, _NO_SHIFT = len(LEVELS) // 2, len(SHIFTS) // 2


@dataclass(frozen=True)
class Template:
    """The mean curve of other sites around the image boundary: what a site compares its own with.

    Attributes:
        values: at levels from −5 to 5 in steps of ¼, mean 0, ``(41,)``.
        known: where there is a value.
    """

    values: Floats
    known: Booleans


@dataclass(frozen=True)
class Alignment:
    """The curves of K sites against each other.

    Attributes:
        biases: β_k in pixels, positive where a site annotates outside the image boundary, ``(K,)``.
        origin: how far that is outside the boundary at which the template was centred, in pixels.
        correlations: r_k of each site's curve with the template of the others, ``(K,)``; 1 for one site alone.
        prominence: by how much the mean curve is higher at the boundary than next to it, as a fraction of its mean.
        templates: of the others, for each site; None for one site alone.
    """

    biases: Floats
    origin: float
    correlations: Floats
    prominence: float
    templates: tuple[Template | None, ...]


@dataclass(frozen=True)
class Windows:
    """Parts of curves around every shift, absent levels 0.

    Attributes:
        values: ``(K, shifts, levels)``.
        known: 1 where there is a value, as above.
    """

    values: Floats
    known: Floats

    @classmethod
    def of(cls, curves: Floats, reach: float) -> "Windows":
        """Cut curves ``(K, 97)`` at levels of every shift, so far to both sides."""
        half = round(reach / STEP)
        places = _CENTRE + np.arange(-half, half + 1) + np.round(SHIFTS / STEP).astype(int)[:, None]
        exists = (places >= 0) & (places < len(LEVELS))
        values = np.where(exists, curves[:, np.clip(places, 0, len(LEVELS) - 1)], np.nan)
        known = np.isfinite(values)
        return cls(np.where(known, values, 0.0), known.astype(np.float64))

    def correlations(self, template: Template) -> Floats:
        """Return the Pearson correlation of every window with a template, ``(K, shifts)``.

        Over the levels that both have; −1 where that is less than half of the window.
        """
        weights = template.known.astype(np.float64)
        values = template.values * weights
        common = self.known @ weights
        count = np.maximum(common, 1)
        own, others = self.values @ weights, self.known @ values
        covariance = self.values @ values - own * others / count
        own_variance = self.values**2 @ weights - own**2 / count
        other_variance = self.known @ values**2 - others**2 / count
        correlation = covariance / np.sqrt(np.maximum(own_variance * other_variance, 1e-18))
        return np.where(common >= 0.5 * self.values.shape[-1], correlation, -1.0)

    def mean_at(self, shifts: Indices, min_sites: float, sites: Indices, *, centred: bool) -> Template:
        """Return the mean of some sites' windows, each at its shift; no site counts far from their median.

        Args:
            shifts: index of the shift of every site, ``(K,)``.
            min_sites: a level has a value if so many sites have one.
            sites: that count.
            centred: whether each site's window is first moved to mean 0.
        """
        values, known = self.values[sites, shifts[sites]], self.known[sites, shifts[sites]]
        if centred:
            counts = np.maximum(known.sum(axis=1, keepdims=True), 1)
            values = (values - values.sum(axis=1, keepdims=True) / counts) * known
        values = _near_median(values, known)
        total = known.sum(axis=0)
        return Template(values.sum(axis=0) / np.maximum(total, 1e-9), total >= min_sites)


def align(curves: Floats) -> Alignment:
    """Align the curves of sites by shifts, and find the image boundary on their mean.

    Shift τ_k maximises the Pearson correlation of S_k(x + τ) with the mean T of the other sites' shifted curves over
    |x| ≤ 5, one site after the other, at most ten sweeps. After each sweep the template is centred at its boundary z,
    and β_k = −(τ_k + z) less its origin (:func:`.origin.origin_of`). Of two starts, no shift and each site at the
    boundary of its own curve, the one with the larger mean correlation × prominence counts.

    A lying site moves the others little. Of four sites and more, those count in templates whose curve fits the template
    that the others have without it (:attr:`ProfileThresholds.min_likeness`). They count no farther from the median of
    the sites than :attr:`ProfileThresholds.max_site_departure`, so that one moves the mean of K sites by that, divided
    by K, at most. The others are aligned with them.

    Args:
        curves: S_k of every site ``(K, 97)``.

    Raises:
        ValueError: when there is no site, or the curves have other levels.
    """
    curves = np.asarray(curves, dtype=np.float64)
    if curves.ndim != 2 or curves.shape[1] != len(LEVELS) or not len(curves):
        raise ValueError(f"Expected curves (K, {len(LEVELS)}) of at least one site, but got {curves.shape=}.")
    everyone = np.arange(len(curves))
    members = everyone if len(curves) < _MIN_SITES_TO_EXCLUDE else _alike(curves)
    return _Aligner(curves, members).best()


def boundary_of(values: Floats, positions: Floats, mean_shift: float = 0.0) -> tuple[int, float]:
    """Return where the image boundary is on a curve: the index of a position, and the fraction of a step beyond it.

    z maximises C(x) exp(−½ ((x + mean τ)/4)²) over |x| ≤ 6 with the chord C(x) = T(x) − ½ (T(x−2) + T(x+2)): with
    texture on one side T is a step with a plateau, whose maximum is nowhere in particular.

    Args:
        values: the curve, NaN where it has no value.
        positions: of its values, in pixels.
        mean_shift: mean shift of the sites.
    """
    chords = chords_of(values, _CHORD)
    allowed = (np.abs(positions) <= _FARTHEST_BOUNDARY) & np.isfinite(chords)
    prior = np.exp(-0.5 * ((positions + mean_shift) / _BOUNDARY_PRIOR) ** 2)
    index = int(np.argmax(np.where(allowed, chords * prior, -np.inf)))
    around = chords[max(index - 1, 0) : index + 2]
    return index, vertex_of(around) if len(around) == 3 and np.isfinite(around).all() else 0.0


def _alike(curves: Floats) -> Indices:
    """The sites whose curve fits the template of the others; all where that is hardly half of them."""
    everyone = np.arange(len(curves))
    likeness = np.array([_likeness(curves, site, np.delete(everyone, site)) for site in everyone.tolist()])
    members = np.flatnonzero(likeness >= THRESHOLDS.min_likeness)
    return members if 2 * len(members) > len(curves) else everyone


def _likeness(curves: Floats, site: int, others: Indices) -> float:
    """The largest correlation of a site's curve, at any shift, with the template that others have without it."""
    alignment = _Aligner(curves, others).best()
    return float(alignment.correlations[site])


class _Aligner:
    """The windows of all sites' curves, and the sweeps over them.

    Args:
        curves: of all sites.
        members: the sites that count in templates.
    """

    def __init__(self, curves: Floats, members: Indices) -> None:
        self.curves = curves
        self.members = members
        self.sites: Indices = np.arange(len(curves))
        self.windows = Windows.of(curves, WINDOW)
        self.wide = Windows.of(curves, _TEMPLATE_WINDOW)
        half = self.wide.values.shape[2] // 2
        self.positions = np.arange(-half, half + 1) * STEP
        self.middle = half

    def best(self) -> Alignment:
        """Return the better one of two starts."""
        results = [self.from_start(start) for start in (self.unmoved(), self.at_own_boundaries())]
        return max(results, key=self._objective)

    def _objective(self, alignment: Alignment) -> float:
        return float(alignment.correlations[self.members].mean()) * max(alignment.prominence, 0.0)

    def unmoved(self) -> Indices:
        """The start without shifts."""
        return np.full(len(self.sites), _NO_SHIFT)

    def at_own_boundaries(self) -> Indices:
        """The start with every site at the boundary of its own curve."""
        own = [boundary_of(curve, LEVELS)[0] - _CENTRE for curve in self.curves]
        starts: Indices = np.clip(_NO_SHIFT + np.array(own), 0, len(SHIFTS) - 1)
        return starts

    def from_start(self, shifts: Indices) -> Alignment:
        """Sweep until nothing moves; the fractions of steps come last."""
        for _ in range(_SWEEPS):
            before = shifts.copy()
            for site in self.sites.tolist() if len(self.sites) > 1 else ():
                shifts[site] = int(np.argmax(self._correlations(site, shifts)))
            index, _ = boundary_of(self._template(shifts), self.positions, self._mean_shift(shifts))
            shifts = np.clip(shifts + index - self.middle, 0, len(SHIFTS) - 1)
            if (shifts == before).all():
                break
        template = self._template(shifts)
        _, beyond = boundary_of(template, self.positions, self._mean_shift(shifts))
        correlations = np.array([self._correlations(site, shifts) for site in self.sites.tolist()])
        fine = SHIFTS[shifts] + STEP * np.array(list(self._fractions(correlations, shifts)))
        origin = origin_of(template, self.positions) - beyond * STEP
        return Alignment(
            biases=-(fine + beyond * STEP) - origin,
            origin=origin,
            correlations=correlations[self.sites, shifts],
            prominence=self._prominence(template),
            templates=tuple(
                self._others(site, shifts) if len(self.sites) > 1 else None for site in self.sites.tolist()
            ),
        )

    def _mean_shift(self, shifts: Indices) -> float:
        return float(SHIFTS[shifts[self.members]].mean())

    def _others(self, site: int, shifts: Indices) -> Template:
        others = self.members[self.members != site] if len(self.sites) > 1 else self.sites
        return self.windows.mean_at(shifts, min(2, len(others)), others, centred=True)

    def _correlations(self, site: int, shifts: Indices) -> Floats:
        own = Windows(self.windows.values[site], self.windows.known[site])
        return own.correlations(self._others(site, shifts))

    def _template(self, shifts: Indices) -> Floats:
        mean = self.wide.mean_at(shifts, 0.5 * len(self.members), self.members, centred=False)
        return np.where(mean.known, mean.values, np.nan)

    def _fractions(self, correlations: Floats, shifts: Indices) -> Iterator[float]:
        """By which fraction of a step each site's best shift is beyond the one of the grid."""
        for row, shift in zip(correlations, shifts.tolist(), strict=True):
            around = row[max(shift - 1, 0) : shift + 2]
            yield vertex_of(around) if len(self.sites) > 1 and len(around) == 3 and around.min() > -1 else 0.0

    def _prominence(self, template: Floats) -> float:
        near = slice(self.middle - _PROMINENCE_LEVELS, self.middle + _PROMINENCE_LEVELS + 1)
        chords = chords_of(template, _PROMINENCE_CHORD)[near]
        return float(np.nanmax(chords) / np.nanmean(template)) if np.isfinite(chords).any() else 0.0


def _near_median(values: Floats, known: Floats) -> Floats:
    """Values of sites ``(K, levels)`` no farther from the sites' median than allowed; of two sites and one as they are.

    Absent ones stay 0.
    """
    if len(values) < 3:
        return values
    present = known > 0
    middle = np.zeros(values.shape[1])
    some = present.any(axis=0)
    middle[some] = np.nanmedian(np.where(present[:, some], values[:, some], np.nan), axis=0)
    departure = THRESHOLDS.max_site_departure
    return np.where(present, np.clip(values, middle - departure, middle + departure), 0.0)
