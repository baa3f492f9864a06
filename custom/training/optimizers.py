"""The optimizer of a round of local training, as the settings name it."""

import torch
from torch import nn

from ..settings import ClassifierTrainingSettings, TrainingSettings

# Momentum terms of Adam as in FedA³I and FedIA.
_ADAM_BETAS = (0.9, 0.99)


def build_optimizer(
    network: nn.Module, training: TrainingSettings | ClassifierTrainingSettings, learning_rate: float
) -> torch.optim.Optimizer:
    """Return an optimizer of those parameters that are to be trained; it is made again in every round.

    Args:
        network: what is trained.
        training: which optimizer, its weight decay, and momentum of ``sgd``.
        learning_rate: of the round.
    """
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if training.optimizer == "sgd":
        return torch.optim.SGD(
            trained, lr=learning_rate, momentum=training.momentum, weight_decay=training.weight_decay
        )
    return torch.optim.Adam(
        trained, lr=learning_rate, betas=_ADAM_BETAS, weight_decay=training.weight_decay, fused=True
    )
