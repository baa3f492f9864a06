"""What a site does with the model in one round: some epochs of training on its own annotations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ..settings import ClassifierTrainingSettings, TrainingSettings
from .batch import Batches
from .losses import DiceRecord
from .objectives import Objective, Step
from .optimizers import build_optimizer


@dataclass(frozen=True)
class TrainingOutcome:
    """What came of a round's training.

    Attributes:
        mean_loss: mean loss over samples or patches, and epochs.
        steps: number of optimizer steps.
        dice_loss: mean Dice loss as above, where it was asked for; NaN if no sample counts.
        dice_samples: which of the site's samples that is over, of patches which of its volumes.
        samples: which of the site's samples, of patches which of its volumes, the training was over.
        samples_per_epoch: number of samples or patches of an epoch.
    """

    mean_loss: float
    steps: int
    dice_loss: float | None = None
    dice_samples: frozenset[int] = frozenset()
    samples: frozenset[int] = frozenset()
    samples_per_epoch: int = 0

    def with_dice(self, record: DiceRecord | None) -> "TrainingOutcome":
        """Return the outcome with the Dice loss that was recorded in training, if it was."""
        return self if record is None else replace(self, dice_loss=record.mean, dice_samples=record.samples)


class TrainingStopped(RuntimeError):
    """Training was given up because the run is being stopped."""


def train(
    network: nn.Module,
    batches: Batches,
    objective: Objective,
    training: TrainingSettings | ClassifierTrainingSettings,
    *,
    learning_rate: float,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
) -> TrainingOutcome:
    """Train a network in place for the configured number of epochs with the configured optimizer.

    Nothing leaves the site but what the caller sends.

    Args:
        network: the network with the received weights.
        batches: images and labels on the network's device; see
            :func:`fedannot.custom.training.batches.training_batches`.
        objective: what is made small; :func:`fedannot.custom.training.objectives.training_objective` gives that of the
            settings.
        training: optimizer and epochs.
        learning_rate: of this round.
        seed: seed of everything that `batches` draws.
        should_stop: asked before each batch; when it says yes the round is given up.

    Raises:
        TrainingStopped: if `should_stop` said so.
    """
    return run_epochs(
        network,
        batches,
        objective,
        build_optimizer(network, training, learning_rate),
        epochs=training.local_epochs,
        seed=seed,
        should_stop=should_stop,
    )


def run_epochs(
    network: nn.Module,
    batches: Batches,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
) -> TrainingOutcome:
    """Train a network in place for some epochs.

    On a GPU the forward pass runs in bfloat16 where the GPU has it, else in float16 with a scaled loss.

    Args:
        network: what is trained, put into training mode; on one device.
        batches: images and labels on that device.
        objective: what is made small.
        optimizer: of the parameters to be trained.
        epochs: number of epochs.
        seed: seed of everything that `batches` draws.
        should_stop: asked before each batch; when it says yes the round is given up.

    Raises:
        TrainingStopped: if `should_stop` said so.
    """
    device = next(network.parameters()).device
    on_gpu = device.type == "cuda"
    precision = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported() else torch.float16
    scaler = torch.amp.GradScaler(device.type, enabled=on_gpu and precision is torch.float16)
    generator = torch.Generator().manual_seed(seed)
    total_loss = torch.zeros((), device=device)
    steps = 0
    samples: set[int] = set()
    network.train()
    for epoch in range(epochs):
        for batch in batches.epoch(generator):
            if should_stop is not None and should_stop():
                raise TrainingStopped
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, dtype=precision, enabled=on_gpu):
                loss = objective(network, batch, Step(steps, epoch, epochs))
            scaled: Any = scaler.scale(loss)
            scaled.backward()
            scaler.step(optimizer)
            scaler.update()
            total_loss += loss.detach().float() * len(batch.images)
            samples.update(batch.samples.tolist())
            steps += 1
    mean_loss = float(total_loss) / (epochs * batches.samples_per_epoch)
    return TrainingOutcome(mean_loss, steps, samples=frozenset(samples), samples_per_epoch=batches.samples_per_epoch)
