"""The standard error of a site's boundary bias, from its patients drawn again; it is computed at the site."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ....transforms.array_types import Floats
from ..thresholds import THRESHOLDS as OF_ESTIMATES
from .alignment import SHIFTS, WINDOW, Template, Windows, boundary_of
from .curves import LEVELS
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class ProfileInterval:
    """How certain a site's boundary bias is.

    Attributes:
        standard_error: over patients, in pixels; infinite for one patient.
        half_width: of the 90 % interval, in pixels.
    """

    standard_error: float
    half_width: float


def profile_interval(
    curves: Sequence[Floats] | Floats, patients: Sequence[str], template: Template | None, *, seed: int
) -> ProfileInterval:
    """Return the interval of a site's bias: patients are drawn with replacement and aligned with the template.

    t_{0.95, n−1} √(SE² + 0.2²), SE being that of the draws times √(n / (n − 1)). Of one site alone each draw has the
    boundary of its own curve, and 0.6 stands in place of 0.2: nobody else confirms that boundary.

    Args:
        curves: of the site's cases ``(N, 97)``.
        patients: of each case, ``N``.
        template: of the other sites; None of one site alone.
        seed: decides the draws.

    Raises:
        ValueError: when there is no case, or the patients are of another number.
    """
    table = np.asarray(curves, dtype=np.float64)
    if not len(table) or len(table) != len(patients):
        raise ValueError(f"Expected the patient of each of at least one case, but got {len(patients)} of {len(table)}.")
    names = sorted(set(patients))
    if len(names) < 2:
        return ProfileInterval(np.inf, np.inf)
    of_patient = np.array([[patient == name for patient in patients] for name in names], dtype=np.float64)
    known = np.isfinite(table)
    sums, counts = of_patient @ np.where(known, table, 0.0), of_patient @ known.astype(np.float64)
    num, draws = len(names), THRESHOLDS.bootstrap_draws
    drawn = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), draws).astype(np.float64)
    total = drawn @ counts
    means = np.where(total > 0, drawn @ sums / np.maximum(total, 1e-9), np.nan)
    places = _own_boundaries(means) if template is None else _best_shifts(means, template)
    error = float(places.std() * np.sqrt(num / (num - 1)))
    least = THRESHOLDS.min_standard_error_alone if template is None else THRESHOLDS.min_standard_error
    quantile = stats.t.ppf(0.5 + OF_ESTIMATES.interval_level / 2, num - 1)
    return ProfileInterval(error, float(quantile * np.hypot(error, least)))


def _best_shifts(means: Floats, template: Template) -> Floats:
    """The shift of each draw's curve that fits the template best, in pixels."""
    shifts: Floats = SHIFTS[Windows.of(means, WINDOW).correlations(template).argmax(axis=1)]
    return shifts


def _own_boundaries(means: Floats) -> Floats:
    """Where each draw's curve has its boundary, in pixels."""
    return np.array([LEVELS[boundary_of(curve, LEVELS)[0]] for curve in means])
