"""What reviewed cases add: those of all sites together set the reference level, a site's own refine its estimate."""

import math
import statistics
from collections.abc import Collection

import numpy as np
from scipy import stats

from .estimate import INTERVAL_DEVIATIONS, MEDIAN_SPREAD, Estimate
from .reference_level import standard_error_of
from .thresholds import THRESHOLDS


def pooled_reference(estimates: Collection[Estimate]) -> Estimate | None:
    """Return the level of the reviewed cases of several sites together; None without any.

    Every patient counts, but no site for more than three times as many as the median site has, whatever it claims. From
    three sites on the level is the weighted median of theirs, so that a minority that lies moves it no further than to
    the next honest site; of two it is the weighted mean. The interval is that of all patients together.

    Args:
        estimates: of the sites, on the scale of one model; unknown ones, and those of one patient, do not count.

    Example:
        >>> three = [Estimate(3, value, value - 1.0, value + 1.0) for value in (0.1, 0.3, 0.2)]
        >>> level = pooled_reference(three)
        >>> level.patients, level.value
        (9, 0.2)
    """
    known = sorted(
        (estimate for estimate in estimates if estimate.is_known and estimate.patients > 1), key=lambda one: one.value
    )
    if not known:
        return None
    most = THRESHOLDS.max_claim_of_reviewed * statistics.median(one.patients for one in known)
    weights = np.array([min(one.patients, most) for one in known], dtype=np.float64)
    weights /= weights.sum()
    error = math.sqrt(sum((weight * _error(one)) ** 2 for weight, one in zip(weights, known, strict=True)))
    if len(known) < THRESHOLDS.min_sites_of_median:
        value = float(sum(weight * one.value for weight, one in zip(weights, known, strict=True)))
    else:
        value = _weighted_median([one.value for one in known], weights.tolist())
        error *= MEDIAN_SPREAD
    return _estimate(sum(one.patients for one in known), value, error)


def refined(estimate: Estimate, reviewed: Estimate, *, pixel_size: float) -> Estimate:
    """Return an estimate together with what a site's own reviewed cases say of the same.

    Both count by their precision. A few reviewed patients have the wider interval of Student's t, and a resolution
    below which no one reviews contours. Where both differ by more than their errors, the common error grows as much.

    Args:
        estimate: of all cases, such as the offset from the reference level, with the error of that in its interval.
        reviewed: of the site's reviewed cases.
        pixel_size: in the unit of both.

    Example:
        >>> of_all, of_three = Estimate(14, 6.0, 3.5, 8.5, 1.0, 0.55), Estimate(3, 6.0, 4.0, 8.0)
        >>> both = refined(of_all, of_three, pixel_size=1.0)
        >>> both.patients, round(both.value, 2), round(both.low, 2)
        (14, 6.0, 3.95)
    """
    if reviewed.patients < 2:
        return estimate
    errors = standard_error_of(estimate), math.hypot(_error(reviewed), THRESHOLDS.reviewed_resolution * pixel_size)
    if errors[0] == 0:
        return estimate
    weights = [1 / error**2 for error in errors]
    value = (weights[0] * estimate.value + weights[1] * reviewed.value) / sum(weights)
    disagreement = abs(estimate.value - reviewed.value) / math.hypot(*errors)
    error = max(1.0, disagreement) / math.sqrt(sum(weights))
    both = _estimate(max(estimate.patients, reviewed.patients), value, error)
    return Estimate(both.patients, both.value, both.low, both.high, estimate.slope, estimate.auroc)


def _error(estimate: Estimate) -> float:
    """The standard error of an estimate of few patients, as much wider as Student's t is than a normal distribution."""
    return standard_error_of(estimate) * float(stats.t.ppf(0.95, estimate.patients - 1)) / INTERVAL_DEVIATIONS


def _estimate(patients: int, value: float, error: float) -> Estimate:
    return Estimate(patients, value, value - INTERVAL_DEVIATIONS * error, value + INTERVAL_DEVIATIONS * error)


def _weighted_median(ascending: list[float], weights: list[float]) -> float:
    """The value up to which half of the weight lies; between two where it ends there exactly."""
    reached = 0.0
    for index, weight in enumerate(weights):
        reached += weight
        if math.isclose(reached, 0.5):
            return (ascending[index] + ascending[index + 1]) / 2
        if reached > 0.5:
            return ascending[index]
    return ascending[-1]
