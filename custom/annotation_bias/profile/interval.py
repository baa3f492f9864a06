"""The standard error of a site's boundary bias, from its patients drawn again; it is computed at the site."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from ....transforms.array_types import Floats
from ..thresholds import THRESHOLDS as OF_ESTIMATES
from .alignment import SHIFTS, WINDOW, Template, Windows, boundary_of
from .curves import LEVELS
from .thresholds import THRESHOLDS


def standard_error(
    curves: Sequence[Floats] | Floats, patients: Sequence[str], template: Template | None, *, seed: int
) -> float:
    """Return the standard error of a site's bias, in pixels: patients are drawn again and aligned with the template.

    It is that of the draws times √(n / (n − 1)), infinite for one patient. Of one site alone each draw has the boundary
    of its own curve.

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
        return np.inf
    of_patient = np.array([[patient == name for patient in patients] for name in names], dtype=np.float64)
    known = np.isfinite(table)
    sums, counts = of_patient @ np.where(known, table, 0.0), of_patient @ known.astype(np.float64)
    num, draws = len(names), THRESHOLDS.bootstrap_draws
    drawn = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), draws).astype(np.float64)
    total = drawn @ counts
    means = np.where(total > 0, drawn @ sums / np.maximum(total, 1e-9), np.nan)
    places = places_of_draws(means, template)
    return float(places.std() * np.sqrt(num / (num - 1)))


def half_width(error: float, patients: int, *, is_alone: bool) -> float:
    """Return half of the 90 % interval, t_{0.95, n−1} √(SE² + 0.2²), in pixels; infinite for one patient.

    Of one site alone 0.6 stands in place of 0.2: nobody else confirms that boundary.

    Args:
        error: the standard error.
        patients: n.
        is_alone: whether there is no other site.
    """
    if patients < 2 or not np.isfinite(error):
        return np.inf
    least = THRESHOLDS.min_standard_error_alone if is_alone else THRESHOLDS.min_standard_error
    return student_quantile(patients) * float(np.hypot(error, least))


def student_quantile(patients: int) -> float:
    """Return t_{0.95, n−1}, so many standard errors to either side hold 90 %; infinite for one patient."""
    return float(stats.t.ppf(0.5 + OF_ESTIMATES.interval_level / 2, patients - 1)) if patients > 1 else np.inf


def places_of_draws(curves: Floats, template: Template | None) -> Floats:
    """Return where each of several curves ``(draws, 97)`` has its boundary, in pixels.

    Args:
        curves: drawn again.
        template: that each is aligned with; None of a site alone, of which each has the boundary of its own curve.
    """
    return _own_boundaries(curves) if template is None else _best_shifts(curves, template)


def _best_shifts(means: Floats, template: Template) -> Floats:
    """The shift of each draw's curve that fits the template best, in pixels."""
    shifts: Floats = SHIFTS[Windows.of(means, WINDOW).correlations(template).argmax(axis=1)]
    return shifts


def _own_boundaries(means: Floats) -> Floats:
    """Where each draw's curve has its boundary, in pixels."""
    return np.array([LEVELS[boundary_of(curve, LEVELS)[0]] for curve in means])
