"""Missed lesions that a model predicts with confidence (FedIA, Sec. 2.4)."""

from collections.abc import Callable

import torch


def confident_classes(threshold: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what gives the foreground classes with a probability above a threshold.

    Args:
        threshold: τ, from 0.5 on, so that no two classes can be above it.

    Returns:
        A function of logits ``(B, C + 1, H, W[, D])`` that returns classes ``(B, H, W[, D])``, 0 where none is above.

    Raises:
        ValueError: if the threshold is not from 0.5 to below 1.
    """
    if not 0.5 <= threshold < 1:
        raise ValueError(f"Expected a threshold from 0.5 to below 1, but got {threshold=}.")

    def decide(logits: torch.Tensor) -> torch.Tensor:
        probability, label = logits.float().softmax(dim=1)[:, 1:].max(dim=1)
        return torch.where(probability > threshold, label + 1, 0)

    return decide
