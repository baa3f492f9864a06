"""What a site does with the model in one round: some epochs of training on its own annotations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ..settings import TrainingSettings
from .batches import Batches
from .losses import DiceRecord, build_loss
from .optimizers import Adam

# Momentum terms of Adam as in FedA³I and FedIA; the optimiser is made anew each round.
_ADAM_BETAS = (0.9, 0.99)

# Runs a network on a batch's images and labels and gives their mean loss.
BatchLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class TrainingOutcome:
    """What came of a round's training.

    Attributes:
        mean_loss: mean loss over samples or patches, and epochs.
        steps: number of optimiser steps.
        dice_loss: mean Dice loss likewise, where it was asked for; NaN if no sample counts.
        dice_samples: which of the site's samples that is over, of patches which of its volumes.
    """

    mean_loss: float
    steps: int
    dice_loss: float | None = None
    dice_samples: frozenset[int] = frozenset()


class TrainingStopped(RuntimeError):
    """Training was given up because the run is being stopped."""


def train_locally(
    network: nn.Module,
    batches: Batches,
    settings: TrainingSettings,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
    record_dice: bool = False,
    penalty: Callable[[], torch.Tensor] | None = None,
) -> TrainingOutcome:
    """Train a network in place for the configured number of epochs.

    On a GPU the forward pass runs in bfloat16 where the GPU has it, else in float16 with a scaled loss. Nothing leaves
    the site but what the caller sends.

    Args:
        network: the network with the received weights.
        batches: images and labels on the network's device; see
            :func:`fedannot.custom.training.batches.training_batches`.
        settings: loss, learning rate and epochs.
        seed: seed of everything that `batches` draws.
        should_stop: asked before each batch; when it says yes the round is given up.
        record_dice: measure the Dice loss beside whatever loss is trained with.
        penalty: is added to the loss of every batch.

    Raises:
        TrainingStopped: if `should_stop` said so.
    """
    device = next(network.parameters()).device
    loss_function = build_loss(settings.loss)
    received = proximal_reference(network) if settings.proximal_weight else []
    dice = DiceRecord(annotated_only=settings.dice_loss_over == "annotated", device=device) if record_dice else None

    def batch_loss(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = network(images)
        if dice is not None:
            dice.add(logits, labels, batches.samples_at_hand)
        loss: torch.Tensor = loss_function(logits, labels)
        if received:
            loss = loss + settings.proximal_weight * proximal_term(network, received)
        return loss if penalty is None else loss + penalty()

    outcome = run_epochs(
        network,
        batches,
        batch_loss,
        adam(network, settings),
        epochs=settings.local_epochs,
        seed=seed,
        should_stop=should_stop,
    )
    return outcome if dice is None else replace(outcome, dice_loss=dice.mean, dice_samples=dice.samples)


def proximal_reference(network: nn.Module) -> list[torch.Tensor]:
    """Return a copy of a network's parameters, to be kept near; see :func:`proximal_term`."""
    return [parameter.detach().clone() for parameter in network.parameters()]


def proximal_term(network: nn.Module, reference: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return ½ ‖w − w_ref‖² over a network's parameters, the term of FedProx and Ditto.

    FedProx (Li et al., *Federated Optimization in Heterogeneous Networks*, MLSys 2020) keeps local training near the
    received model, Ditto (Li et al., ICML 2021) a personal model near the global one.
    """
    pairs = zip(network.parameters(), reference, strict=True)
    return 0.5 * torch.stack([(parameter - fixed).square().sum() for parameter, fixed in pairs]).sum()


def adam(network: nn.Module, settings: TrainingSettings) -> Adam:
    """Return the optimiser of a round, with those parameters that are to be trained."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return Adam(trained, lr=settings.learning_rate, betas=_ADAM_BETAS, fused=True)


def run_epochs(
    network: nn.Module,
    batches: Batches,
    batch_loss: BatchLoss,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
) -> TrainingOutcome:
    """Train a network in place for some epochs; see :func:`train_locally` for precision and errors.

    Args:
        network: what is trained, put into training mode; on one device.
        batches: images and labels on that device.
        batch_loss: runs the network on images and labels and gives their mean loss.
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
    network.train()
    for _ in range(epochs):
        for images, labels in batches.epoch(generator):
            if should_stop is not None and should_stop():
                raise TrainingStopped
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, dtype=precision, enabled=on_gpu):
                loss = batch_loss(images, labels)
            scaled: Any = scaler.scale(loss)
            scaled.backward()
            scaler.step(optimizer)
            scaler.update()
            total_loss += loss.detach().float() * len(images)
            steps += 1
    mean_loss = float(total_loss) / (epochs * batches.samples_per_epoch)
    return TrainingOutcome(mean_loss, steps)
