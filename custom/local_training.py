"""What a site does with the model in one round: some epochs of training on its own annotations."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from .adam import Adam
from .batches import Batches
from .settings import TrainingSettings

# Momentum terms of Adam as in FedA³I and FedIA; the optimiser is made anew each round.
_ADAM_BETAS = (0.9, 0.99)


@dataclass(frozen=True)
class TrainingOutcome:
    """Mean loss of a round's training (over samples or patches, and epochs) and the number of optimiser steps."""

    mean_loss: float
    steps: int


class TrainingStopped(RuntimeError):
    """Training was given up because the run is being stopped."""


def build_loss(name: str) -> nn.Module:
    """Build the training loss on logits ``(B, C + 1, H, W[, D])`` and labels ``(B, 1, H, W[, D])``.

    ``"ce"`` is the mean pixel-wise cross entropy; ``"ce_dice"`` adds the mean soft Dice loss over the foreground
    classes.

    Raises:
        ValueError: if the name is unknown.
    """
    if name == "ce":
        return _CrossEntropy()
    if name == "ce_dice":
        from monai.losses import DiceCELoss

        loss: nn.Module = DiceCELoss(include_background=False, to_onehot_y=True, softmax=True)
        return loss
    raise ValueError(f"Expected a loss among 'ce', 'ce_dice', but got {name=}")


class _CrossEntropy(nn.Module):
    """Mean pixel-wise cross entropy with labels of shape ``(B, 1, H, W[, D])``."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits, labels.squeeze(1).long())


def train_locally(
    network: nn.Module,
    batches: Batches,
    settings: TrainingSettings,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
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

    Raises:
        TrainingStopped: if `should_stop` said so.
    """
    device = next(network.parameters()).device
    loss_function = build_loss(settings.loss)
    optimizer = Adam(network.parameters(), lr=settings.learning_rate, betas=_ADAM_BETAS, fused=True)
    on_gpu = device.type == "cuda"
    precision = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported() else torch.float16
    scaler = torch.amp.GradScaler(device.type, enabled=on_gpu and precision is torch.float16)
    generator = torch.Generator().manual_seed(seed)
    total_loss = torch.zeros((), device=device)
    steps = 0
    network.train()
    for _ in range(settings.local_epochs):
        for images, labels in batches.epoch(generator):
            if should_stop is not None and should_stop():
                raise TrainingStopped
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, dtype=precision, enabled=on_gpu):
                loss = loss_function(network(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            total_loss += loss.detach().float() * len(images)
            steps += 1
    return TrainingOutcome(float(total_loss) / (settings.local_epochs * batches.samples_per_epoch), steps)
