"""The optimizer of a round of local training, as the settings name it."""

import torch
from torch import nn

from ..components.building import build_component
from ..components.component import Component
from ..components.roles import Role
from ..settings import ClassifierTrainingSettings, TrainingSettings


def build_optimizer(
    network: nn.Module, training: TrainingSettings | ClassifierTrainingSettings, learning_rate: float
) -> torch.optim.Optimizer:
    """Return a new optimizer of those parameters that are to be trained.

    Args:
        network: what is trained.
        training: which optimizer and its options.
        learning_rate: with which it begins.

    Raises:
        ComponentError: if a class cannot be used.
    """
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if isinstance(training.optimizer, Component):
        built: torch.optim.Optimizer = build_component(
            training.optimizer, Role.OPTIMIZER, {"params": trained, "lr": learning_rate}
        )
        return built
    if training.optimizer == "sgd":
        return torch.optim.SGD(
            trained,
            lr=learning_rate,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
            nesterov=training.nesterov,
        )
    return torch.optim.Adam(
        trained, lr=learning_rate, betas=training.betas, weight_decay=training.weight_decay, fused=True
    )
