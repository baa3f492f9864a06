"""What a site reports of how it annotates."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...channel.bootstrap import median_interval
from ...channel.cases import JudgedCase
from ...channel.confusion import are_of_known_classes, class_samples, exchanged_part, swapped_share
from ...channel.edges import estimate_edges
from ...channel.estimate import Estimate, sent, three_digits
from ...channel.image_features import image_statistics
from ...channel.judging import Judge, cut_to_objects
from ...channel.noisy_estimates import object_samples, offset_samples
from ...channel.offset import mask_offset
from ...channel.self_calibration import calibrate_completeness, calibrate_confusion, calibrate_offset
from ...channel.site_estimates import (
    case_offsets,
    estimate_completeness,
    estimate_offset,
    estimate_swapped,
    median_offset,
)
from ...data.site_data import LoadedCase, SiteData
from ...interface.views import Answer
from ...outbound.fields import MINIMUM_CASES
from ...settings import RunSettings
from .outbound import (
    CLASSES_ANEW,
    COMPLETENESS,
    EDGES,
    EXCHANGED_PART,
    IMAGE_DEVIATIONS,
    IMAGE_MEANS,
    OFFSET,
    REFERENCE,
    RESAMPLED,
    REVIEWED,
    SWAPPED_SHARE,
)
from .thresholds import THRESHOLDS

_MICROMETRES = 1000


def channel_report(
    judge: Judge,
    data: SiteData,
    reviewed: SiteData | None,
    settings: RunSettings,
    *,
    seed: int,
    classes_anew: Sequence[LoadedCase] | None = None,
) -> Answer:
    """Return a site's estimates of its channel (:mod:`fedannot.custom.channel`), class by class; they leave the site.

    With them goes what offset and completeness are made of, for a site whose statistics are private.

    Args:
        judge: says what a model makes of cases.
        data: the training cases with their given annotations.
        reviewed: cases whose annotations somebody has reviewed, None where there are none.
        settings: the job's.
        seed: decides intervals and known errors.
        classes_anew: the same cases with objects that were given another class, where there are any. All but the share
            of these objects is of them, unless most objects look like another class with these, too.
    """
    labels = range(1, settings.network.num_classes + 1)
    given, anew = _judged_by_both(judge, data.cases, classes_anew)
    cases, counted = given, data.cases
    if classes_anew is not None and _share_of_others(anew) <= THRESHOLDS.most_objects:
        cases, counted = anew, tuple(classes_anew)
    known = [] if reviewed is None else _judged(judge, reviewed.cases)
    report: dict[str, Any] = {
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
    swapped, exchanged = _swapped(given, len(labels), seed)
    report |= sent(SWAPPED_SHARE, [swapped], calibrated=True)
    report[EXCHANGED_PART] = [three_digits(exchanged) if swapped.patients >= MINIMUM_CASES else math.nan]
    report |= sent(EDGES, [estimate_edges(cases, label, seed=seed) for label in labels], calibrated=False)
    report |= sent(REFERENCE, [estimate_offset(known, label, seed=seed) for label in labels], calibrated=False)
    pairs = [] if reviewed is None else _pairs(counted, reviewed.cases)
    report |= sent(REVIEWED, [_offset_of_pairs(pairs, label, seed=seed) for label in labels], calibrated=False)
    if (resampled := data.description.resampled_pixel) is not None:
        report[RESAMPLED] = round(_MICROMETRES * resampled)
    if cases is not given:
        report[CLASSES_ANEW] = True
        # Which objects got another class hangs on all patients, so that one could change the samples of the others.
        of_cases = [case_offsets(given, label) for label in labels]
    samples = offset_samples(of_cases) if _has_known_unit(data) else {}
    return Answer(report, samples | (object_samples(given, len(labels)) if uses_completeness(settings) else {}))


def _share_of_others(cases: Sequence[JudgedCase]) -> float:
    """The share of the objects that look like another class than theirs; 0 without any."""
    samples = class_samples(cases)
    return swapped_share(samples.probabilities, samples.labels) if len(samples.labels) else 0.0


def _swapped(cases: Sequence[JudgedCase], num_classes: int, seed: int) -> tuple[Estimate, float]:
    """The share of the objects of known classes that look like another one, and that of those with exchanged codes.

    The first is unknown where there is one class.
    """
    if num_classes == 1:
        return Estimate.unknown(), math.nan
    samples = class_samples(cases)
    known_errors = calibrate_confusion(samples.probabilities, samples.labels, seed=seed)
    known = are_of_known_classes(samples.probabilities, samples.labels)
    exchanged = exchanged_part(samples.probabilities[known], samples.labels[known])
    return known_errors.of(estimate_swapped(samples, seed=seed)), exchanged


def uses_completeness(settings: RunSettings) -> bool:
    """Return whether a job acts on what is left out; else a site that hides its patients says nothing of it.

    All of its figures together are hidden by one noise, and each would make that larger.
    """
    return "missing" in getattr(settings, "undo", ()) or getattr(settings, "weighting", "") == "completeness"


def _has_known_unit(data: SiteData) -> bool:
    """Whether the server can know the size of a site's pixels without a statistic of its patients."""
    return data.description.resampled_pixel is not None or all(case.spacing is None for case in data.cases)


def pixel_size(data: SiteData) -> float:
    """Return the mean size of a site's pixels in millimetres, 1 where it is not known."""
    sizes = [float(np.mean(case.spacing)) for case in data.cases if case.spacing is not None]
    return float(np.mean(sizes)) if sizes else 1.0


def _judged_by_both(
    judge: Judge, cases: Sequence[LoadedCase], classes_anew: Sequence[LoadedCase] | None
) -> tuple[list[JudgedCase], list[JudgedCase]]:
    """The cases with their given annotations, and with those of classes given anew, if any; the model runs once."""
    if classes_anew is None:
        return _judged(judge, cases), []
    given, anew = [], []
    annotations = (annotation for case in classes_anew for annotation in case.label.numpy())
    for case, annotation in zip(judge(cases), annotations, strict=True):
        # Both have something in the same pixels.
        if (one := cut_to_objects(case)) and (other := cut_to_objects(case.with_annotation(annotation))):
            given.append(one)
            anew.append(other)
    return given, anew


def _judged(judge: Judge, cases: Sequence[LoadedCase]) -> list[JudgedCase]:
    cut = (cut_to_objects(case) for case in judge(cases))
    return [case for case in cut if case is not None]


def _pairs(given: Sequence[LoadedCase], reviewed: Sequence[LoadedCase]) -> list[tuple[LoadedCase, LoadedCase]]:
    """Cases that are annotated and reviewed: those of the same image file."""
    by_image = {case.files.image.resolve(): case for case in given if case.files is not None}
    found = [(by_image.get(case.files.image.resolve()), case) for case in reviewed if case.files is not None]
    return [(one, other) for one, other in found if one is not None and one.label.shape == other.label.shape]


def _offset_of_pairs(pairs: Sequence[tuple[LoadedCase, LoadedCase]], label: int, *, seed: int) -> Estimate:
    """The median offset of given contours from reviewed ones, measured without a model."""
    offsets, units = [], []
    for given, reviewed in pairs:
        for one, other in zip(given.label.numpy(), reviewed.label.numpy(), strict=True):
            offset = mask_offset(one == label, other == label, given.spacing)
            if offset is not None:
                offsets.append(offset.offset)
                units.append(given.unit)
    if not offsets:
        return Estimate.unknown()
    return Estimate.of_interval(len(set(units)), median_interval(offsets, units, seed=seed))
