"""The optimizer of a round of local training, as the settings name it."""

import torch
from torch import nn

from ..settings import ClassifierTrainingSettings, TrainingSettings


def build_optimizer(
    network: nn.Module, training: TrainingSettings | ClassifierTrainingSettings, learning_rate: float
) -> torch.optim.Optimizer:
    """Return a new optimizer of those parameters that are to be trained.

    Args:
        network: what is trained.
        training: which optimizer and its options.
        learning_rate: with which it begins.
    """
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
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
