"""What the estimates of all sites prove: deviations that are significant, large enough, and of a kind that is seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .anchor import Anchor, deviation_of
from .estimate import Estimate
from .thresholds import THRESHOLDS

# Why nothing is told of a site although it is known how far it is from the others.
UNKNOWN_ZERO = "it is not known where neutral lies"
_UNTRIED = "known errors could not be tried"


@dataclass(frozen=True)
class Criterion:
    """When a parameter of a site deviates.

    Attributes:
        neutral: its value where nothing is wrong, such as the anchor of the offsets.
        floor: smaller deviations are not acted on: 0.5 px of the network's resolution for an offset.
        deviation: standard deviation of the neutral value.
        smallest_auroc: a self-calibration below this cannot tell.
        slopes: nor can one whose slope is outside of these.
        doubted: why nothing can be told whatever the estimate is; None where it can.
    """

    neutral: float
    floor: float
    deviation: float = 0.0
    smallest_auroc: float = THRESHOLDS.min_auroc
    slopes: tuple[float, float] = THRESHOLDS.slopes
    doubted: str | None = None

    @classmethod
    def of_anchor(cls, anchor: Anchor, floor: float) -> "Criterion":
        """Return the criterion of offsets: zero is where the anchor is."""
        doubted = None if anchor.is_sure else UNKNOWN_ZERO
        return cls(anchor.value, floor, anchor.deviation, doubted=doubted)

    def doubt(self, estimate: Estimate) -> str | None:
        """Return why nothing can be told; None where it can. What was not calibrated cannot be told."""
        if self.doubted is not None:
            return self.doubted
        if not estimate.auroc >= self.smallest_auroc:
            if math.isnan(estimate.auroc):
                return _UNTRIED
            return f"a known error is told from none with an AUROC of {estimate.auroc:.2f} only"
        if math.isnan(estimate.slope):
            return _UNTRIED
        if not self.slopes[0] <= estimate.slope <= self.slopes[1]:
            return f"of a known error the estimate shows {estimate.slope:.2f} times as much"
        return None


@dataclass(frozen=True)
class Finding:
    """What is known of one parameter of one site.

    Attributes:
        established: whether the deviation is.
        deviation: the estimate less the neutral value; NaN where there is none.
        p_value: corrected for all sites and parameters; NaN where it was not tested.
        reason: evidence and threshold in words.
    """

    established: bool
    deviation: float
    p_value: float
    reason: str


def established(
    estimates: Mapping[str, Mapping[str, Estimate]],
    criteria: Mapping[str, Mapping[str, Criterion]],
    *,
    level: float = THRESHOLDS.test_level,
) -> dict[str, dict[str, Finding]]:
    """Decide which parameters of which sites deviate from neutral (Holm over all of them).

    A deviation is established if its corrected p-value is at most the level, it exceeds the floor, and the site's
    self-calibration says that such an error would be seen there. The p-value is that of a t-test with the estimate's
    interval as its standard error, on one patient less than there are.

    Args:
        estimates: by site and parameter.
        criteria: likewise, as a site may have a zero of its own; what has none is not judged.
        level: of the whole family of tests.
    """
    keys = [
        (site, name)
        for site in sorted(estimates)
        for name in sorted(estimates[site])
        if name in criteria.get(site, {})
        and estimates[site][name].is_known
        # What cannot be told is not tested, and makes nothing else harder to prove.
        and criteria[site][name].doubt(estimates[site][name]) is None
    ]
    p_values = [_p_value(estimates[site][name], criteria[site][name]) for site, name in keys]
    corrected = dict(zip(keys, holm(p_values), strict=True))
    return {
        site: {
            name: _finding(estimates[site][name], criteria[site][name], corrected.get((site, name)), level)
            for name in sorted(estimates[site])
            if name in criteria.get(site, {})
        }
        for site in sorted(estimates)
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm, 1979).

    Whoever rejects where a corrected p-value is at most α makes any false rejection at all, be it one or several, with
    a probability of at most α (family-wise error rate), however the tests depend on each other.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    rising = np.minimum(np.maximum.accumulate(np.asarray(p_values, dtype=np.float64)[order] * factors), 1.0)
    corrected = np.empty(len(p_values))
    corrected[order] = rising
    return [float(value) for value in corrected]


def _p_value(estimate: Estimate, criterion: Criterion) -> float:
    deviation = abs(estimate.value - criterion.neutral)
    error = math.hypot(deviation_of(estimate), criterion.deviation)
    if error == 0 or estimate.patients < 2:
        # An interval without width says nothing of how sure it is where there is one patient, and everything else.
        return 1.0 if deviation == 0 or estimate.patients < 2 else 0.0
    return float(2 * stats.t.sf(deviation / error, estimate.patients - 1))


def _finding(estimate: Estimate, criterion: Criterion, p_value: float | None, level: float) -> Finding:
    if not estimate.is_known:
        why = criterion.doubted or "there is no estimate"
        return Finding(False, math.nan, math.nan, f"Cannot tell: {why}.")
    deviation = estimate.value - criterion.neutral
    if p_value is None:
        return Finding(False, deviation, math.nan, f"Cannot tell: {criterion.doubt(estimate)} ({deviation:+.2f}).")
    shown = f"{deviation:+.2f} from neutral, corrected p = {p_value:.3f}"
    if p_value > level:
        return Finding(False, deviation, p_value, f"Not established: {shown}, above {level:g}.")
    if abs(deviation) < criterion.floor:
        return Finding(False, deviation, p_value, f"Too small to act on: {shown}, below the floor {criterion.floor:g}.")
    return Finding(True, deviation, p_value, f"Established: {shown}, at least {criterion.floor:g}.")
