"""Whether a site's annotations are to be moved as a whole, by the shifts that its classes show."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ....transforms.array_types import Floats
from ...outbound.fields import MINIMUM_CASES
from .site_shift import SiteShift
from .thresholds import THRESHOLDS


class ShiftStatus(StrEnum):
    """Whether all masks can be moved back, or why not."""

    CORRECTABLE = "correctable"
    UNKNOWN = "unknown"
    TOO_FEW_PATIENTS = "too_few_patients"
    CLASSES_DIFFER = "classes_differ"
    TOO_SMALL = "too_small"


@dataclass(frozen=True)
class WholeShift:
    """By how far a site's annotations lie from where they belong, all classes together.

    Attributes:
        status: whether they can be moved back.
        patients: behind it, of the class with the fewest that counts; 0 where none does.
        vector: where annotations are, less where they belong, along each axis in millimetres, pixels without spacing;
            empty where no class says it, and where classes differ.
    """

    status: ShiftStatus
    patients: int = 0
    vector: tuple[float, ...] = ()


def shift_of_all_masks(shifts: Sequence[SiteShift]) -> WholeShift:
    """Return the shift that the classes of a site have in common; it stays at the site.

    The classes whose shift is known count, by the precision along each axis. Their intervals are taken as those of one
    estimate: they are of the same cases. Classes differ where two of them are farther from each other than both
    intervals and the minimum effect.

    Args:
        shifts: of each class.
    """
    known = [shift for shift in shifts if shift.is_known]
    if not known:
        return WholeShift(ShiftStatus.UNKNOWN)
    patients = min(shift.patients for shift in known)
    if patients < MINIMUM_CASES:
        return WholeShift(ShiftStatus.TOO_FEW_PATIENTS, patients)
    if any(_differ(*pair) for pair in itertools.combinations(known, 2)):
        return WholeShift(ShiftStatus.CLASSES_DIFFER, patients)
    together = _together(known, patients)
    status = ShiftStatus.CORRECTABLE if together.is_significant else ShiftStatus.TOO_SMALL
    return WholeShift(status, patients, together.vector)


def _differ(one: SiteShift, other: SiteShift) -> bool:
    widths = np.hypot(one.half_width, other.half_width)
    away = np.abs(np.subtract(one.vector, other.vector))
    return bool((away > widths + THRESHOLDS.min_shift * np.asarray(one.pixel)).any())


def _together(shifts: Sequence[SiteShift], patients: int) -> SiteShift:
    """The mean of the classes, each axis by itself; 0 along an axis of which none says anything."""
    widths = np.array([shift.half_width for shift in shifts])
    weights: Floats = np.where(np.isfinite(widths), 1 / widths**2, 0.0)
    totals = weights.sum(axis=0)
    is_said = totals > 0

    def mean(values: Floats, absent: float) -> tuple[float, ...]:
        sums = (weights * np.where(weights > 0, values, 0.0)).sum(axis=0)
        return tuple(np.where(is_said, sums / np.where(is_said, totals, 1.0), absent).tolist())

    return SiteShift(
        patients,
        mean(np.array([shift.vector for shift in shifts]), 0.0),
        mean(np.array([shift.standard_error for shift in shifts]), np.nan),
        mean(widths, np.inf),
        shifts[0].pixel,
        min(shift.prominence for shift in shifts),
        min(shift.agreement for shift in shifts),
    )
