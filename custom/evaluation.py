"""Segmentation metrics of a model on labelled cases, by MONAI's metric functions."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from .data.site_data import LoadedCase
from .inference import Inference

# PyTorch's quantile takes no more values; a model that finds noise in a large volume has more of them on its surfaces.
_QUANTILE_LIMIT = 2**24


@dataclass(frozen=True)
class SegmentationScores:
    """Mean scores over cases, per foreground class (tuples of length C).

    Attributes:
        dice: mean Dice coefficient, 0 to 1; a case whose annotation and prediction are both empty counts 1.
        hd95: mean 95th percentile Hausdorff distance over the cases where it is defined, NaN if none is; in pixels for
            pictures, in millimetres for volumes.
        hd95_undefined: number of cases with an empty annotation or an empty prediction, where no distance exists.
        num_cases: number of cases: pictures or volumes, not slices.
        hd95_units: number of patients or volumes that the cases with a distance are of.
        dice_units: number of patients or volumes with the class in an annotation or a prediction; the Dice of the
            others is 1 by agreement.
    """

    dice: tuple[float, ...]
    hd95: tuple[float, ...]
    hd95_undefined: tuple[int, ...]
    num_cases: int
    hd95_units: tuple[int, ...]
    dice_units: tuple[int, ...]

    @property
    def mean_dice(self) -> float:
        """Mean Dice over the classes."""
        return sum(self.dice) / len(self.dice)

    @property
    def mean_hd95(self) -> float:
        """Mean HD95 over the classes in which it is defined, NaN if in none."""
        defined = [value for value in self.hd95 if not math.isnan(value)]
        return sum(defined) / len(defined) if defined else math.nan


@dataclass(frozen=True)
class CaseScores:
    """Scores of one case per foreground class (tuples of length C); they stay at the site.

    Attributes:
        dice: Dice coefficient, 1 where annotation and prediction are both empty.
        hd95: 95th percentile Hausdorff distance, NaN where either is empty or the distance of slices is unknown.
        present: whether annotation or prediction has the class.
    """

    dice: tuple[float, ...]
    hd95: tuple[float, ...]
    present: tuple[bool, ...]


def evaluate(
    network: nn.Module, cases: Sequence[LoadedCase], num_classes: int, inference: Inference
) -> SegmentationScores:
    """Predict and score one case after the other; the slices of a volume are scored together, as a volume.

    Args:
        network: the model.
        cases: at least one case.
        num_classes: number of foreground classes C.
        inference: how the model is run.
    """
    predictions = inference.predictions(network, cases)
    scores = [score_case(case, predicted, num_classes) for case, predicted in zip(cases, predictions, strict=True)]
    return mean_scores(scores, [case.unit for case in cases])


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
        labels: true classes.
        num_classes: number of foreground classes C.
        spacing: size of a pixel along each axis in millimetres; None measures in pixels.
    """
    from monai.metrics import compute_dice

    dice, hd95, present = [], [], []
    for index in range(1, num_classes + 1):
        found, true = (predicted == index)[None, None], (labels == index)[None, None]
        dice.append(float(compute_dice(found, true, include_background=True, ignore_empty=False)))
        hd95.append(_distance(found[0, 0], true[0, 0], spacing) if found.any() and true.any() else math.nan)
        present.append(bool(found.any() or true.any()))
    return CaseScores(tuple(dice), tuple(hd95), tuple(present))


def mean_scores(scores: Sequence[CaseScores], units: Sequence[str]) -> SegmentationScores:
    """Return the means over cases, all of which weigh equally.

    Args:
        scores: the scores of each case.
        units: the patient or volume of each case.
    """
    dice = torch.tensor([case.dice for case in scores], dtype=torch.float64)
    hd95 = torch.tensor([case.hd95 for case in scores], dtype=torch.float64)
    return SegmentationScores(
        dice=tuple(dice.mean(0).tolist()),
        hd95=tuple(torch.nanmean(hd95, 0).tolist()),
        hd95_undefined=tuple(int(count) for count in hd95.isnan().sum(0)),
        num_cases=len(scores),
        hd95_units=_units_of(~hd95.isnan(), units),
        dice_units=_units_of(torch.tensor([case.present for case in scores], dtype=torch.bool), units),
    )


def _units_of(counts: torch.Tensor, units: Sequence[str]) -> tuple[int, ...]:
    """The number of patients or volumes of the cases that count for each class, ``(N, C)``."""
    return tuple(
        len({unit for unit, does_count in zip(units, of_class, strict=True) if does_count})
        for of_class in counts.T.tolist()
    )


def _distance(found: torch.Tensor, true: torch.Tensor, spacing: Sequence[float] | None) -> float:
    """95th percentile Hausdorff distance of two masks that are not empty."""
    from monai.metrics.utils import get_edge_surface_distance

    with warnings.catch_warnings():
        # MONAI 1.6 warns of a deprecated argument that it passes to itself.
        warnings.simplefilter("ignore", FutureWarning)
        _, distances, _ = get_edge_surface_distance(found, true, spacing=spacing, symmetric=True)
    return max(_percentile_95(values) for values in distances)


def _percentile_95(values: torch.Tensor) -> float:
    if len(values) <= _QUANTILE_LIMIT:
        return float(torch.quantile(values, 0.95))
    return float(np.percentile(values.numpy(), 95))


def pool_site_scores(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Pool the sites' validation scores, weighted by their numbers of cases.

    Args:
        answers: what sites sent for the task ``validate``: ``num_samples``, and where that is at least the minimum
            count ``dice``, ``hd95`` and ``num_defined`` per class, NaN where a site withholds a class. An answer whose
            Dice is beyond 0 to 1, or of no cases, does not count; no distance counts for more cases than the site has.

    Returns:
        The scores as plain values, None where no site has one; nothing if no site has any.
    """
    scored = [answer for answer in answers.values() if "dice" in answer and _could_be_scores(answer)]
    if not scored:
        return {}
    classes = range(len(scored[0]["dice"]))
    dice = [_pooled([(answer["dice"][c], answer["num_samples"]) for answer in scored]) for c in classes]
    distances = [_pooled([_site_distance(answer, c) for answer in scored]) for c in classes]
    return {
        "evaluated_on": "sites",
        "dice": _mean_of_known(dice),
        "dice_per_class": dice,
        "hd95": _mean_of_known(distances),
        "num_cases": sum(answer["num_samples"] for answer in scored),
    }


def _could_be_scores(answer: Mapping[str, Any]) -> bool:
    return answer["num_samples"] >= 1 and all(math.isnan(dice) or 0 <= dice <= 1 for dice in answer["dice"])


def _site_distance(answer: Mapping[str, Any], index: int) -> tuple[float, int]:
    """The mean distance of a class, NaN where it is none, and the number of cases that it counts for."""
    count = min(int(answer["num_defined"][index]), int(answer["num_samples"]))
    distance = float(answer["hd95"][index])
    return (distance if math.isfinite(distance) and count else math.nan), count


def _pooled(means: Sequence[tuple[float, int]]) -> float | None:
    """The mean of means with their numbers of cases, without those that are NaN; None if all are."""
    usable = [(mean, count) for mean, count in means if not math.isnan(mean)]
    if not usable:
        return None
    return sum(mean * count for mean, count in usable) / sum(count for _, count in usable)


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
