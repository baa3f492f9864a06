"""The learning rate in the course of a run: by rounds, or by the optimizer steps of all rounds."""

import math
from dataclasses import dataclass, replace

from ..settings import ClassifierTrainingSettings, TrainingSettings

_TENTH = 0.1


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
        return self.training.schedule in ("polynomial", "cosine") or self.training.learning_rate_warmup > 0

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
