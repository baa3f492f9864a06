"""Which pixels of a batch a network is trained on: those with the smallest values of the other one."""

import math

import torch
from torch.nn.functional import cross_entropy

from ....transforms.ignored_label import IGNORED_LABEL
from ...training.batch import Batch

# What a product of fraction and number may lack by rounding.
_ROUNDING = 1e-9


def smallest_pixels(values: torch.Tensor, counted: torch.Tensor, fraction: float) -> torch.Tensor:
    """Return which pixels have the smallest values: ⌊fraction · n⌋ of the n that count.

    Of equal values the first ones are taken.

    Args:
        values: of any shape.
        counted: which pixels may be taken, booleans of this shape.
        fraction: from 0 to 1.

    Returns:
        Booleans of this shape.

    Example:
        >>> values = torch.tensor([0.3, 0.1, 0.2, 0.0])
        >>> smallest_pixels(values, torch.tensor([True, True, True, False]), 0.7).tolist()
        [False, True, True, False]
    """
    number = math.floor(fraction * int(counted.sum()) + _ROUNDING)
    order = values.masked_fill(~counted, float("inf")).flatten().argsort(stable=True)
    chosen = torch.zeros(values.numel(), dtype=torch.bool, device=values.device)
    chosen[order[:number]] = True
    return chosen.view(values.shape) & counted


def pixel_losses(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return the cross entropy of every pixel, ``(B, H, W[, D])``, 0 where it is ignored.

    Args:
        logits: ``(B, C + 1, H, W[, D])``.
        batch: with labels, or with the fractions of annotators that are trained on.
    """
    if batch.fractions is not None:
        return -(batch.fractions * logits.float().log_softmax(dim=1)).sum(dim=1)
    return cross_entropy(logits.float(), batch.labels.squeeze(1).long(), ignore_index=IGNORED_LABEL, reduction="none")
