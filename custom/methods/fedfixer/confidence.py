"""The regulariser that makes predictions certain: a loss of classes drawn as often as the site has them counts less."""

import torch
from torch import nn

from ...training.batch import Batch
from ...training.objectives import Objective, Step
from ..fednoro.prior import AdjustedNetwork

# Added to probabilities, as in the program of CORES²: the regulariser is bounded.
_SMALLEST = 1e-8


class ConfidentObjective:
    """ℓ − β Σ_c π_c CE(f, c), its mean over the batch, with the settings' loss ℓ.

    Args:
        supervised: ℓ, with all that the settings add to it.
        frequencies: π, how often the site has each class, ``(C,)``.
        weight: β.
    """

    def __init__(self, supervised: Objective, frequencies: torch.Tensor, weight: float) -> None:
        self._supervised, self._frequencies, self._weight = supervised, frequencies, weight

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        # Without a prior the logits are the network's own; it remembers them.
        observed = AdjustedNetwork(network)
        supervised = self._supervised(observed, batch, step)
        logarithms = (observed.logits.float().softmax(dim=1) + _SMALLEST).log()
        return supervised + self._weight * (logarithms @ self._frequencies.to(logarithms)).mean()
