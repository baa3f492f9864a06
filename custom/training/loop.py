"""What a site does with the model in one round: some epochs or steps of training on its own annotations."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from ..networks.precision import computed_precision, computing
from ..settings import ClassifierTrainingSettings, Precision, TrainingSettings
from .batch import Batch, Batches
from .captured_steps import captured_steps
from .kept_optimizer import KeptOptimizer
from .losses import DiceRecord
from .objectives import Objective, Step, with_penalty
from .optimizers import build_optimizer
from .schedules import LearningRate
from .steps import SingleSteps, Steps, loss_scaler


@dataclass(frozen=True)
class TrainingOutcome:
    """What came of a round's training.

    Attributes:
        mean_loss: mean loss over the samples or patches of all steps.
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

    def units_of(self, units: Sequence[str]) -> tuple[str, ...]:
        """Return the patient or volume of every sample that the training was over.

        Args:
            units: of every sample of the data that were trained on.
        """
        return tuple(units[sample] for sample in sorted(self.samples))


class TrainingStopped(RuntimeError):
    """Training was given up because the run is being stopped."""


@dataclass(frozen=True)
class Stepping:
    """How the steps of a training are made.

    Attributes:
        steps: how many, in place of whole epochs; None for these.
        learning_rates: of every step; None leaves that of the optimizer.
        gradient_clipping: largest norm of a step's gradient, of each group of parameters; None for any.
        precision: of the forward pass, see :class:`fedannot.custom.settings.TrainingSettings`.
    """

    steps: int | None = None
    learning_rates: Sequence[float] | None = None
    gradient_clipping: float | None = None
    precision: Precision = "fp32"

    @classmethod
    def of(
        cls,
        training: TrainingSettings | ClassifierTrainingSettings,
        learning_rate: float | LearningRate,
        batches: Batches,
    ) -> "Stepping":
        """Return what the settings of a training say.

        Args:
            training: the settings.
            learning_rate: of the round.
            batches: what is trained on.
        """
        rates = None
        if isinstance(learning_rate, LearningRate) and learning_rate.changes_in_round:
            rates = learning_rate.in_round(steps_of_round(training, batches))
        return cls(training.local_steps, rates, training.gradient_clipping, training.precision)


def steps_of_round(training: TrainingSettings | ClassifierTrainingSettings, batches: Batches) -> int:
    """Return how many optimizer steps the settings of a training say for these batches."""
    return training.local_steps or training.local_epochs * batches.steps_per_epoch


def train(
    network: nn.Module,
    batches: Batches,
    objective: Objective,
    training: TrainingSettings | ClassifierTrainingSettings,
    *,
    learning_rate: float | LearningRate,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
    kept_optimizer: KeptOptimizer | None = None,
    adversary: torch.optim.Optimizer | None = None,
) -> TrainingOutcome:
    """Train a network in place for the configured number of epochs or steps with the configured optimizer.

    Nothing leaves the site but what the caller sends.

    Args:
        network: the network with the received weights.
        batches: images and labels on the network's device; see
            :func:`fedannot.custom.training.batches.training_batches`.
        objective: what is made small; :func:`fedannot.custom.training.objectives.training_objective` gives that of the
            settings. FedProx's penalty is added where the settings give it a weight.
        training: optimizer, number of epochs or steps, how these are made, and the weight of FedProx's penalty.
        learning_rate: of this round, one number or that of every step.
        seed: seed of everything that `batches` draws.
        should_stop: asked before each batch; when it says yes the round is given up.
        kept_optimizer: gives the optimizer the state of the last round, and keeps that of this one; None begins with a
            new optimizer and keeps nothing.
        adversary: as of :func:`run_epochs`.

    Raises:
        TrainingStopped: if `should_stop` said so.
    """
    objective = with_penalty(objective, training, network)
    stepping = Stepping.of(training, learning_rate, batches)
    if stepping.learning_rates is not None:
        rate = stepping.learning_rates[0]
    else:
        rate = learning_rate.at(0, 1) if isinstance(learning_rate, LearningRate) else learning_rate
    if kept_optimizer is None and adversary is None:
        with captured_steps(network, objective, training, rate) as steps:
            if steps is not None:
                return _run(steps, batches, training.local_epochs, seed, should_stop, stepping)
    optimizer = build_optimizer(network, training, rate)
    scaler = loss_scaler(network, training.precision)
    if kept_optimizer is not None:
        kept_optimizer.restore(optimizer, scaler)
    outcome = run_epochs(
        network,
        batches,
        objective,
        optimizer,
        epochs=training.local_epochs,
        seed=seed,
        should_stop=should_stop,
        stepping=stepping,
        scaler=scaler,
        adversary=adversary,
    )
    if kept_optimizer is not None:
        kept_optimizer.store(optimizer, scaler)
    return outcome


