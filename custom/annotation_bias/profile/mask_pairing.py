"""Whether a site's masks belong to its images: each mask is compared with the masks of the site's other patients.

A mask may be too large, an image blurred or noisy: then its boundary is not known. But the masks of other cases do not
fit that image better. If they do, clearly and often, masks are listed with other images.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ....transforms.array_types import Booleans, Floats
from .contours import signed_distance, unit_normals
from .image_change import GradientTensor, gradient_tensor, scaled_channels
from .scales import ProfileCase, ScaledCase, num_halvings, scaled_case
from .thresholds import THRESHOLDS

# Contours are moved so far inward and outward, in units of the finest spacing, to allow for a boundary bias.
_FARTHEST_LEVEL, _CHORD_LEVELS, _RING = 6, 4, 6.0
_LEVELS = np.arange(-_FARTHEST_LEVEL, _FARTHEST_LEVEL + 1)
_WIDE_LEVELS = np.arange(-_FARTHEST_LEVEL - _CHORD_LEVELS, _FARTHEST_LEVEL + _CHORD_LEVELS + 1)
_MIN_PIXELS, _MIN_WEIGHT = 12, 6.0
_WEIGHT_OF_CHANGE = 0.3
_MIN_OTHERS = 3
# Cases × cases × pixels: seconds, and some hundred megabytes.
_MOST_PRODUCTS = 1.6e8


class PairingStatus(StrEnum):
    """What masks of other cases say of a site's own."""

    OWN_IMAGES = "own_images"
    SOME_OF_OTHER_IMAGES = "some_of_other_images"
    OF_OTHER_IMAGES = "of_other_images"
    TOO_FEW_CASES = "too_few_cases"


@dataclass(frozen=True)
class MaskPairing:
    """How much better a site's masks of a class fit their images than the masks of other patients do.

    The advantage of a mask is its fit less the mean fit of the others, on its own image.

    Attributes:
        patients: behind it.
        cases: compared.
        advantage: mean over cases, in standard errors.
        lost_advantage: 1 − mean advantage / mean advantage of the best mask of each image, own or not.
        clearly_better: fraction of cases on whose image another mask fits better by 0.3.
        misplaced: fraction of cases whose mask has lost most of its advantage, and another fits better by 0.2.
        fitting_best: fraction of cases whose own mask fits best.
    """

    patients: int
    cases: int
    advantage: float
    lost_advantage: float
    clearly_better: float
    misplaced: float
    fitting_best: float

    @classmethod
    def absent(cls, patients: int = 0, cases: int = 0) -> "MaskPairing":
        """Return what stands for a class of which the site has too little."""
        return cls(patients, cases, 0.0, 0.0, 0.0, 0.0, 0.0)

    @property
    def status(self) -> PairingStatus:
        """Decide by the thresholds; one that is flagged needs a person to look."""
        if self.cases < THRESHOLDS.min_cases_of_pairing:
            return PairingStatus.TOO_FEW_CASES
        if (
            self.advantage < THRESHOLDS.max_advantage
            and self.lost_advantage >= THRESHOLDS.min_lost_advantage
            and self.clearly_better >= THRESHOLDS.min_clearly_better
        ):
            return PairingStatus.OF_OTHER_IMAGES
        if (
            self.patients >= THRESHOLDS.min_cases_of_pairing
            and self.misplaced >= THRESHOLDS.min_misplaced
            and self.fitting_best >= THRESHOLDS.min_fitting_best
            and self.misplaced + self.fitting_best >= THRESHOLDS.min_explained
        ):
            return PairingStatus.SOME_OF_OTHER_IMAGES
        return PairingStatus.OWN_IMAGES


def compare_masks(cases: Sequence[ProfileCase], label: int) -> MaskPairing:
    """Lay every mask of a site over every image of it, and compare each with the masks of other patients.

    At the coarse scale of the profile. Images of another size than most are not compared, nor are more cases than
    seconds allow: the first ones of the list.

    Args:
        cases: of the site; nothing leaves it but counts.
        label: the class.

    Raises:
        ValueError: when an image is not finite.
    """
    scaled = list(_comparable(cases, label))
    patients = [patient for patient, _ in scaled]
    if len(scaled) < THRESHOLDS.min_cases_of_pairing:
        return MaskPairing.absent(len(set(patients)), len(scaled))
    return pairing_of(fits([case for _, case in scaled]), patients)


def fits(cases: Sequence[ScaledCase]) -> Floats:
    """Return how well each mask fits each image, ``(N images, N masks)``; NaN where a mask is too small.

    The fit is F = max R² + 0.3 max C, both over distances of −6 to 6 units by which the contour is moved, as a boundary
    bias may be there. R² is the fraction of the image's variance, within six units of the contour, that inside and
    outside explain. C is the chord e(d) − ½ (e(d − 4) + e(d + 4)) of the change of the image along the contour's
    normals, e, divided by its mean.

    Args:
        cases: with images of one size.

    Raises:
        ValueError: when an image is not finite.
    """
    steps = np.asarray(cases[0].spacing) / min(cases[0].spacing)
    images = scaled_channels(np.stack([case.image for case in cases]).astype(np.float64))
    flat = images.reshape(*images.shape[:2], -1)
    squares = flat**2
    tensor = gradient_tensor(images, steps)
    columns = [_fits_of_mask(case, flat, squares, tensor, steps) for case in cases]
    return np.stack(columns, axis=1)


