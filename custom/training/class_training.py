"""Local training of a classifier, by stochastic gradient descent."""

from collections.abc import Callable

import torch
from torch import nn

from ..settings import ClassifierTrainingSettings
from .batches import ClassBatches
from .local_training import TrainingOutcome, run_epochs
from .optimizers import SGD

ClassLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy of logits ``(B, C)`` and classes ``(B,)``."""
    return nn.functional.cross_entropy(logits.float(), labels)


def train_classifier(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    settings: ClassifierTrainingSettings,
    *,
    learning_rate: float,
    seed: int,
    loss_function: ClassLoss = cross_entropy,
    should_stop: Callable[[], bool] | None = None,
) -> TrainingOutcome:
    """Train a classifier in place for the configured number of epochs; nothing leaves the site.

    Args:
        network: the network with the received weights.
        images: ``(N, C, H, W)``.
        labels: the classes to train on, ``(N,)``.
        settings: momentum, weight decay, batch size, epochs and augmentation.
        learning_rate: of this round.
        seed: seed of the order of the samples and of the augmentation.
        loss_function: the mean loss of logits ``(B, C)`` and classes ``(B,)``.
        should_stop: asked before each batch; when it says yes the round is given up.

    Raises:
        TrainingStopped: if `should_stop` said so.
    """
    device = next(network.parameters()).device
    optimizer = SGD(
        network.parameters(), lr=learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    batches = ClassBatches(images, labels, settings.batch_size, device, augmentation=settings.augmentation)

    def batch_loss(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return loss_function(network(images), labels)

    return run_epochs(
        network, batches, batch_loss, optimizer, epochs=settings.local_epochs, seed=seed, should_stop=should_stop
    )
