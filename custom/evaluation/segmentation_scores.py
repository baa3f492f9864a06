"""Segmentation metrics of a model on labelled cases, by MONAI's metric functions."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from scipy import ndimage
from torch import nn

from ...transforms.array_types import Booleans
from ...transforms.ignored_label import IGNORED_LABEL
from ..data.site_data import LoadedCase
from .inference import Inference

# PyTorch's quantile takes no more values; a model that finds noise in a large volume has more of them on its surfaces.
_QUANTILE_LIMIT = 2**24

# In pixels or millimetres: no image is as large.
_LONGEST_DISTANCE = 1e6


@dataclass(frozen=True)
class SegmentationScores:
    """Mean scores over cases, per foreground class (tuples of length C).

    A case is empty for a class that its annotation does not have. Annotated cases have a Dice, 0 where the class is
    missed; empty ones are left empty or not. Ignored pixels are background in annotation and prediction; a case of
    which every pixel is ignored is none. A class that is not annotated at all has no annotated and no empty case.

    Attributes:
        dice: mean Dice coefficient over the annotated cases, 0 to 1; NaN if there is none.
        left_empty: fraction of the empty cases in which the class is found nowhere (specificity, case by case); NaN if
            there is none.
        hd95: mean 95th percentile Hausdorff distance over the cases where it is defined, NaN if none is; in pixels for
            pictures, in millimetres for volumes.
        hd95_undefined: number of annotated cases without a distance: the class is missed, or the distance of slices is
            unknown.
        num_annotated: number of annotated cases; the others are empty, if the class is annotated at all.
        num_cases: number of cases: pictures or volumes, not slices.
        dice_units: number of patients or volumes that the annotated cases are of.
        empty_units: number of patients or volumes that the empty cases are of.
        hd95_units: number of patients or volumes that the cases with a distance are of.
    """

    dice: tuple[float, ...]
    left_empty: tuple[float, ...]
    hd95: tuple[float, ...]
    hd95_undefined: tuple[int, ...]
    num_annotated: tuple[int, ...]
    num_cases: int
    dice_units: tuple[int, ...]
    empty_units: tuple[int, ...]
    hd95_units: tuple[int, ...]

    @property
    def mean_dice(self) -> float | None:
        """Mean Dice over the classes that have an annotated case, None if none has."""
        return _mean_of_known(known(self.dice))

    @property
    def mean_left_empty(self) -> float | None:
        """Mean fraction of empty cases that were left empty over the classes that have one, None if none has."""
        return _mean_of_known(known(self.left_empty))

    @property
    def mean_hd95(self) -> float | None:
        """Mean HD95 over the classes in which it is defined, None if in none."""
        return _mean_of_known(known(self.hd95))


@dataclass(frozen=True)
class CaseScores:
    """Scores of one case per foreground class (tuples of length C); they stay at the site.

    Attributes:
        dice: Dice coefficient, NaN where the class is not annotated.
        hd95: 95th percentile Hausdorff distance, NaN where annotation or prediction is empty or the distance of slices
            is unknown.
        annotated: whether the annotation has the class.
        found: whether the prediction has it.
        counts: whether the annotation says anything: False where every pixel is ignored.
    """

    dice: tuple[float, ...]
    hd95: tuple[float, ...]
    annotated: tuple[bool, ...]
    found: tuple[bool, ...]
    counts: bool = True


def evaluate(
    network: nn.Module,
    cases: Sequence[LoadedCase],
    num_classes: int,
    inference: Inference,
    annotated_labels: Sequence[int] | None = None,
) -> SegmentationScores:
    """Predict and score one case after the other; the slices of a volume are scored together, as a volume.

    Args:
        network: the model.
        cases: at least one case.
        num_classes: number of foreground classes C.
        inference: how the model is run.
        annotated_labels: the classes that the cases' annotations know of; others have no score. None for all.
    """
    predictions = inference.predictions(network, cases)
    scores = [score_case(case, predicted, num_classes) for case, predicted in zip(cases, predictions, strict=True)]
    return mean_scores(scores, [case.unit for case in cases], annotated_labels)


def score_case(case: LoadedCase, predicted: torch.Tensor, num_classes: int) -> CaseScores:
    """Score the predicted classes ``(S, H, W[, D])`` of a case against its annotation, for the classes 1..C."""
    if len(predicted) == 1:
        return score_labels(predicted[0], case.label[0], num_classes, case.spacing)
    # Slices; their distance is the first axis of the volume that they make up.
    spacing = None if case.spacing is None or case.slice_spacing is None else (case.slice_spacing, *case.spacing)
    scores = score_labels(predicted, case.label, num_classes, spacing)
    return scores if spacing is not None else replace(scores, hd95=(math.nan,) * num_classes)


def score_labels(
    predicted: torch.Tensor, labels: torch.Tensor, num_classes: int, spacing: Sequence[float] | None = None
) -> CaseScores:
    """Score predicted against true labels, both ``(H, W[, D])``, for the foreground classes 1..C.

    Args:
        predicted: predicted classes.
        labels: true classes, 255 for ignored pixels.
        num_classes: number of foreground classes C.
        spacing: size of a pixel along each axis in millimetres; None measures in pixels.

    Example:
        >>> true = torch.zeros(8, 8, dtype=torch.long)
        >>> true[2:6, 2:6] = 1
        >>> score_labels(torch.roll(true, 1, 0), true, 1).dice
        (0.75,)
    """
    # MONAI takes 2 s, and a site process starts without it; also below.
    from monai.metrics import compute_dice  # noqa: PLC0415

    counted = (labels != IGNORED_LABEL)[None, None]
    dice, hd95, annotated, result = [], [], [], []
    for index in range(1, num_classes + 1):
        prediction, truth = ((classes == index)[None, None] & counted for classes in (predicted, labels))
        annotated.append(bool(truth.any()))
        result.append(bool(prediction.any()))
        # NaN for an empty annotation.
        dice.append(float(compute_dice(prediction, truth, include_background=True, ignore_empty=True)))
        is_defined = annotated[-1] and result[-1]
        distances = surface_distances(prediction[0, 0], truth[0, 0], spacing) if is_defined else None
        hd95.append(math.nan if distances is None else hausdorff_95(distances))
    return CaseScores(tuple(dice), tuple(hd95), tuple(annotated), tuple(result), counts=bool(counted.any()))


def mean_scores(
    scores: Sequence[CaseScores], units: Sequence[str], annotated_labels: Sequence[int] | None = None
) -> SegmentationScores:
    """Return the means over cases, all of which weigh equally in the means that they count for.

    Args:
        scores: the scores of each case.
        units: the patient or volume of each case.
        annotated_labels: see :func:`evaluate`.
    """
    dice, hd95 = (torch.tensor(values, dtype=torch.float64) for values in _columns(scores, "dice", "hd95"))
    annotated, result = (torch.tensor(values, dtype=torch.bool) for values in _columns(scores, "annotated", "found"))
    counts = torch.tensor([case.counts for case in scores])
    if annotated_labels is not None:
        # Without an annotation that could have the class, a case has it neither rightly nor wrongly.
        is_known = torch.tensor([label + 1 in annotated_labels for label in range(annotated.shape[1])])
        dice, hd95 = (values.masked_fill(~is_known, math.nan) for values in (dice, hd95))
        annotated, counted = annotated & is_known, counts[:, None] & is_known
    else:
        counted = counts[:, None]
    empty = counted & ~annotated
    left_empty = torch.where(empty, (~result).double(), math.nan)
    return SegmentationScores(
        dice=tuple(torch.nanmean(dice, 0).tolist()),
        left_empty=tuple(torch.nanmean(left_empty, 0).tolist()),
        hd95=tuple(torch.nanmean(hd95, 0).tolist()),
        hd95_undefined=tuple((annotated & hd95.isnan()).sum(0).tolist()),
        num_annotated=tuple(annotated.sum(0).tolist()),
        num_cases=int(counts.sum()),
        dice_units=_units_of(annotated, units),
        empty_units=_units_of(empty, units),
        hd95_units=_units_of(~hd95.isnan(), units),
    )


def known(values: Sequence[float]) -> list[float | None]:
    """Return values as a record holds them, None for NaN."""
    return [None if math.isnan(value) else value for value in values]


def _columns(scores: Sequence[CaseScores], *names: str) -> list[list[tuple[Any, ...]]]:
    """The named scores of all cases, each ``(N, C)``."""
    return [[getattr(case, name) for case in scores] for name in names]


def _units_of(counts: torch.Tensor, units: Sequence[str]) -> tuple[int, ...]:
    """The number of patients or volumes of the cases that count for each class, ``(N, C)``."""
    return tuple(
        len({unit for unit, does_count in zip(units, of_class, strict=True) if does_count})
        for of_class in counts.T.tolist()
    )


def surface_distances(
    found: torch.Tensor, true: torch.Tensor, spacing: Sequence[float] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distances of the boundary pixels of two masks to the other's boundary, as MONAI does.

    In pixels they are computed here, in a fraction of the time: MONAI looks for a package for GPUs in every case.

    Args:
        found: a mask ``(H, W[, D])`` that is not empty.
        true: another one.
        spacing: size of a pixel along each axis in millimetres; None measures in pixels.

    Returns:
        The distances from `found` to `true`, ``(n,)``, and back, ``(m,)``.
    """
    if spacing is None:
        return _pixel_distances(found.bool().cpu().numpy(), true.bool().cpu().numpy())
    from monai.metrics.utils import get_edge_surface_distance  # noqa: PLC0415

    with warnings.catch_warnings():
        # MONAI 1.6 warns of a deprecated argument that it passes to itself.
        warnings.simplefilter("ignore", FutureWarning)
        _, distances, _ = get_edge_surface_distance(found, true, spacing=spacing, symmetric=True)
    there, back = distances
    return there, back


