"""The network V of FedSelect, from a case's loss to its weight: 1 → 100 → 1, ReLU and sigmoid, 301 numbers."""

import torch
from torch import nn

from .outbound import NUM_PARAMETERS

_HIDDEN = (NUM_PARAMETERS - 1) // 3


def initial_scorer(seed: int) -> list[float]:
    """Return V's parameters before any step, as PyTorch initialises its layers, ``(301,)``.

    Args:
        seed: of the numbers.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Sequential(nn.Linear(1, _HIDDEN), nn.Linear(_HIDDEN, 1))
    parameters: list[float] = torch.cat([tensor.detach().flatten() for tensor in layers.parameters()]).tolist()
    return parameters


def selection_weights(scorer: torch.Tensor, losses: torch.Tensor) -> torch.Tensor:
    """Return V(ℓ) = σ(w₂ᵀ max(w₁ ℓ + b₁, 0) + b₂), ``(N,)`` from 0 to 1.

    Args:
        scorer: w₁, b₁, w₂ and b₂, ``(301,)``.
        losses: ``(N,)``; they are no part of the gradient.

    Example:
        >>> selection_weights(torch.zeros(301), torch.tensor([0.2, 4.0])).tolist()
        [0.5, 0.5]
    """
    first, first_bias, second, second_bias = torch.split(scorer, [_HIDDEN, _HIDDEN, _HIDDEN, 1])
    hidden = (losses.detach().to(scorer)[:, None] * first + first_bias).relu()
    weights: torch.Tensor = (hidden @ second + second_bias).sigmoid()
    return weights
