"""What a model scores in single cases, class by class: overlap, surfaces, volume, lesions.

The rounds of a run score means (:mod:`.segmentation_scores`). This is computed once, for the final model.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from ...transforms.array_types import Booleans
from ...transforms.connected_lesions import label_lesions
from ...transforms.ignored_label import IGNORED_LABEL
from ..data.site_data import LoadedCase
from ..settings import NSD_TOLERANCE
from .calibration import CalibrationBins, sample_bins
from .inference import Inference
from .segmentation_scores import hausdorff_95, surface_distances

# Lesions of annotation and prediction with a smaller intersection over union are no pair.
MIN_LESION_IOU = 0.1


class Detection(StrEnum):
    """What a model makes of a class in a case."""

    DETECTED = "detected"  # annotated, and the prediction overlaps it
    MISSED = "missed"  # annotated, and no predicted pixel is on it
    LEFT_EMPTY = "left empty"  # neither annotated nor predicted
    FALSE_POSITIVE = "false positive"  # predicted, not annotated


@dataclass(frozen=True)
class CaseResult:
    """What a model scores for one class in one case; NaN where a metric is not defined.

    In a case without the class nothing overlaps: only the difference of volumes and `detection` are defined.

    Attributes:
        label: the class, from 1.
        dice: Dice coefficient; 0 where the class is missed.
        hd95: 95th percentile Hausdorff distance in `unit`; not defined where either mask is empty.
        nsd: normalised surface Dice at the tolerance; 0 where nothing is predicted.
        volume_difference: predicted less annotated, in millilitres, or in pixels without millimetres.
        lesion_f1: F1 of lesions, see :func:`lesion_f1`; 0 where nothing is predicted.
        detection: whether the class is found.
        foreground_f1: as `lesion_f1`, of the objects of all classes together; the same for each class of a case.
        confused_fraction: fraction of the class's annotated pixels that are predicted as another foreground class.
    """

    label: int
    dice: float
    hd95: float
    nsd: float
    volume_difference: float
    lesion_f1: float
    detection: Detection
    foreground_f1: float = math.nan
    confused_fraction: float = math.nan


@dataclass(frozen=True)
class MeasuredCase:
    """A case with its results.

    Attributes:
        case: the case.
        results: of each class that its annotation knows; none where every pixel is ignored.
        bins: how confident the model was, and how often right; ignored pixels do not count.
    """

    case: LoadedCase
    results: tuple[CaseResult, ...]
    bins: CalibrationBins


@dataclass(frozen=True)
class PixelSize:
    """How pixels of a mask are measured.

    Attributes:
        spacing: along each axis of the mask in millimetres; None measures in pixels; NaN where a size is not known.
        millilitres: of a pixel; None counts pixels, NaN where it is not known.
    """

    spacing: tuple[float, ...] | None
    millilitres: float | None

    @classmethod
    def of(cls, case: LoadedCase) -> "PixelSize":
        """Return the size for the mask that :func:`scored_mask` takes of a case."""
        if case.spacing is None:
            # Pixels of slices say nothing of the distance of these.
            return cls(None if len(case.label) == 1 else (math.nan,) * 3, None)
        if case.label.ndim - 1 == 3:
            return cls(case.spacing, math.prod(case.spacing) / 1000)
        slices = math.nan if case.slice_spacing is None else case.slice_spacing
        millilitres = slices * math.prod(case.spacing) / 1000
        return cls(case.spacing if len(case.label) == 1 else (slices, *case.spacing), millilitres)

    @property
    def unit(self) -> str:
        """The unit of distances, ``mm`` or ``px``."""
        return "px" if self.millilitres is None else "mm"


def measured_cases(
    network: nn.Module,
    cases: Sequence[LoadedCase],
    num_classes: int,
    inference: Inference,
    annotated_labels: Sequence[int] | None = None,
    *,
    tolerance: float = NSD_TOLERANCE,
) -> Iterator[MeasuredCase]:
    """Predict one case after the other and measure each; the slices of a volume are measured together.

    Args:
        network: the model; it is run in evaluation mode.
        cases: the cases.
        num_classes: number of foreground classes C.
        inference: how the model is run.
        annotated_labels: the classes that the annotations know of; others have no result, and background stands for
            them in the calibration. None for all.
        tolerance: of the normalised surface Dice, in millimetres or pixels.
    """
    labels = [label for label in range(1, num_classes + 1) if annotated_labels is None or label in annotated_labels]
    given = iter([(case, index) for case in cases for index in range(len(case.image))])
    waiting: list[CalibrationBins] = []

    def decide(logits: torch.Tensor) -> torch.Tensor:
        for sample in logits.to("cpu", torch.float32):
            case, index = next(given)
            waiting.append(sample_bins(_of_annotated(sample.softmax(dim=0), labels), case.label[index]))
        return logits.argmax(dim=1)

    for case, predicted in zip(cases, inference.predictions(network, cases, decide), strict=True):
        bins = sum(waiting[: len(case.image)], CalibrationBins.empty())
        del waiting[: len(case.image)]
        yield MeasuredCase(case, _case_results(case, predicted, labels, tolerance), bins)


def _of_annotated(probabilities: torch.Tensor, labels: Sequence[int]) -> torch.Tensor:
    """Probabilities ``(C + 1, ...)`` in which those of classes that are not annotated are the background's."""
    others = [label for label in range(1, len(probabilities)) if label not in labels]
    if not others:
        return probabilities
    result = probabilities.clone()
    result[0] += probabilities[others].sum(dim=0)
    result[others] = 0.0
    return result