def _pixel_distances(found: Booleans, true: Booleans) -> tuple[torch.Tensor, torch.Tensor]:
    """The distances of :func:`surface_distances` in pixels; a mask has an edge where the image ends."""
    corners = np.argwhere(found | true)
    box = tuple(map(slice, corners.min(axis=0), corners.max(axis=0) + 1))
    edges = [mask[box] & ~ndimage.binary_erosion(mask[box]) for mask in (found, true)]
    to_found, to_true = (torch.from_numpy(ndimage.distance_transform_edt(~edge)).float() for edge in edges)
    return to_true[torch.from_numpy(edges[0])], to_found[torch.from_numpy(edges[1])]


def hausdorff_95(distances: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Return the larger 95th percentile of the distances in both directions; see :func:`surface_distances`."""
    return max(_percentile_95(values) for values in distances)


def _percentile_95(values: torch.Tensor) -> float:
    if len(values) <= _QUANTILE_LIMIT:
        return float(torch.quantile(values, 0.95))
    return float(np.percentile(values.numpy(), 95))


class PooledScores(TypedDict):
    """Scores of sites together, None where no site has one, and on how many cases."""

    evaluated_on: Literal["sites"]
    dice: float | None
    dice_per_class: list[float | None]
    left_empty: float | None
    left_empty_per_class: list[float | None]
    hd95: float | None
    hd95_undefined: int
    num_cases: int
    num_annotated_per_class: list[int]


def pool_site_scores(answers: Mapping[str, Mapping[str, Any]]) -> PooledScores | None:
    """Pool the sites' validation scores, weighted by the numbers of cases that they are means over.

    Args:
        answers: what sites sent for the task ``validate``: ``num_samples``, and where that is at least the minimum
            count ``dice``, ``left_empty`` and ``hd95`` per class, NaN where a site withholds a class or has none, with
            ``num_class_cases`` and ``num_defined``. An answer whose Dice or share is beyond 0 to 1, whose distance no
            image has, or of no cases, does not count; nothing counts for more cases than the site has.

    Returns:
        The scores; None if no site has any.
    """
    scored = [answer for answer in answers.values() if "dice" in answer and _could_be_scores(answer)]
    if not scored:
        return None
    classes = range(len(scored[0]["dice"]))
    annotated = [[_claimed(answer, "num_class_cases", c) for answer in scored] for c in classes]
    defined = [[_claimed(answer, "num_defined", c) for answer in scored] for c in classes]
    empty = [[answer["num_samples"] - n for answer, n in zip(scored, annotated[c], strict=True)] for c in classes]
    dice, left_empty, hd95 = (
        [_pooled([answer[name][c] for answer in scored], counts[c]) for c in classes]
        for name, counts in (("dice", annotated), ("left_empty", empty), ("hd95", defined))
    )
    return {
        "evaluated_on": "sites",
        "dice": _mean_of_known(dice),
        "dice_per_class": dice,
        "left_empty": _mean_of_known(left_empty),
        "left_empty_per_class": left_empty,
        "hd95": _mean_of_known(hd95),
        "hd95_undefined": sum(
            max(n - m, 0)
            for of_class, with_distance in zip(annotated, defined, strict=True)
            for n, m in zip(of_class, with_distance, strict=True)
        ),
        "num_cases": sum(answer["num_samples"] for answer in scored),
        "num_annotated_per_class": [sum(counts) for counts in annotated],
    }


def _could_be_scores(answer: Mapping[str, Any]) -> bool:
    shares, distances = (*answer["dice"], *answer["left_empty"]), answer["hd95"]
    within = all(math.isnan(share) or 0 <= share <= 1 for share in shares)
    within &= all(math.isnan(distance) or 0 <= distance <= _LONGEST_DISTANCE for distance in distances)
    return answer["num_samples"] >= 1 and within


def _claimed(answer: Mapping[str, Any], name: str, index: int) -> int:
    """A number of a class's cases, no larger than that of all of the site's."""
    return min(int(answer[name][index]), int(answer["num_samples"]))


def _pooled(means: Sequence[float], counts: Sequence[int]) -> float | None:
    """The mean of means with their numbers of cases, without those that are not finite or of no case; None if none is
    left.
    """
    usable = [(mean, count) for mean, count in zip(means, counts, strict=True) if math.isfinite(mean) and count]
    if not usable:
        return None
    return sum(mean * count for mean, count in usable) / sum(count for _, count in usable)


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None
