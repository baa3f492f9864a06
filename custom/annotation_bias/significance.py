"""What the estimates of all sites show: effects that are significant, large enough, and of a kind that is seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from .estimate import Estimate
from .parameters import ParameterKey, ParameterKind
from .reference_level import standard_error_of
from .statuses import Evidence, EvidenceCode, ReferenceLevel, Status, TestResult
from .thresholds import THRESHOLDS

_UNTRIED = Evidence(EvidenceCode.INJECTED_ERRORS_UNTRIED)


@dataclass(frozen=True)
class Criterion:
    """When the effect of a parameter is confirmed.

    Attributes:
        reference: its value where nothing is wrong, such as the reference level of the boundary bias.
        minimum_effect: smaller effects are not corrected: 0.5 px of the network's resolution for a boundary bias.
        standard_error: of the reference.
        smallest_auroc: an error injection with a smaller AUROC cannot tell; 0 asks for none.
        slopes: an error injection with a slope outside of these cannot tell either.
        untestable_because: why nothing can be tested whatever the estimate is; None where it can.
        follows: whether it is confirmed, too, once the same parameter of another site is, if correcting it is expected
            to make its squared error smaller; also where it cannot be tested by itself.
    """

    reference: float
    minimum_effect: float
    standard_error: float = 0.0
    smallest_auroc: float = THRESHOLDS.min_auroc
    slopes: tuple[float, float] = THRESHOLDS.slopes
    untestable_because: Evidence | None = None
    follows: bool = False

    @classmethod
    def of_reference_level(cls, level: ReferenceLevel, minimum_effect: float) -> "Criterion":
        """Return the criterion of a boundary bias against a reference level."""
        doubt = None if level.is_confident else Evidence(EvidenceCode.REFERENCE_UNSURE)
        return replace(
            cls.of_offsets(level.value, minimum_effect, level.standard_error, doubt), follows=level.all_follow
        )

    @classmethod
    def of_offsets(
        cls,
        reference: float,
        minimum_effect: float,
        standard_error: float = 0.0,
        untestable_because: Evidence | None = None,
    ) -> "Criterion":
        """Return the criterion of offsets, whose test asks for no AUROC.

        That says how far cases spread, in which an error of a pixel or two is lost. The spread is in the standard error
        already, and an offset of all cases may be many times that.
        """
        return cls(reference, minimum_effect, standard_error, 0.0, untestable_because=untestable_because)

    def doubt(self, estimate: Estimate) -> Evidence | None:
        """Return why nothing can be tested; None where it can. What was not calibrated cannot be."""
        if self.untestable_because is not None:
            return self.untestable_because
        if not estimate.auroc >= self.smallest_auroc:
            if math.isnan(estimate.auroc):
                return _UNTRIED
            return Evidence(EvidenceCode.AUROC_LOW, {"auroc": estimate.auroc})
        if math.isnan(estimate.slope):
            return _UNTRIED
        if not self.slopes[0] <= estimate.slope <= self.slopes[1]:
            return Evidence(EvidenceCode.SLOPE_OFF, {"slope": estimate.slope})
        return None


def effect_tests(
    estimates: Mapping[str, Mapping[ParameterKey, Estimate]],
    criteria: Mapping[str, Mapping[ParameterKey, Criterion]],
    *,
    level: float = THRESHOLDS.test_level,
) -> dict[str, dict[ParameterKey, TestResult]]:
    """Test which parameters of which sites differ from their reference.

    Each kind of parameter is a family of its own (Holm over its sites and classes): tests of missed objects make no
    boundary bias harder to prove. Where all sites follow to the image boundary, Holm bounds the probability that any
    is corrected without reason. Once one is, an effect of at least √2 standard errors is confirmed, too. For e² − SE²
    is without bias for the squared error that stays, and SE² is what a correction leaves.

    An effect is confirmed if its corrected p-value is at most the level, it is at least the minimum effect, and the
    site's error injection says that such an error would be seen there. Of a fraction only more than the reference is a
    fault. The p-value is that of a two-sided t-test, with
    the standard error from the interval, and n − 1 degrees of freedom for n patients if the estimate has no others.

    Args:
        estimates: by site and parameter.
        criteria: by site and parameter, since a site may have its own reference level. A parameter without one is not
            tested.
        level: of each family of tests.
    """
    keys = [
        (site, name)
        for site in sorted(estimates)
        for name in sorted(estimates[site])
        if name in criteria.get(site, {})
        and estimates[site][name].is_known
        # What cannot be decided is not tested, and makes nothing else harder to prove.
        and criteria[site][name].doubt(estimates[site][name]) is None
    ]
    corrected: dict[tuple[str, ParameterKey], float] = {}
    for kind in ParameterKind:
        family = [(site, name) for site, name in keys if name.kind is kind]
        p_values = [_p_value(estimates[site][name], criteria[site][name]) for site, name in family]
        corrected |= zip(family, holm(p_values), strict=True)
    results = {
        site: {
            name: _result(name.kind, estimates[site][name], criteria[site][name], corrected.get((site, name)), level)
            for name in sorted(estimates[site])
            if name in criteria.get(site, {})
        }
        for site in sorted(estimates)
    }
    confirmed = {name for found in results.values() for name, result in found.items() if result.is_confirmed}
    return {
        site: {
            name: _following(result, criteria[site][name])
            if name in confirmed and estimates[site][name].patients > 1
            else result
            for name, result in found.items()
        }
        for site, found in results.items()
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


def _standard_error(estimate: Estimate, criterion: Criterion) -> float:
    return math.hypot(standard_error_of(estimate), criterion.standard_error)


def _p_value(estimate: Estimate, criterion: Criterion) -> float:
    effect, error = abs(estimate.value - criterion.reference), _standard_error(estimate, criterion)
    if error == 0 or estimate.patients < 2:
        # An interval without width says nothing of how sure it is where there is one patient, and everything else.
        return 1.0 if effect == 0 or estimate.patients < 2 else 0.0
    own = estimate.degrees_of_freedom
    return float(2 * stats.t.sf(effect / error, estimate.patients - 1 if math.isnan(own) else own))


def _result(
    kind: ParameterKind, estimate: Estimate, criterion: Criterion, p_value: float | None, level: float
) -> TestResult:
    if not estimate.is_known:
        why = criterion.untestable_because or Evidence(EvidenceCode.NO_ESTIMATE)
        return TestResult(math.nan, math.nan, math.nan, Status.UNKNOWN, (why,))
    effect, error = estimate.value - criterion.reference, _standard_error(estimate, criterion)
    if p_value is None:
        doubt = criterion.doubt(estimate)
        return TestResult(effect, error, math.nan, Status.UNKNOWN, () if doubt is None else (doubt,))
    if p_value > level:
        status = Status.NOT_SIGNIFICANT
    else:
        fault = effect if kind.is_fraction else abs(effect)
        status = Status.CONFIRMED if fault >= criterion.minimum_effect else Status.SMALL
    thresholds = Evidence(EvidenceCode.THRESHOLDS, {"level": level, "minimum_effect": criterion.minimum_effect})
    return TestResult(effect, error, p_value, status, (thresholds,))


def _following(result: TestResult, criterion: Criterion) -> TestResult:
    """The result of a site that follows the others; as it is where it does not."""
    least = max(criterion.minimum_effect, math.sqrt(2) * result.standard_error)
    why = criterion.untestable_because
    is_open = result.status is Status.NOT_SIGNIFICANT or (
        why is not None and why.code is EvidenceCode.BOUNDARY_NOT_SHOWN
    )
    if is_open and criterion.follows and abs(result.effect) >= least:
        return replace(
            result, status=Status.CONFIRMED, evidence=(*result.evidence, Evidence(EvidenceCode.FOLLOWS_OTHERS))
        )
    return result