def pairing_of(table: Floats, patients: Sequence[str]) -> MaskPairing:
    """Compare each case's own mask with those of other patients.

    Args:
        table: fits ``(N images, N masks)``.
        patients: of each case, ``N``.
    """
    names = np.asarray(patients)
    own = np.diag(table)
    others = np.where(names[:, None] != names[None], table, np.nan)
    usable = np.isfinite(own) & (np.isfinite(others).sum(axis=1) >= _MIN_OTHERS)
    own, others = own[usable], others[usable]
    num, num_patients = len(own), len(set(names[usable].tolist()))
    if num < THRESHOLDS.min_cases_of_pairing:
        return MaskPairing.absent(num_patients, num)
    mean, best = np.nanmean(others, axis=1), np.nanmax(others, axis=1)
    advantage, most = own - mean, best - mean
    error = float(advantage.std(ddof=1)) / np.sqrt(num)
    is_misplaced = (best - own > THRESHOLDS.misplaced_difference) & (
        advantage < THRESHOLDS.max_relative_advantage * most
    )
    return MaskPairing(
        patients=num_patients,
        cases=num,
        advantage=float(advantage.mean() / max(error, 1e-9)),
        lost_advantage=float(1 - advantage.mean() / max(float(np.maximum(advantage, most).mean()), 1e-9)),
        clearly_better=float((best - own > THRESHOLDS.clear_difference).mean()),
        misplaced=float(is_misplaced.mean()),
        fitting_best=float((own >= best).mean()),
    )


def _comparable(cases: Sequence[ProfileCase], label: int) -> Iterator[tuple[str, ScaledCase]]:
    """The cases with enough of the class, with images of the most frequent size, with their patients."""
    have = [case for case in cases if np.count_nonzero(case.annotation == label) >= _MIN_PIXELS]
    if not have:
        return
    (form, _), *_ = Counter((case.image.shape, case.spacing) for case in have).most_common()
    alike = [case for case in have if (case.image.shape, case.spacing) == form]
    factor = 2 ** num_halvings(alike)
    pixels = scaled_case(alike[0], label, factor=factor).mask.size
    for case in alike[: int(np.sqrt(_MOST_PRODUCTS / pixels))]:
        yield case.patient, scaled_case(case, label, factor=factor)


def _fits_of_mask(case: ScaledCase, flat: Floats, squares: Floats, tensor: GradientTensor, steps: Floats) -> Floats:
    """The fit of one mask to every image ``(N,)``."""
    if min(np.count_nonzero(case.mask), np.count_nonzero(~case.mask)) < _MIN_PIXELS:
        return np.full(len(flat), np.nan)
    distance = signed_distance(case.mask, steps)
    counts = (~case.other).ravel()
    explained = _explained(distance.ravel(), counts, flat, squares)
    change = _change(distance, counts, tensor, steps)
    fit: Floats = explained + _WEIGHT_OF_CHANGE * change
    return np.where(np.isfinite(fit), fit, np.nan)


def _explained(distance: Floats, counts: Booleans, flat: Floats, squares: Floats) -> Floats:
    """The largest R² over levels, mean over channels, ``(N,)``; −∞ without a level."""
    depth = distance - _LEVELS[:, None]
    inside = ((depth <= 0) & (depth >= -_RING) & counts).astype(np.float64)
    outside = ((depth > 0) & (depth <= _RING) & counts).astype(np.float64)
    num_in, num_out = inside.sum(axis=1), outside.sum(axis=1)
    usable = np.minimum(num_in, num_out) >= _MIN_PIXELS
    if not usable.any():
        return np.full(len(flat), -np.inf)
    num_in, num_out, inside, outside = num_in[usable], num_out[usable], inside[usable], outside[usable]
    sum_in, sum_out = flat @ inside.T, flat @ outside.T
    correction = (sum_in + sum_out) ** 2 / (num_in + num_out)
    between = sum_in**2 / num_in + sum_out**2 / num_out - correction
    total = squares @ (inside + outside).T - correction
    best: Floats = (between / np.maximum(total, 1e-9)).mean(axis=1).max(axis=1)
    return best


def _change(distance: Floats, counts: Booleans, tensor: GradientTensor, steps: Floats) -> Floats:
    """The largest chord of the change along normals over levels, ``(N,)``; −∞ without a level."""
    normals = unit_normals(distance, steps).reshape(len(steps), -1)
    weight = np.clip(1 - np.abs(distance.ravel() - _WIDE_LEVELS[:, None]), 0.0, None) * counts
    trace = weight @ sum(normals[axis] ** 2 for axis in {first for first, _ in tensor})
    energy = sum(
        (1 if first == second else 2) * values @ (weight * normals[first] * normals[second]).T
        for (first, second), values in tensor.items()
    )
    usable = trace >= _MIN_WEIGHT
    if not usable.any():
        return np.full(len(next(iter(tensor.values()))), -np.inf)
    change = np.sqrt(np.maximum(energy[:, usable], 0.0) / trace[usable])
    change /= np.maximum(change.mean(axis=1, keepdims=True), 1e-9)
    places = np.flatnonzero(usable)
    # A level that the object is too small for has the value of the nearest one.
    nearest = np.abs(places - np.arange(len(_WIDE_LEVELS))[:, None]).argmin(axis=1)
    filled = change[:, nearest]
    inner = np.arange(_CHORD_LEVELS, len(_WIDE_LEVELS) - _CHORD_LEVELS)
    chords = filled[:, inner] - 0.5 * (filled[:, inner - _CHORD_LEVELS] + filled[:, inner + _CHORD_LEVELS])
    best: Floats = np.where(usable[inner], chords, -np.inf).max(axis=1)
    return best