def scored_mask(classes: torch.Tensor) -> torch.Tensor:
    """Return the classes of a case's samples ``(S, H, W[, D])`` as one mask: a picture, or the volume of its slices."""
    return classes[0] if len(classes) == 1 else classes


def _case_results(
    case: LoadedCase, predicted: torch.Tensor, labels: Sequence[int], tolerance: float
) -> tuple[CaseResult, ...]:
    truth, prediction = scored_mask(case.label), scored_mask(predicted)
    counted, size = truth != IGNORED_LABEL, PixelSize.of(case)
    if not bool(counted.any()):
        return ()
    known = torch.tensor(labels)
    found, given = torch.isin(prediction, known) & counted, torch.isin(truth, known)
    f1 = lesion_f1(found.numpy(), given.numpy()) if bool(given.any()) else math.nan
    return tuple(
        replace(
            class_result(label, (prediction == label) & counted, truth == label, size, tolerance=tolerance),
            foreground_f1=f1,
            confused_fraction=confused_fraction(found & (prediction != label), truth == label),
        )
        for label in labels
    )


def confused_fraction(others: torch.Tensor, true: torch.Tensor) -> float:
    """Return which fraction of a class's annotated pixels has another foreground class; NaN without any.

    Args:
        others: pixels that are predicted as another foreground class, boolean ``(H, W[, D])``.
        true: the class's annotated pixels.
    """
    num_true = int(true.sum())
    return int((others & true).sum()) / num_true if num_true else math.nan


def class_result(
    label: int,
    predicted: torch.Tensor,
    true: torch.Tensor,
    size: PixelSize,
    *,
    tolerance: float = NSD_TOLERANCE,
) -> CaseResult:
    """Measure a predicted mask against the annotation, both boolean ``(H, W[, D])``.

    Dice is 2 |P ∩ A| / (|P| + |A|). HD95 is the larger of the 95th percentiles of the distances from either boundary to
    the other, NSD the fraction of both boundaries within the tolerance of the other. Boundaries are pixels, as in
    MONAI's metrics.

    Args:
        label: the class.
        predicted: its predicted pixels, none of which is ignored.
        true: its annotated pixels.
        size: of a pixel.
        tolerance: of the NSD.
    """
    num_predicted, num_true, both = (int(mask.sum()) for mask in (predicted, true, predicted & true))
    per_pixel = 1.0 if size.millilitres is None else size.millilitres
    difference = (num_predicted - num_true) * per_pixel
    if num_true == 0:
        detection = Detection.FALSE_POSITIVE if num_predicted else Detection.LEFT_EMPTY
        return CaseResult(label, math.nan, math.nan, math.nan, difference, math.nan, detection)
    if num_predicted == 0:
        return CaseResult(label, 0.0, math.nan, 0.0, difference, 0.0, Detection.MISSED)
    hd95 = nsd = math.nan
    if size.spacing is None or all(map(math.isfinite, size.spacing)):
        distances = surface_distances(predicted, true, size.spacing)
        hd95, nsd = hausdorff_95(distances), _within(distances, tolerance)
    return CaseResult(
        label=label,
        dice=2 * both / (num_predicted + num_true),
        hd95=hd95,
        nsd=nsd,
        volume_difference=difference,
        lesion_f1=lesion_f1(predicted.numpy(), true.numpy()),
        detection=Detection.DETECTED if both else Detection.MISSED,
    )


def _within(distances: tuple[torch.Tensor, torch.Tensor], tolerance: float) -> float:
    close = sum(int((values <= tolerance).sum()) for values in distances)
    return close / sum(len(values) for values in distances)


def lesion_f1(predicted: Booleans, true: Booleans, min_iou: float = MIN_LESION_IOU) -> float:
    """Return 2 m / (p + a) for p predicted and a annotated lesions, of which m pairs match; NaN without any.

    Lesions are connected components, see :func:`.label_lesions`. A pair matches from an intersection over union on;
    each lesion is in one pair at most, and as many pairs are made as there can be.

    Args:
        predicted: the predicted mask ``(H, W[, D])``.
        true: the annotated one.
        min_iou: see above.

    Example:
        >>> predicted, true = np.zeros((2, 1, 9), dtype=bool)
        >>> true[0, [0, 1, 5]], predicted[0, [0, 1, 2, 8]] = True, True
        >>> lesion_f1(predicted, true)
        0.5
    """
    (found, num_found), (given, num_given) = label_lesions(predicted), label_lesions(true)
    if num_found + num_given == 0:
        return math.nan
    places = found.astype(np.int64) * (num_given + 1) + given
    counts = np.bincount(places.ravel(), minlength=(num_found + 1) * (num_given + 1))
    table = counts.reshape(num_found + 1, num_given + 1)
    both = table[1:, 1:]
    union = table[1:].sum(axis=1)[:, None] + table[:, 1:].sum(axis=0)[None] - both
    matches = (both > 0) & (both >= min_iou * union)
    rows, columns = linear_sum_assignment(matches, maximize=True)
    return 2 * int(matches[rows, columns].sum()) / (num_found + num_given)