def run_epochs(
    network: nn.Module,
    batches: Batches,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
    stepping: Stepping = Stepping(),
    scaler: torch.amp.GradScaler | None = None,
    adversary: torch.optim.Optimizer | None = None,
) -> TrainingOutcome:
    """Train a network in place for some epochs, or for some steps.

    The network computes in the precision of `stepping`; its outputs, the loss and the optimizer's step are float32. In
    ``fp16`` the loss is scaled, and a step whose gradient is not finite is left out.

    Args:
        network: what is trained, put into training mode; on one device.
        batches: images and labels on that device.
        objective: what is made small.
        optimizer: of the parameters to be trained.
        epochs: number of epochs, unless `stepping` names a number of steps.
        seed: seed of everything that `batches` draws.
        should_stop: asked before each batch; when it says yes the round is given up.
        stepping: how steps are made.
        scaler: of the loss; by default a new one where the precision needs it.
        adversary: the optimizer of what makes the loss large, of the objective's parameters; it steps with the same
            gradient as the network's, and is not clipped.

    Raises:
        TrainingStopped: if `should_stop` said so.
        ValueError: if there is no batch.
    """
    scaler = scaler or loss_scaler(network, stepping.precision)
    steps = SingleSteps(network, objective, optimizer, scaler, stepping.gradient_clipping, adversary)
    return _run(steps, batches, epochs, seed, should_stop, stepping)


def _run(
    made: Steps,
    batches: Batches,
    epochs: int,
    seed: int,
    should_stop: Callable[[], bool] | None,
    stepping: Stepping,
) -> TrainingOutcome:
    """Make the steps of :func:`run_epochs`."""
    generator = torch.Generator().manual_seed(seed)
    steps = num_samples = 0
    samples: set[int] = set()
    if stepping.steps is not None:
        epochs = math.ceil(stepping.steps / batches.steps_per_epoch)
    network = made.network
    network.train()
    with computing(network, computed_precision(stepping.precision, next(network.parameters()).device)):
        for epoch, batch in itertools.islice(_batches(batches, epochs, generator), stepping.steps):
            if should_stop is not None and should_stop():
                raise TrainingStopped
            if stepping.learning_rates is not None:
                made.set_learning_rate(stepping.learning_rates[steps])
            made.step(batch, Step(steps, epoch, epochs))
            num_samples += len(batch.images)
            samples.update(batch.samples.tolist())
            steps += 1
    if not num_samples or steps != (stepping.steps or steps):
        raise ValueError(f"Expected batches for {stepping.steps or 'some'} steps, but got {steps} in {epochs} epochs.")
    mean_loss = float(made.total_loss) / num_samples
    return TrainingOutcome(mean_loss, steps, samples=frozenset(samples), samples_per_epoch=batches.samples_per_epoch)


def _batches(batches: Batches, epochs: int, generator: torch.Generator) -> Iterator[tuple[int, Batch]]:
    """The batches of some epochs, each with the number of its epoch."""
    for epoch in range(epochs):
        for batch in batches.epoch(generator):
            yield epoch, batch
