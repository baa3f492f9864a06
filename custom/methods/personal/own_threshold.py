"""A threshold of a site's own: from which probability on a pixel is foreground, chosen on its training annotations."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from ....transforms.array_types import Floats
from ....transforms.ignored_label import IGNORED_LABEL
from ...data.site_data import LoadedCase
from ...evaluation.inference import Inference, evaluating

# In steps of five hundredths; the typical one is among them.
THRESHOLDS = tuple(step / 20 for step in range(1, 20))
DEFAULT = 0.5


class AtThreshold(nn.Module):
    """A model for which a pixel is foreground where its odds against the background exceed those of a threshold.

    With one foreground class these are the pixels with a probability above the threshold. Where images are also
    predicted mirrored, the threshold holds for each of them, and for the mean probability approximately.

    Args:
        model: maps images to logits, the background first.
        threshold: t, between 0 and 1; 0.5 leaves every prediction as it is.

    Example:
        >>> model = AtThreshold(nn.Identity(), 0.8)
        >>> logits = torch.tensor([[[[0.0, 0.0]], [[1.0, 2.0]]]])  # probabilities 0.73 and 0.88
        >>> model(logits).argmax(dim=1).tolist()
        [[[0, 1]]]
    """

    shift: torch.Tensor

    def __init__(self, model: nn.Module, threshold: float) -> None:
        super().__init__()
        self.model = model
        self.threshold = threshold
        self.register_buffer("shift", torch.tensor(_log_odds(threshold)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits ``(B, C + 1, H, W[, D])`` with the background's shifted by log(t / (1 − t))."""
        # In less precision the shift would be rounded.
        logits: torch.Tensor = self.model(images).float()
        return torch.cat([logits[:, :1] + self.shift, logits[:, 1:]], dim=1)


def own_threshold(model: nn.Module, cases: Sequence[LoadedCase], num_classes: int, inference: Inference) -> float:
    """Return the threshold with the largest mean Dice on a site's cases; of several the one nearest to 0.5.

    The mean is over the cases in which a class is annotated, and over classes. Ignored pixels count nowhere.

    Args:
        model: maps images to logits; it is run in evaluation mode.
        cases: the training cases with their annotations.
        num_classes: number of foreground classes C.
        inference: how the model is run.

    Returns:
        One of :data:`THRESHOLDS`; 0.5 where nothing is annotated.
    """
    parts = np.zeros((3, len(cases), num_classes, len(THRESHOLDS)))
    numbers = {id(case): number for number, case in enumerate(cases)}
    for batch in inference.batches(cases):
        with evaluating(model):
            logits = inference.logits(model, batch.images).float().cpu()
        odds, label = (logits[:, 1:] - logits[:, :1]).max(dim=1)
        for sample, case in enumerate(batch.cases):
            parts[:, numbers[id(case)]] += _overlaps(odds[sample], label[sample] + 1, batch.labels[sample], num_classes)
    return _best(*parts)


def _overlaps(odds: torch.Tensor, predicted: torch.Tensor, given: torch.Tensor, num_classes: int) -> Floats:
    """Pixels that both, the prediction and the annotation have, ``(3, C, thresholds)``, of one sample."""
    counts = given != IGNORED_LABEL
    shifts = np.array([_log_odds(threshold) for threshold in THRESHOLDS], dtype=np.float32)
    result = np.zeros((3, num_classes, len(THRESHOLDS)))
    for label in range(1, num_classes + 1):
        is_given = given == label
        of_class = (predicted == label) & counts
        for row, of in enumerate((odds[of_class & is_given], odds[of_class])):
            # A tie is background's, as it comes first.
            result[row, label - 1] = len(of) - np.searchsorted(np.sort(of.numpy()), shifts, side="right")
        result[2, label - 1] = int(is_given.sum())
    return result


def _best(both: Floats, predicted: Floats, given: Floats) -> float:
    """The best threshold from pixels by case, class and threshold."""
    annotated = given[..., 0] > 0
    classes = annotated.any(axis=0)
    if not classes.any():
        return DEFAULT
    dice = np.divide(2 * both, predicted + given, out=np.zeros_like(both), where=given > 0)
    by_class = dice.sum(axis=0)[classes] / annotated.sum(axis=0)[classes, np.newaxis]
    score = by_class.mean(axis=0)
    best = [value for value, of in zip(THRESHOLDS, score, strict=True) if of == score.max()]
    return min(best, key=lambda value: abs(value - DEFAULT))


def _log_odds(threshold: float) -> float:
    return math.log(threshold / (1 - threshold))
