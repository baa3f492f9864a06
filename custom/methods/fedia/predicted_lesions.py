"""A site's annotated and predicted lesions: how confident the model is, what is new, and whether it can be a reference.

The model predicts a missed lesion as confidently as an annotated one: it learnt to detect lesions, not which of them
are annotated. False detections mostly have less confidence. So missed lesions are counted among those that are
predicted as confidently as annotated ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from scipy import ndimage
from torch import nn

from ....transforms.array_types import Booleans, Classes
from ....transforms.connected_lesions import label_lesions
from ...annotation_bias.bootstrap import Interval, ratio_interval
from ...annotation_bias.cases import PredictedCase
from ...annotation_bias.predicted_samples import predicted_samples
from ...annotation_bias.thresholds import THRESHOLDS
from ...data.site_data import LoadedCase
from ...evaluation.inference import Inference
from .lesion_counts import LesionCounts, count_lesions

# Nine in ten annotated lesions have at least this confidence; what has less is no lesion.
LEAST_QUANTILE = 0.1

Box = tuple[slice, ...]


@dataclass(frozen=True)
class PredictedLesion:
    """A connected lesion that the model finds in a case.

    Attributes:
        label: its class.
        confidence: mean probability of the class in its voxels.
        annotated_voxels: how many of them are annotated as the class.
        is_new: whether no voxel within one of it is annotated or ignored.
        box: where it lies in the case.
        voxels: which voxels of the box it has.
    """

    label: int
    confidence: float
    annotated_voxels: int
    is_new: bool
    box: Box
    voxels: Booleans

    @property
    def size(self) -> int:
        """Number of its voxels."""
        return int(self.voxels.sum())


@dataclass(frozen=True)
class CaseLesions:
    """The lesions of one case; they stay at the site.

    Attributes:
        unit: the patient or volume.
        shape: of the case, ``(H, W[, D])`` or ``(S, H, W)``.
        counts: of annotated and predicted lesions of any size (Eq. 3).
        annotated: number of annotated lesions of at least the smallest size.
        found: how many of them share a voxel with a predicted one of their class.
        predicted: the predicted lesions of at least the smallest size.
    """

    unit: str
    shape: tuple[int, ...]
    counts: LesionCounts
    annotated: int
    found: int
    predicted: tuple[PredictedLesion, ...]

    def new(self, label: int) -> list[PredictedLesion]:
        """Return the predicted lesions of a class that are new."""
        return [lesion for lesion in self.predicted if lesion.label == label and lesion.is_new]

    def known(self, label: int) -> list[PredictedLesion]:
        """Return the predicted lesions of a class that are annotated."""
        return [lesion for lesion in self.predicted if lesion.label == label and lesion.annotated_voxels]


def predict_lesions(
    network: nn.Module, cases: Sequence[LoadedCase], inference: Inference, *, smallest: int
) -> list[CaseLesions]:
    """Find the lesions of a site's cases, with slices put together to volumes; nothing of it leaves the site.

    Args:
        network: the received model; it is run in evaluation mode.
        cases: of the site.
        inference: how the model is run.
        smallest: voxels of the smallest lesions that count.
    """
    samples = predicted_samples(network, cases, inference)
    return [case_lesions(_together(list(islice(samples, len(case.image)))), smallest) for case in cases]


def case_lesions(case: PredictedCase, smallest: int) -> CaseLesions:
    """Find the lesions of one case.

    Args:
        case: the case, whole.
        smallest: voxels of the smallest lesions that count.
    """
    near = ndimage.binary_dilation(case.annotation != 0, structure=np.ones((3,) * case.annotation.ndim, dtype=bool))
    predicted: list[PredictedLesion] = []
    annotated = result = 0
    for label in range(1, case.num_classes + 1):
        given, is_predicted = case.annotated_as(label), case.predicted_as(label)
        predicted += _predicted(case, label, given, near, smallest)
        numbers, _ = label_lesions(given)
        sizes = np.bincount(numbers.ravel())[1:]
        touched = np.isin(np.arange(1, len(sizes) + 1), np.unique(numbers[is_predicted]))
        annotated += int((sizes >= smallest).sum())
        result += int((touched & (sizes >= smallest)).sum())
    most_probable = case.probabilities.argmax(axis=0).astype(np.uint8)
    counts = count_lesions(case.annotation, most_probable, case.num_classes)
    return CaseLesions(case.unit, case.annotation.shape, counts, annotated, result, tuple(predicted))


def confident_completeness(lesions: Sequence[CaseLesions], num_classes: int, *, seed: int) -> Interval:
    """Return the fraction of the lesions that is annotated, with its 90 % interval over patients.

    Of every class it is m / (m + u / 0.75), where m predicted lesions are annotated. u are new and have at least the
    confidence of three in four of those. NaN where the model finds no lesion.

    Args:
        lesions: of the site's cases.
        num_classes: number of foreground classes C.
        seed: decides the interval.
    """
    bounds = {label: _confidence(lesions, label, THRESHOLDS.confident_quantile) for label in range(1, num_classes + 1)}
    parts = [sum(len(case.known(label)) for label in bounds) for case in lesions]
    missing = [sum(_num_missing(case.new(label), bound) for label, bound in bounds.items()) for case in lesions]
    wholes = [part + absent for part, absent in zip(parts, missing, strict=True)]
    return ratio_interval(parts, wholes, [case.unit for case in lesions], seed=seed)


def missing_lesions(lesions: Sequence[CaseLesions], num_classes: int) -> list[list[PredictedLesion]]:
    """Choose the new lesions that are to be annotated, case by case; the most confident first, of all cases together.

    Of every class as many as are missing by :func:`confident_completeness` at most, each with at least the confidence
    of nine in ten of the annotated ones. Without annotated lesions of a class there is nothing to go by, and none is
    chosen.

    Args:
        lesions: of the site's cases.
        num_classes: number of foreground classes C.
    """
    chosen: list[list[PredictedLesion]] = [[] for _ in lesions]
    for label in range(1, num_classes + 1):
        if not any(case.known(label) for case in lesions):
            continue
        confident, least = (
            _confidence(lesions, label, quantile) for quantile in (THRESHOLDS.confident_quantile, LEAST_QUANTILE)
        )
        new = [(lesion, index) for index, case in enumerate(lesions) for lesion in case.new(label)]
        limit = int(_num_missing([lesion for lesion, _ in new], confident))
        fit = [(lesion, index) for lesion, index in new if lesion.confidence >= least]
        for lesion, index in sorted(fit, key=lambda pair: -pair[0].confidence)[:limit]:
            chosen[index].append(lesion)
    return chosen


def lesion_recall(lesions: Sequence[CaseLesions]) -> float:
    """Return the fraction of the annotated lesions that the model finds; NaN without any."""
    annotated = sum(case.annotated for case in lesions)
    return sum(case.found for case in lesions) / annotated if annotated else float("nan")


def lesion_precision(lesions: Sequence[CaseLesions]) -> float:
    """Return what fraction of the annotated lesions as the model sees them is annotated, by voxels; NaN without any."""
    known = [lesion for case in lesions for lesion in case.predicted if lesion.annotated_voxels]
    voxels = sum(lesion.size for lesion in known)
    return sum(lesion.annotated_voxels for lesion in known) / voxels if voxels else float("nan")


def as_mask(lesions: Sequence[PredictedLesion], shape: tuple[int, ...]) -> Classes:
    """Draw lesions as classes into an empty case of a shape."""
    mask = np.zeros(shape, dtype=np.uint8)
    for lesion in lesions:
        mask[lesion.box][lesion.voxels] = lesion.label
    return mask


def _together(samples: Sequence[PredictedCase]) -> PredictedCase:
    """The samples of one case as one: a picture, or the volume that they are or make up."""
    if len(samples) == 1:
        return replace(samples[0], spacing=None, image=None)
    annotation = np.stack([sample.annotation for sample in samples])
    probabilities = np.stack([sample.probabilities for sample in samples], axis=1)
    return PredictedCase(samples[0].unit, annotation, probabilities)


def _predicted(
    case: PredictedCase, label: int, given: Booleans, near: Booleans, smallest: int
) -> Iterator[PredictedLesion]:
    numbers, _ = label_lesions(case.predicted_as(label))
    for number, box in enumerate(ndimage.find_objects(numbers), start=1):
        voxels = numbers[box] == number
        if voxels.sum() >= smallest:
            confidence = float(case.probabilities[label][box][voxels].mean(dtype=np.float64))
            annotated = int(given[box][voxels].sum())
            yield PredictedLesion(label, confidence, annotated, not near[box][voxels].any(), box, voxels)


def _confidence(lesions: Sequence[CaseLesions], label: int, quantile: float) -> float:
    """A quantile of the confidence in a class's annotated lesions; 0 without any, so that every new one counts."""
    known = [lesion.confidence for case in lesions for lesion in case.known(label)]
    return float(np.quantile(known, quantile)) if known else 0.0


def _num_missing(new: Sequence[PredictedLesion], bound: float) -> float:
    # Three in four missed lesions have as much confidence.
    return sum(lesion.confidence >= bound for lesion in new) / (1 - THRESHOLDS.confident_quantile)
