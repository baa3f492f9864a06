"""What a site reports of how it annotates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ....transforms.printable import printable_logger
from ...annotation_bias.bootstrap import median_interval
from ...annotation_bias.boundary_bias import mask_offset
from ...annotation_bias.cases import PredictedCase
from ...annotation_bias.confusion import are_of_known_classes, class_samples, confused_share, exchanged_part
from ...annotation_bias.error_injection import calibrate_completeness, calibrate_confusion, calibrate_offset
from ...annotation_bias.estimate import Estimate, sent, three_digits
from ...annotation_bias.given_annotations import GivenAnnotations
from ...annotation_bias.ignored_objects import whole_objects, without_common_ignored
from ...annotation_bias.image_boundary import estimate_edges
from ...annotation_bias.image_features import image_statistics
from ...annotation_bias.noisy_estimates import object_samples, offset_samples
from ...annotation_bias.predicted_samples import Predictor, cut_to_objects
from ...annotation_bias.site_estimates import (
    case_offsets,
    estimate_completeness,
    estimate_confused,
    estimate_offset,
    median_offset,
)
from ...data.site_data import LoadedCase, SiteData
from ...interface.views import Answer
from ...outbound.fields import MINIMUM_CASES
from ...outbound.values import OutboundValues
from ...settings import RunSettings
from .outbound import (
    COMPLETENESS,
    CONFUSED_SHARE,
    EDGES,
    EXCHANGED_PART,
    IMAGE_DEVIATIONS,
    IMAGE_MEANS,
    OFFSET,
    REFERENCE,
    RELABELLED,
    RESAMPLED,
    REVIEWED,
)
from .thresholds import THRESHOLDS

_LOGGER = printable_logger(__name__)

_MICROMETRES = 1000

Whole = Callable[[PredictedCase], PredictedCase]


def measure_bias(
    predict: Predictor,
    data: SiteData,
    reviewed: SiteData | None,
    settings: RunSettings,
    *,
    seed: int,
    relabelled: Sequence[LoadedCase] | None = None,
    is_part: bool = False,
) -> Answer:
    """Return a site's estimates of its annotation bias (:mod:`fedannot.custom.annotation_bias`), class by class; they
    leave the site.

    With them go the sums behind boundary bias and recall, for a site whose statistics are private.

    Args:
        predict: says what a model makes of cases.
        data: the training cases with their annotations in use; :class:`GivenAnnotations` tells which of them, and of
            those before a review, are the site's own.
        reviewed: cases whose annotations somebody has reviewed, None where there are none.
        settings: the job's.
        seed: decides intervals and injected errors.
        relabelled: the same cases with relabelled objects, where there are any. All parameters but the confused
            fraction are estimated on these, unless most objects still look like another class.
        is_part: whether the cases are those of a group of annotators. Given annotations are then compared with reviewed
            ones of its own images alone; the reviewed cases of the site say what they say of the model.
    """
    labels = range(1, settings.network.num_classes + 1)
    annotations = _given_annotations(data, _of_images(reviewed, data) if is_part else reviewed)
    other = None if relabelled is None else annotations.own(relabelled)
    whole = whole_objects(data.description)
    given, after_relabelling = _predicted_twice(predict, annotations.own(), other, whole)
    cases, counted = given, data.cases
    if relabelled is not None and _share_of_others(after_relabelling) <= THRESHOLDS.most_objects:
        cases, counted = after_relabelling, tuple(relabelled)
    known = [] if reviewed is None else _predicted(predict, reviewed.cases, whole)
    report: OutboundValues = {
        "num_samples": data.num_samples,
        "num_patients": len(set(data.units)),
        "pixel_size": pixel_size(data),
        "annotated_patients": [
            len({case.unit for case in cases if (case.annotation == label).any()}) for label in labels
        ],
    }
    images = image_statistics(
        (case.image.numpy() for case in data.cases), [case.unit for case in data.cases]
    ).outbound()
    report |= {IMAGE_MEANS: list(images.means), IMAGE_DEVIATIONS: list(images.deviations)}
    of_cases = [case_offsets(cases, label) for label in labels]
    offsets = [
        calibrate_offset(cases, label, seed=seed).of(median_offset(found, seed=seed))
        for label, found in zip(labels, of_cases, strict=True)
    ]
    completeness = [
        calibrate_completeness(cases, label, seed=seed).of(estimate_completeness(cases, label, seed=seed))
        for label in labels
    ]
    report |= sent(OFFSET, offsets, calibrated=True) | sent(COMPLETENESS, completeness, calibrated=True)
    confused, exchanged = _confused(given, len(labels), seed)
    report |= sent(CONFUSED_SHARE, [confused], calibrated=True)
    report[EXCHANGED_PART] = [three_digits(exchanged) if confused.patients >= MINIMUM_CASES else math.nan]
    report |= sent(EDGES, [estimate_edges(cases, label, seed=seed) for label in labels], calibrated=False)
    report |= sent(REFERENCE, [estimate_offset(known, label, seed=seed) for label in labels], calibrated=False)
    pairs = annotations.compared(counted)
    report |= sent(REVIEWED, [_offset_of_pairs(pairs, label, data, seed=seed) for label in labels], calibrated=False)
    if (resampled := data.description.resampled_pixel) is not None:
        report[RESAMPLED] = round(_MICROMETRES * resampled)
    if cases is not given:
        report[RELABELLED] = True
        # Which objects got another class hangs on all patients, so that one could change the samples of the others.
        of_cases = [case_offsets(given, label) for label in labels]
    samples = offset_samples(of_cases) if _has_known_unit(data) else {}
    return Answer(report, samples | (object_samples(given, len(labels)) if uses_completeness(settings) else {}))


def _share_of_others(cases: Sequence[PredictedCase]) -> float:
    """The fraction of the objects that look like another class than theirs; 0 without any."""
    samples = class_samples(cases)
    return confused_share(samples.probabilities, samples.labels) if len(samples.labels) else 0.0


def _confused(cases: Sequence[PredictedCase], num_classes: int, seed: int) -> tuple[Estimate, float]:
    """The fraction of the objects of known classes that look like another one, and that of those with exchanged codes.

    The first is unknown where there is one class.
    """
    if num_classes == 1:
        return Estimate.unknown(), math.nan
    samples = class_samples(cases)
    known_errors = calibrate_confusion(samples.probabilities, samples.labels, seed=seed)
    known = are_of_known_classes(samples.probabilities, samples.labels)
    exchanged = exchanged_part(samples.probabilities[known], samples.labels[known])
    return known_errors.of(estimate_confused(samples, seed=seed)), exchanged


def uses_completeness(settings: RunSettings) -> bool:
    """Return whether a job acts on what is left out; else a site that hides its patients says nothing of it.

    All of its figures together are hidden by one noise, and each would make that larger.
    """
    return "missing" in getattr(settings, "correct", ()) or getattr(settings, "weighting", "") == "completeness"


def _has_known_unit(data: SiteData) -> bool:
    """Whether the server can know the size of a site's pixels without a statistic of its patients."""
    return data.description.resampled_pixel is not None or all(case.spacing is None for case in data.cases)


