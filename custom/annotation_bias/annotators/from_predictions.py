"""How each annotator annotates compared with a model's predictions: the estimates of a site, over fewer cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..cases import PredictedCase
from ..confusion import are_of_known_classes, class_samples
from ..error_injection import UNTRIED, Calibration, calibrate_completeness, calibrate_confusion, calibrate_offset
from ..estimate import Estimate
from ..parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ..site_estimates import case_offsets, estimate_completeness, estimate_confused, median_offset


@dataclass(frozen=True)
class GroupEstimate:
    """An estimate of one parameter of a group of cases, and the patients behind it; it stays at the site.

    Attributes:
        estimate: the estimate.
        patients: behind it.
    """

    estimate: Estimate
    patients: frozenset[str] = frozenset()


# By parameter, what is known of a group of cases: those of a site, or of an annotator in it.
GroupEstimates = dict[ParameterKey, GroupEstimate]


@dataclass(frozen=True)
class SiteCalibrations:
    """How errors that are injected into the site's annotations show; by class.

    Attributes:
        boundary_bias: of contours.
        missed: of missed objects.
        confused: of objects of another class, all classes together.
    """

    boundary_bias: tuple[Calibration, ...]
    missed: tuple[Calibration, ...]
    confused: Calibration

    @classmethod
    def of(cls, cases: Sequence[PredictedCase], num_classes: int, *, seed: int) -> "SiteCalibrations":
        """Inject errors into copies of all cases of a site: those of one annotator are too few to tell.

        Args:
            cases: of the site.
            num_classes: number of foreground classes.
            seed: decides the errors.
        """
        labels = range(1, num_classes + 1)
        confused = UNTRIED
        if num_classes > 1 and len((samples := class_samples(cases)).labels):
            confused = calibrate_confusion(samples.probabilities, samples.labels, seed=seed)
        return cls(
            tuple(calibrate_offset(cases, label, seed=seed) for label in labels),
            tuple(calibrate_completeness(cases, label, seed=seed) for label in labels),
            confused,
        )


def prediction_estimates(
    cases_of: Mapping[str, Sequence[PredictedCase]],
    num_classes: int,
    calibrations: SiteCalibrations,
    *,
    seed: int,
) -> dict[str, GroupEstimates]:
    """Return boundary bias, missed and confused fraction of every annotator, by name; they stay at the site.

    The cases of one annotator are a group as those of a site are: the estimators are the same. A boundary bias is
    divided by the slope of the injected errors.

    Args:
        cases_of: by annotator, the cases with this annotator's annotations.
        num_classes: number of foreground classes.
        calibrations: of the site.
        seed: decides the intervals.
    """
    return {name: _of_group(cases_of[name], num_classes, calibrations, seed) for name in sorted(cases_of)}


def _of_group(
    cases: Sequence[PredictedCase], num_classes: int, calibrations: SiteCalibrations, seed: int
) -> GroupEstimates:
    result, everybody = GroupEstimates(), frozenset(case.unit for case in cases)
    for label in range(1, num_classes + 1):
        offsets = case_offsets(cases, label)
        bias = calibrations.boundary_bias[label - 1].of(median_offset(offsets, seed=seed)).corrected()
        result[ParameterKey(ParameterKind.OFFSET, label)] = GroupEstimate(
            bias, frozenset(case.unit for case, _ in offsets)
        )
        missed = _missed(estimate_completeness(cases, label, seed=seed))
        result[ParameterKey(ParameterKind.MISSING, label)] = GroupEstimate(
            calibrations.missed[label - 1].of(missed), everybody
        )
    result[CONFUSED_OBJECTS] = _confused(cases, num_classes, calibrations.confused, seed)
    return result


def _missed(recall: Estimate) -> Estimate:
    """The fraction that annotation recall leaves; what is annotated may be a little more than what is predicted."""
    ends = (1 - recall.value, 1 - recall.high, 1 - recall.low)
    return Estimate(recall.patients, *(float(np.clip(end, 0.0, 1.0)) for end in ends))


def _confused(cases: Sequence[PredictedCase], num_classes: int, calibration: Calibration, seed: int) -> GroupEstimate:
    if num_classes == 1 or not cases:
        return GroupEstimate(Estimate.unknown())
    samples = class_samples(cases)
    known = are_of_known_classes(samples.probabilities, samples.labels)
    patients = frozenset(unit for unit, is_known in zip(samples.units, known, strict=True) if is_known)
    return GroupEstimate(calibration.of(estimate_confused(samples, seed=seed)), patients)
