"""How a step of training is made: forward and backward pass, and the optimizer's step."""

from typing import Any, Protocol

import torch
from torch import nn

from ..networks.precision import computed_precision
from ..settings import Precision
from .batch import Batch
from .objectives import Objective, Step
from .optimizers import set_learning_rate


class Steps(Protocol):
    """Makes the steps of a training.

    Attributes:
        network: what is trained, on one device.
        total_loss: sum of the losses of all samples so far, a scalar on that device.
    """

    network: nn.Module
    total_loss: torch.Tensor

    def set_learning_rate(self, learning_rate: float) -> None:
        """Set the learning rate of the next step."""

    def step(self, batch: Batch, step: Step) -> None:
        """Make a step.

        Args:
            batch: on the network's device.
            step: where the round is.
        """


class SingleSteps:
    """Makes every step by itself, of any objective.

    Args:
        network: what is trained.
        objective: what is made small.
        optimizer: of the parameters to be trained.
        scaler: of the loss.
        gradient_clipping: largest norm of a step's gradient; None for any.
        adversary: the optimizer of what makes the loss large; it steps with the same gradient, and is not clipped.
    """

    def __init__(
        self,
        network: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        gradient_clipping: float | None = None,
        adversary: torch.optim.Optimizer | None = None,
    ) -> None:
        self.network = network
        self.total_loss = torch.zeros((), device=next(network.parameters()).device)
        self._objective = objective
        self._optimizers = (optimizer,) if adversary is None else (optimizer, adversary)
        self._scaler = scaler
        self._clipping = gradient_clipping

    def set_learning_rate(self, learning_rate: float) -> None:
        """Set the learning rate of the next step."""
        set_learning_rate(self._optimizers[0], learning_rate)

    def step(self, batch: Batch, step: Step) -> None:
        """Make a step, without waiting for a GPU."""
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = self._objective(self.network, batch, step)
        scaled: Any = self._scaler.scale(loss)
        scaled.backward()
        if self._clipping is not None:
            self._scaler.unscale_(self._optimizers[0])
            parameters = [parameter for group in self._optimizers[0].param_groups for parameter in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self._clipping)
        for optimizer in self._optimizers:
            self._scaler.step(optimizer)
        self._scaler.update()
        self.total_loss += loss.detach().float() * len(batch.images)


def loss_scaler(network: nn.Module, precision: Precision) -> torch.amp.GradScaler:
    """Return what scales losses so that small gradients are not lost in float16; it does nothing elsewhere.

    Args:
        network: what is trained, on one device.
        precision: as of the settings.
    """
    device = next(network.parameters()).device
    return torch.amp.GradScaler(device.type, enabled=computed_precision(precision, device) == "fp16")
