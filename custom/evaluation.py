"""Segmentation metrics of a model on labelled images, by MONAI's metric functions."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class SegmentationScores:
    """Mean scores over cases, per foreground class (tuples of length C).

    Attributes:
        dice: mean Dice coefficient, 0 to 1; a case whose annotation and prediction are both empty counts 1.
        hd95: mean 95th percentile Hausdorff distance in pixels over the cases where it is defined, NaN if none is.
        hd95_undefined: number of cases with an empty annotation or an empty prediction, where no distance exists.
        num_cases: number of cases.
    """

    dice: tuple[float, ...]
    hd95: tuple[float, ...]
    hd95_undefined: tuple[int, ...]
    num_cases: int

    @property
    def mean_dice(self) -> float:
        """Mean Dice over the classes."""
        return sum(self.dice) / len(self.dice)

    @property
    def mean_hd95(self) -> float:
        """Mean HD95 over the classes in which it is defined, NaN if in none."""
        defined = [value for value in self.hd95 if not math.isnan(value)]
        return sum(defined) / len(defined) if defined else math.nan


@torch.inference_mode()
def predict_labels(network: nn.Module, images: torch.Tensor, batch_size: int) -> torch.Tensor:
    """Return the predicted class of every pixel, ``(N, H, W[, D])`` uint8, in evaluation mode.

    The network is put back into the mode that it was in.
    """
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    try:
        predictions = [
            network(batch.to(device)).argmax(dim=1).to("cpu", torch.uint8) for batch in torch.split(images, batch_size)
        ]
    finally:
        network.train(was_training)
    return torch.cat(predictions)


def score_labels(predicted: torch.Tensor, labels: torch.Tensor, num_classes: int) -> SegmentationScores:
    """Score predicted against true labels, both ``(N, H, W[, D])``, for the foreground classes 1..C."""
    from monai.metrics import compute_dice, compute_hausdorff_distance
    from monai.networks import one_hot

    predicted_masks = one_hot(predicted.unsqueeze(1), num_classes + 1)[:, 1:]
    true_masks = one_hot(labels.unsqueeze(1), num_classes + 1)[:, 1:]
    dice = compute_dice(predicted_masks, true_masks, include_background=True, ignore_empty=False)
    spatial = tuple(range(2, true_masks.ndim))
    defined = (predicted_masks.sum(spatial) > 0) & (true_masks.sum(spatial) > 0)
    hd95 = torch.full(dice.shape, math.nan, dtype=torch.float64)
    with warnings.catch_warnings():
        # MONAI 1.6 warns of a deprecated argument that it passes to itself.
        warnings.simplefilter("ignore", FutureWarning)
        for case, index in defined.nonzero().tolist():
            one = (slice(case, case + 1), slice(index, index + 1))
            distance = compute_hausdorff_distance(
                predicted_masks[one], true_masks[one], include_background=True, percentile=95
            )
            hd95[case, index] = distance.squeeze()
    return SegmentationScores(
        dice=tuple(dice.double().mean(0).tolist()),
        hd95=tuple(torch.nanmean(hd95, 0).tolist()),
        hd95_undefined=tuple(int(count) for count in (~defined).sum(0)),
        num_cases=len(labels),
    )


def evaluate(
    network: nn.Module, images: torch.Tensor, labels: torch.Tensor, num_classes: int, batch_size: int
) -> SegmentationScores:
    """Predict and score; see :func:`predict_labels` and :func:`score_labels`."""
    return score_labels(predict_labels(network, images, batch_size), labels, num_classes)


def pool_site_scores(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Pool the sites' validation scores, weighted by their numbers of cases.

    Args:
        answers: what sites sent for the task ``validate``: ``num_samples``, and where that is at least the minimum
            count ``dice``, ``hd95`` and ``num_defined`` per class.
    """
    scored = [answer for answer in answers.values() if "dice" in answer]
    if not scored:
        return {"evaluated_on": None, "dice": None, "hd95": None}
    cases = sum(answer["num_samples"] for answer in scored)
    num_classes = len(scored[0]["dice"])
    dice = [sum(answer["dice"][c] * answer["num_samples"] for answer in scored) / cases for c in range(num_classes)]
    distances = [
        sum(answer["hd95"][c] * answer["num_defined"][c] for answer in usable)
        / sum(answer["num_defined"][c] for answer in usable)
        for c in range(num_classes)
        if (usable := [answer for answer in scored if not math.isnan(answer["hd95"][c])])
    ]
    return {
        "evaluated_on": "sites",
        "dice": sum(dice) / num_classes,
        "dice_per_class": dice,
        "hd95": sum(distances) / len(distances) if distances else None,
        "num_cases": cases,
    }
