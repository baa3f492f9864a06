"""What a site does with the model in one round: some epochs of training on its own annotations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .batches import Batches
from .losses import DiceRecord, build_loss
from .optimizers import Adam
from .settings import TrainingSettings

# Momentum terms of Adam as in FedA³I and FedIA; the optimiser is made anew each round.
_ADAM_BETAS = (0.9, 0.99)


@dataclass(frozen=True)
class TrainingOutcome:
    """What came of a round's training.

    Attributes:
        mean_loss: mean loss over samples or patches, and epochs.
        steps: number of optimiser steps.
        dice_loss: mean Dice loss likewise, where it was asked for; NaN if no sample counts.
    """

    mean_loss: float
    steps: int
    dice_loss: float | None = None


class TrainingStopped(RuntimeError):
    """Training was given up because the run is being stopped."""


def train_locally(
    network: nn.Module,
    batches: Batches,
    settings: TrainingSettings,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
    record_dice: bool = False,
) -> TrainingOutcome:
    """Train a network in place for the configured number of epochs.

    On a GPU the forward pass runs in bfloat16 where the GPU has it, else in float16 with a scaled loss. Nothing leaves
    the site but what the caller sends.

    Args:
        network: the network with the received weights.
        batches: images and labels on the network's device; see :func:`fedannot.custom.batches.training_batches`.
        settings: loss, learning rate and epochs.
        seed: seed of everything that `batches` draws.
        should_stop: asked before each batch; when it says yes the round is given up.
        record_dice: measure the Dice loss beside whatever loss is trained with.

    Raises:
        TrainingStopped: if `should_stop` said so.
    """
    device = next(network.parameters()).device
    return run_epochs(
        network,
        batches,
        build_loss(settings.loss),
        Adam(network.parameters(), lr=settings.learning_rate, betas=_ADAM_BETAS, fused=True),
        epochs=settings.local_epochs,
        seed=seed,
        should_stop=should_stop,
        dice=DiceRecord(annotated_only=settings.dice_loss_over == "annotated", device=device) if record_dice else None,
    )


def run_epochs(
    network: nn.Module,
    batches: Batches,
    loss_function: Callable[[torch.Tensor, torch.Tensor], Any],
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
    dice: DiceRecord | None = None,
) -> TrainingOutcome:
    """Train a network in place for some epochs; see :func:`train_locally` for precision and errors.

    Args:
        network: the network with the received weights.
        batches: images and labels on the network's device.
        loss_function: the mean loss of a batch, of logits and labels.
        optimizer: of the network's parameters.
        epochs: number of epochs.
        seed: seed of everything that `batches` draws.
        should_stop: asked before each batch; when it says yes the round is given up.
        dice: is given every batch to measure its Dice loss.

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
    network.train()
    for _ in range(epochs):
        for images, labels in batches.epoch(generator):
            if should_stop is not None and should_stop():
                raise TrainingStopped
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, dtype=precision, enabled=on_gpu):
                logits = network(images)
                loss = loss_function(logits, labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            total_loss += loss.detach().float() * len(images)
            if dice is not None:
                dice.add(logits, labels)
            steps += 1
    mean_loss = float(total_loss) / (epochs * batches.samples_per_epoch)
    return TrainingOutcome(mean_loss, steps, None if dice is None else dice.mean)
