"""The learning rate in the course of a run: by rounds, or by the optimizer steps of all rounds."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..components.building import build_component, component_class, parameters_of
from ..components.component import Component, ComponentError
from ..components.roles import Role
from ..settings import ClassifierTrainingSettings, TrainingSettings

_TENTH = 0.1
# Arguments of PyTorch's schedules that say how many steps the run has; they are given where a job does not say.
_OF_WHOLE_RUN = ("total_iters", "T_max", "total_steps")


@dataclass(frozen=True)
class LearningRate:
    """The learning rate of every step of a round.

    A site has done t = (r − 1) S + s optimizer steps of T = R S before step s of the S steps of round r of R; hence it
    needs nothing but its round. ``polynomial`` is (1 − t/T)^p as in nnU-Net (Isensee et al., Nature Methods 2021),
    ``cosine`` ½ (1 + cos π t/T), both of the steps after the warm-up.

    Args:
        training: learning rate and schedule.
        round_number: the round, from 1.
        rounds: of the run, or of what has a schedule of its own in it.
        factor: multiplies the learning rate.

    Example:
        >>> training = TrainingSettings(learning_rate=0.01, schedule="polynomial", learning_rate_power=1.0)
        >>> rate = LearningRate(training, round_number=2, rounds=4)
        >>> [round(rate.at(step, steps=2), 5) for step in range(2)]
        [0.0075, 0.00625]
        >>> round((2 * rate).at(0, steps=2), 5)
        0.015
    """

    training: TrainingSettings | ClassifierTrainingSettings
    round_number: int
    rounds: int
    factor: float = 1.0

    def __rmul__(self, factor: float) -> "LearningRate":
        """Return so many times the learning rate."""
        return replace(self, factor=factor * self.factor)

    @property
    def changes_in_round(self) -> bool:
        """Whether the steps of a round differ in their learning rates."""
        schedule = self.training.schedule
        is_by_step = isinstance(schedule, Component) or schedule in ("polynomial", "cosine")
        return is_by_step or self.training.learning_rate_warmup > 0

    def in_round(self, steps: int) -> list[float]:
        """Return the learning rate of every step of the round.

        Args:
            steps: of the round.

        Raises:
            ComponentError: if the schedule is a class that cannot be used.
        """
        if isinstance(self.training.schedule, Component):
            return self._of_component(self.training.schedule, steps)
        return [self.at(step, steps) for step in range(steps)]

    def at(self, step: int, steps: int) -> float:
        """Return the learning rate of a step.

        Args:
            step: of the round, from 0.
            steps: of the round.
        """
        done, total = (self.round_number - 1) * steps + step, self.rounds * steps
        warmup = self.training.learning_rate_warmup * total
        rate = self.factor * self.training.learning_rate
        if done < warmup:
            return rate * done / warmup
        return rate * self._scheduled((done - warmup) / (total - warmup))

    def _of_component(self, schedule: Component, steps: int) -> list[float]:
        """The rates of a class of PyTorch's, whose steps of earlier rounds are made first."""
        done, total = (self.round_number - 1) * steps, self.rounds * steps
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=self.factor * self.training.learning_rate, momentum=0.9)
        known = parameters_of(component_class(schedule, Role.SCHEDULE))
        given = {key: total for key in _OF_WHOLE_RUN if key in known and key not in schedule.arguments}
        if schedule.name != "PolynomialLR":
            # Elsewhere it is the length of a warm-up.
            given.pop("total_iters", None)
        if "cycle_momentum" in known:
            given["cycle_momentum"] = False
        scheduler = build_component(schedule, Role.SCHEDULE, {"optimizer": optimizer, **given})
        rates = []
        for step in range(done + steps):
            if step >= done:
                rates.append(float(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            _make_step(scheduler, schedule)
        return rates

    def _scheduled(self, progress: float) -> float:
        """The fraction of the full rate after a fraction of the steps that come after the warm-up."""
        training = self.training
        if training.schedule == "polynomial":
            return float((1 - min(progress, 1.0)) ** training.learning_rate_power)
        if training.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
        if training.schedule == "constant":
            return 1.0
        passed = sum(self.round_number > share * self.rounds for share in training.learning_rate_steps)
        return float(_TENTH**passed)


def first_rate(training: TrainingSettings | ClassifierTrainingSettings, round_number: int, rounds: int) -> float | None:
    """Return the learning rate with which a round begins; None of a class, whose steps a site alone counts.

    Args:
        training: learning rate and schedule.
        round_number: the round, from 1.
        rounds: of the run.

    Example:
        >>> training = TrainingSettings(learning_rate=0.01, schedule="polynomial", learning_rate_power=1.0)
        >>> first_rate(training, round_number=3, rounds=4)
        0.005
    """
    if isinstance(training.schedule, Component):
        return None
    return LearningRate(training, round_number, rounds).at(0, 1)


def _make_step(scheduler: Any, schedule: Component) -> None:
    try:
        scheduler.step()
    except TypeError as error:
        raise ComponentError(
            f"{schedule.target} follows from more than the number of steps ({error}); it is no schedule of a run."
        ) from error