def pixel_size(data: SiteData) -> float:
    """Return the mean size of a site's pixels in millimetres, 1 where it is not known."""
    sizes = [float(np.mean(case.spacing)) for case in data.cases if case.spacing is not None]
    return float(np.mean(sizes)) if sizes else 1.0


def _predicted_twice(
    predict: Predictor, cases: Sequence[LoadedCase], relabelled: Sequence[LoadedCase] | None, whole: Whole
) -> tuple[list[PredictedCase], list[PredictedCase]]:
    """The cases with their given annotations, and with those of classes given again, if any; the model runs once."""
    if relabelled is None:
        return _predicted(predict, cases, whole), []
    given, after_relabelling = [], []
    annotations = (annotation for case in relabelled for annotation in case.label.numpy())
    for case, annotation in zip(predict(cases), annotations, strict=True):
        # Both have something in the same pixels.
        changed = case.with_annotation(annotation)
        if (one := cut_to_objects(whole(case))) and (other := cut_to_objects(whole(changed))):
            given.append(one)
            after_relabelling.append(other)
    return given, after_relabelling


def _predicted(predict: Predictor, cases: Sequence[LoadedCase], whole: Whole) -> list[PredictedCase]:
    cut = (cut_to_objects(whole(case)) for case in predict(cases))
    return [case for case in cut if case is not None]


def _of_images(reviewed: SiteData | None, data: SiteData) -> SiteData | None:
    """The reviewed cases whose image is that of one of the cases."""
    if reviewed is None:
        return None
    images = {case.files.image.resolve() for case in data.cases if case.files is not None}
    own = [case for case in reviewed.cases if case.files is not None and case.files.image.resolve() in images]
    return replace(reviewed, cases=tuple(own))


def _given_annotations(data: SiteData, reviewed: SiteData | None) -> GivenAnnotations:
    """The site's own annotations; its log says how many reviewed cases are not compared with them."""
    result = GivenAnnotations.of(data.cases, () if reviewed is None else reviewed.cases)
    if result.not_compared:
        _LOGGER.info(
            "Site %s: %d reviewed cases are not compared with given annotations, which are not known of them; they "
            "count for the reference level.",
            data.site,
            result.not_compared,
        )
    return result


def _offset_of_pairs(
    pairs: Sequence[tuple[LoadedCase, LoadedCase]], label: int, data: SiteData, *, seed: int
) -> Estimate:
    """The median offset of given contours from reviewed ones, measured without a model."""
    offsets, units = [], []
    for given, reviewed in pairs:
        for one, other in zip(given.label.numpy(), reviewed.label.numpy(), strict=True):
            both = without_common_ignored(one, other, data.description)
            offset = mask_offset(both[0] == label, both[1] == label, given.spacing)
            if offset is not None:
                offsets.append(offset.offset)
                units.append(given.unit)
    if not offsets:
        return Estimate.unknown()
    return Estimate.of_interval(len(set(units)), median_interval(offsets, units, seed=seed))
