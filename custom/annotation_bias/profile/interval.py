"""The standard error of a site's boundary bias, from its patients drawn again; it is computed at the site."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ....transforms.array_types import Floats
from ..thresholds import THRESHOLDS
from .alignment import SHIFTS, WINDOW, Template, Windows
from .thresholds import PROFILE_THRESHOLDS


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
    curves: Sequence[Floats] | Floats, patients: Sequence[str], template: Template, *, seed: int
) -> ProfileInterval:
    """Return the interval of a site's bias: patients are drawn with replacement and aligned with the template.

    t_{0.95, n−1} √(SE² + 0.2²), SE being that of the draws times √(n / (n − 1)).

    Args:
        curves: of the site's cases ``(N, 97)``.
        patients: of each case, ``N``.
        template: of the other sites.
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
    num, draws = len(names), PROFILE_THRESHOLDS.bootstrap_draws
    drawn = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), draws).astype(np.float64)
    total = drawn @ counts
    means = np.where(total > 0, drawn @ sums / np.maximum(total, 1e-9), np.nan)
    best = Windows.of(means, WINDOW).correlations(template).argmax(axis=1)
    error = float(SHIFTS[best].std() * np.sqrt(num / (num - 1)))
    quantile = stats.t.ppf(0.5 + THRESHOLDS.interval_level / 2, num - 1)
    return ProfileInterval(error, float(quantile * np.hypot(error, PROFILE_THRESHOLDS.min_standard_error)))
