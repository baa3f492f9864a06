"""What a noisy site makes small: its loss, and the divergence from what the received model says (FedNoRo, stage 2)."""

import copy
import math

import torch
from torch import nn

from ....transforms.ignored_label import IGNORED_LABEL
from ...training.batch import Batch
from ...training.objectives import Objective, Step
from .prior import AdjustedNetwork


def distillation_weight(largest: float, rounds_done: int, rounds: int) -> float:
    """Return w = w_max exp(−5 (1 − t)²), where t goes from 0 to 1 with the rounds.

    Args:
        largest: w_max.
        rounds_done: rounds since the warm-up, 0 in the first one.
        rounds: after how many w_max is reached.

    Example:
        >>> [round(distillation_weight(0.8, done, 40), 4) for done in (0, 20, 40, 90)]
        [0.0054, 0.2292, 0.8, 0.8]
    """
    done = min(max(rounds_done / rounds, 0.0), 1.0)
    return largest * math.exp(-5 * (1 - done) ** 2)


class DistillationObjective:
    """w KL(s ‖ softmax(z + ln π)) + (1 − w) L(z + ln π), with s = softmax(z_received / T) and the settings' loss L.

    The divergence is the mean over samples, of segmentation over the pixels that are not ignored. The received model is
    in evaluation mode, and is not adjusted.

    Args:
        supervised: L, with all that the settings add to it.
        log_prior: ln π; None adjusts nothing.
        weight: w; 0 needs no received model.
        temperature: T.
        received: the network with the received weights, which is copied.
    """

    def __init__(
        self,
        supervised: Objective,
        received: nn.Module,
        *,
        log_prior: torch.Tensor | None,
        weight: float,
        temperature: float,
    ) -> None:
        self._supervised, self._log_prior = supervised, log_prior
        self._weight, self._temperature = weight, temperature
        self._teacher = copy.deepcopy(received).eval().requires_grad_(requires_grad=False) if weight else None

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        adjusted = AdjustedNetwork(network, self._log_prior)
        supervised = self._supervised(adjusted, batch, step)
        if self._teacher is None:
            return supervised
        with torch.no_grad():
            taught = (self._teacher(batch.images).float() / self._temperature).log_softmax(dim=1)
        divergence = mean_divergence(taught, adjusted.logits.float().log_softmax(dim=1), batch.labels)
        return self._weight * divergence + (1 - self._weight) * supervised


def mean_divergence(taught: torch.Tensor, learnt: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean of KL(s ‖ q) over samples, or over the pixels that are not ignored; 0 where all are.

    Args:
        taught: log s, ``(B, C)`` or ``(B, C, H, W[, D])``.
        learnt: log q, as above.
        labels: ``(B,)`` or ``(B, 1, H, W[, D])``.
    """
    divergences = (taught.exp() * (taught - learnt)).sum(dim=1)
    counts = torch.ones_like(divergences) if labels.ndim == 1 else (labels.squeeze(1) != IGNORED_LABEL).to(divergences)
    return (divergences * counts).sum() / counts.sum().clamp(min=1)
