"""What a site makes small in FedCorr: the loss of mixed images, and its distance from the received model."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from ...training.batch import Batch
from ...training.objectives import Objective, Step, proximal_term


class MixupObjective:
    """λ L(y_a) + (1 − λ) L(y_b) of mixed images λ x_a + (1 − λ) x_b, with λ from Beta(α, α) (Zhang et al., ICLR 2018).

    Images of a batch are mixed with those of the same batch in another order. The network runs once.

    Args:
        supervised: L, the loss that the settings name.
        alpha: α, above 0.
        seed: of λ and the orders.
    """

    def __init__(self, supervised: Objective, alpha: float, seed: int) -> None:
        self._supervised, self._alpha = supervised, alpha
        self._generator = np.random.default_rng(seed)

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss."""
        share = float(self._generator.beta(self._alpha, self._alpha))
        order = torch.from_numpy(self._generator.permutation(len(batch.images)))
        own = replace(batch, images=torch.lerp(batch.images[order.to(batch.images.device)], batch.images, share))
        once = _RunOnce(network)
        first = self._supervised(once, own, step)
        return share * first + (1 - share) * self._supervised(once, _reordered(own, order), step)


def _reordered(batch: Batch, order: torch.Tensor) -> Batch:
    """The same images with the labels of others."""
    there = order.to(batch.labels.device)
    return replace(
        batch,
        labels=batch.labels[there],
        samples=batch.samples[order],
        places=None if batch.places is None else batch.places[there],
        fractions=None if batch.fractions is None else batch.fractions[there],
    )


class _RunOnce(nn.Module):
    """A network that gives its outputs for a batch again, those of deep supervision among them."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        # By it all logits of a network are asked for, see fedannot.custom.networks.outputs.
        self.main_output: Any = getattr(network, "main_output", None)
        self._logits: torch.Tensor | None = None
        self._further: tuple[torch.Tensor, ...] = ()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        if self._logits is None:
            self._logits = self.network(images)
            self._further = () if self.main_output is None else self.main_output.further
        elif self.main_output is not None:
            self.main_output.further = self._further
        return self._logits


class DistancePenalty:
    """weight · ‖w − w_ref‖, not squared, from the second step of a round on; w_ref is a network as it is now.

    Where w is w_ref it is 0, and so is its gradient.

    Args:
        weight: β μ_k.
        reference: the network with w_ref, whose parameters are copied.
    """

    def __init__(self, weight: float, reference: nn.Module) -> None:
        self._weight = weight
        self._reference = [parameter.detach().clone() for parameter in reference.parameters()]

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the penalty."""
        if step.number == 0:
            return torch.zeros((), device=batch.images.device)
        squared = 2 * proximal_term(network, self._reference)
        is_away = squared > 0
        return self._weight * is_away * torch.where(is_away, squared, 1.0).sqrt()
