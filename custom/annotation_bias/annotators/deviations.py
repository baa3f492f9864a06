"""Which annotators of a site deviate from the others, and how: the tests of sites, with annotators as the groups."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np

from ..estimate import MEDIAN_SPREAD, Estimate
from ..parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ..reference_level import standard_error_of
from ..significance import Criterion, effect_tests
from ..statuses import Evidence, EvidenceCode, Status, TestResult
from ..thresholds import THRESHOLDS
from .from_consensus import MAJORITY, ConsensusEstimates
from .from_predictions import GroupEstimates

# By name and parameter the estimate, and what its test says.
Tested = dict[str, dict[ParameterKey, tuple[Estimate, TestResult]]]


@dataclass(frozen=True)
class MinimumEffects:
    """What an annotator may differ by, and whoever differs by more deviates.

    Attributes:
        boundary_bias: in the unit of the estimates.
        fraction: of missed or confused objects.
        resolution: no contour is more precise than this, in the unit of the estimates.
    """

    boundary_bias: float
    fraction: float
    resolution: float

    @classmethod
    def of_pixels(cls, boundary_bias: float, fraction: float, pixel_size: float) -> "MinimumEffects":
        """Return them for a boundary bias in pixels.

        Args:
            boundary_bias: in pixels of the network's images.
            fraction: see above.
            pixel_size: in millimetres; 1 where lengths are in pixels.
        """
        return cls(boundary_bias * pixel_size, fraction, THRESHOLDS.reviewed_resolution * pixel_size)


def consensus_tests(
    estimates: Mapping[str, ConsensusEstimates], minimum: MinimumEffects, *, level: float = THRESHOLDS.test_level
) -> Tested:
    """Test who deviates from the majority of the annotators of the same cases.

    A boundary bias is confirmed if that from the others alone has the same sign, and an interval without 0: what a
    deviating annotator has moved the majority by is no deviation of the others. Fractions are compared with the median
    annotator. Where cases have two of at least three annotators, the differences of pairs are compared with the median
    annotator. Of two annotators in all nothing can be told, and the distance from the other one is returned.

    Args:
        estimates: by annotator.
        minimum: smaller effects are not confirmed.
        level: of the family of tests of each kind of parameter, by Holm.
    """
    chosen = {name: _of_consensus(of_name) for name, of_name in estimates.items()}
    of_two = {name: {key for key in of_name if _is_of_two(estimates[name], key)} for name, of_name in chosen.items()}
    centres = {
        key: _centre([of_name[key] for of_name in chosen.values()])
        for key in _keys(chosen)
        if key.kind is not ParameterKind.OFFSET
    }
    criteria = {
        name: {
            key: _criterion(key, *centres.get(key, (0.0, 0.0)), minimum, Evidence(EvidenceCode.TWO_ANNOTATORS))
            if key in of_two[name]
            else _criterion(key, *centres.get(key, (0.0, 0.0)), minimum)
            for key in of_name
        }
        for name, of_name in chosen.items()
    }
    tested = _tested(chosen, criteria, level)
    for name, of_name in tested.items():
        for key, (estimate, result) in of_name.items():
            if key.kind is not ParameterKind.OFFSET:
                continue
            if _source(estimates[name], key.label) is _Source.PAIRS:
                evidence = (*result.evidence, Evidence(EvidenceCode.PAIRS))
                of_name[key] = estimate, replace(result, evidence=evidence)
            elif result.is_confirmed:
                others = estimates[name].from_others[key.label - 1]
                if not _has_sign(others, estimate.value):
                    of_name[key] = estimate, replace(result, status=Status.NOT_SIGNIFICANT)
    return tested


def prediction_tests(
    estimates: Mapping[str, GroupEstimates], minimum: MinimumEffects, *, level: float = THRESHOLDS.test_level
) -> Tested:
    """Test who deviates from the median annotator of the site, as the model's predictions show it.

    The model's own bias is the same for all and cancels. With fewer than three annotators that have enough patients
    nothing can be told.

    Args:
        estimates: by annotator.
        minimum: smaller effects are not confirmed.
        level: see :func:`consensus_tests`.
    """
    chosen = {name: _of_predictions(of_name) for name, of_name in estimates.items()}
    criteria: dict[str, dict[ParameterKey, Criterion]] = {name: {} for name in chosen}
    for key in _keys(chosen):
        enough = [of_name[key] for of_name in chosen.values() if has_enough(of_name[key])]
        doubt = None if len(enough) >= MAJORITY else Evidence(EvidenceCode.TWO_ANNOTATORS)
        for name in chosen:
            criteria[name][key] = _criterion(key, *_centre(enough), minimum, doubt)
    return _tested(chosen, criteria, level)


def has_enough(estimate: Estimate) -> bool:
    """Return whether an estimate is known, and of enough patients to say whether an annotator deviates."""
    return estimate.is_known and estimate.patients >= THRESHOLDS.min_patients_of_annotator


def _tested(
    chosen: Mapping[str, Mapping[ParameterKey, Estimate]],
    criteria: Mapping[str, Mapping[ParameterKey, Criterion]],
    level: float,
) -> Tested:
    """Test those with enough patients; the others are unknown for that."""
    enough = {
        name: {key: one if has_enough(one) else Estimate.unknown(one.patients) for key, one in of_name.items()}
        for name, of_name in chosen.items()
    }
    results = effect_tests(enough, criteria, level=level)
    return {
        name: {
            key: (one, results[name][key] if has_enough(one) else _too_few(one)) for key, one in chosen[name].items()
        }
        for name in sorted(chosen)
    }


def _too_few(estimate: Estimate) -> TestResult:
    numbers = {"patients": float(estimate.patients), "needed": float(THRESHOLDS.min_patients_of_annotator)}
    why = Evidence(EvidenceCode.FEW_PATIENTS, numbers)
    return TestResult(math.nan, math.nan, math.nan, Status.UNKNOWN, (why,))


def _of_consensus(estimates: ConsensusEstimates) -> dict[ParameterKey, Estimate]:
    """What is tested of an annotator; nothing of masks has to be calibrated."""
    result = {}
    columns = (estimates.from_others, estimates.from_majority, estimates.from_pairs, estimates.missed)
    for label, (others, majority, pairs, missed) in enumerate(zip(*columns, strict=True), start=1):
        by_source = {_Source.MAJORITY: majority, _Source.PAIRS: pairs, _Source.OTHER: others}
        result[ParameterKey(ParameterKind.OFFSET, label)] = by_source[_source(estimates, label)]
        result[ParameterKey(ParameterKind.MISSING, label)] = missed
    result[CONFUSED_OBJECTS] = estimates.confused
    return {key: replace(one, slope=1.0, auroc=1.0) for key, one in result.items() if one.patients}


class _Source(Enum):
    """What a boundary bias is compared with: the majority, the median annotator by pairs, or the other one of two."""

    MAJORITY = auto()
    PAIRS = auto()
    OTHER = auto()


def _source(estimates: ConsensusEstimates, label: int) -> _Source:
    """The first of these with enough patients; else the majority where there is one."""
    majority, pairs = estimates.from_majority[label - 1], estimates.from_pairs[label - 1]
    if has_enough(majority) or (majority.patients and not has_enough(pairs)):
        return _Source.MAJORITY
    return _Source.PAIRS if has_enough(pairs) else _Source.OTHER


def _is_of_two(estimates: ConsensusEstimates, key: ParameterKey) -> bool:
    return key.kind is ParameterKind.OFFSET and _source(estimates, key.label) is _Source.OTHER


def _of_predictions(estimates: GroupEstimates) -> dict[ParameterKey, Estimate]:
    return {key: one.estimate for key, one in estimates.items() if one.estimate.patients}


def _keys(chosen: Mapping[str, Mapping[ParameterKey, Estimate]]) -> list[ParameterKey]:
    return sorted({key for of_name in chosen.values() for key in of_name})


def _criterion(
    key: ParameterKey, reference: float, error: float, minimum: MinimumEffects, doubt: Evidence | None = None
) -> Criterion:
    if key.kind is ParameterKind.OFFSET:
        return Criterion.of_offsets(reference, minimum.boundary_bias, math.hypot(error, minimum.resolution), doubt)
    return Criterion(reference, minimum.fraction, error, untestable_because=doubt)


def _centre(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """The median of the annotators with enough patients, and its standard error."""
    known = [one for one in estimates if has_enough(one)]
    if not known:
        return 0.0, 0.0
    squares = [standard_error_of(one) ** 2 for one in known]
    error = MEDIAN_SPREAD * math.sqrt(float(np.mean(squares)) / len(known))
    return float(np.median([one.value for one in known])), error


def _has_sign(estimate: Estimate, value: float) -> bool:
    """Whether the whole interval of an estimate is on the side of a value."""
    return estimate.is_known and (estimate.low > 0 if value > 0 else estimate.high < 0)
