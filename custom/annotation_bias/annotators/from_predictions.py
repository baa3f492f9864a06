"""How each annotator annotates compared with a model's predictions: the estimates of a site, over fewer cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..cases import PredictedCase
from ..confusion import class_samples
from ..error_injection import UNTRIED, Calibration, calibrate_completeness, calibrate_confusion, calibrate_offset
from ..estimate import Estimate
from ..site_estimates import estimate_completeness, estimate_confused, estimate_offset


@dataclass(frozen=True)
class PredictionEstimates:
    """How one annotator annotates compared with the predictions; by class, it stays at the site.

    Attributes:
        boundary_bias: distance of annotated contours from the predicted ones, divided by the slope of injected errors.
        missed: fraction of the objects that are not annotated, as predictions show it.
        confused: fraction of the annotated objects, of all classes, that look like another class.
    """

    boundary_bias: tuple[Estimate, ...]
    missed: tuple[Estimate, ...]
    confused: Estimate


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
) -> dict[str, PredictionEstimates]:
    """Return the estimates of every annotator, by name; they stay at the site.

    The cases of one annotator are a group as those of a site are: the estimators are the same.

    Args:
        cases_of: by annotator, the cases with this annotator's annotations.
        num_classes: number of foreground classes.
        calibrations: of the site.
        seed: decides the intervals.
    """
    labels = range(1, num_classes + 1)
    return {
        name: PredictionEstimates(
            tuple(
                one.of(estimate_offset(cases_of[name], label, seed=seed)).corrected()
                for label, one in zip(labels, calibrations.boundary_bias, strict=True)
            ),
            tuple(
                one.of(_missed(estimate_completeness(cases_of[name], label, seed=seed)))
                for label, one in zip(labels, calibrations.missed, strict=True)
            ),
            calibrations.confused.of(_confused(cases_of[name], num_classes, seed)),
        )
        for name in sorted(cases_of)
    }


def _missed(recall: Estimate) -> Estimate:
    """The fraction that annotation recall leaves; what is annotated may be a little more than what is predicted."""
    ends = (1 - recall.value, 1 - recall.high, 1 - recall.low)
    return Estimate(recall.patients, *(float(np.clip(end, 0.0, 1.0)) for end in ends))


def _confused(cases: Sequence[PredictedCase], num_classes: int, seed: int) -> Estimate:
    if num_classes == 1 or not cases:
        return Estimate.unknown()
    samples = class_samples(cases)
    return estimate_confused(samples, seed=seed) if len(samples.labels) else Estimate.unknown()
