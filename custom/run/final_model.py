"""Which model of a run is its result: the last, the best by the sites' validation, or the mean of the last rounds."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ..settings import FinalModelKind, RunSettings
from .state import ResumeError
from .summary_record import FinalModel

_Params = Mapping[str, torch.Tensor]


class ModelChoice:
    """Takes the model after each round, and has the one that is the run's result; this one has the last.

    Args:
        settings: the job's settings.

    Attributes:
        needs_validation: whether the sites' validation decides.
        is_over: whether the run ends, however many rounds it has left.
    """

    needs_validation: ClassVar[bool] = False
    is_over: bool = False

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings

    @staticmethod
    def of(settings: RunSettings) -> "ModelChoice":
        """Return the choice that the settings name."""
        return _CHOICES[settings.final_model](settings)

    @staticmethod
    def of_scored_round(settings: RunSettings) -> "BestModel | None":
        """Return the choice of the model of the round that is reported, where it is not the run's result anyway."""
        return BestModel(settings) if settings.scored_rounds == "best" and settings.final_model != "best" else None

    def restart(self) -> None:
        """Forget the models so far, since the sites train from the start weights again."""

    def note(self, round_number: int, params: _Params, validation_score: float | None = None) -> None:
        """Take the model after a round that counts.

        Args:
            round_number: the round.
            params: its state dict, which nobody changes in place.
            validation_score: its score on the sites' validation cases; None where it was not validated.
        """

    def params(self, last: _Params) -> _Params:
        """Return the state dict of the result.

        Args:
            last: that after the last finished round.
        """
        return last

    def describe(self, last_round: int) -> FinalModel:
        """Return which model the result is.

        Args:
            last_round: number of the last finished round.
        """
        return FinalModel(kind="last", rounds=(last_round,))

    def state(self) -> dict[str, Any]:
        """Return what a restart needs, as plain values and tensors; empty where it needs nothing."""
        return {}

    def restore(self, state: Mapping[str, Any], last_round: int) -> None:
        """Take back what :meth:`state` returned.

        Args:
            state: as above.
            last_round: number of the last finished round.

        Raises:
            ResumeError: if the job's rounds leave no way to go on with it.
        """


class BestModel(ModelChoice):
    """Has the model with the highest score on the sites' validation cases; of equal ones the first."""

    needs_validation = True

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self.restart()

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        """Whether `patience` validations in a row have brought no better score."""
        patience = self._settings.patience
        return patience is not None and self._without_gain >= patience

    def restart(self) -> None:
        """Forget the best model."""
        self._best: _Params | None = None
        self._round, self._without_gain = 0, 0
        self._score = -math.inf

    def note(self, round_number: int, params: _Params, validation_score: float | None = None) -> None:
        """Keep the model if it is better than every one before it."""
        if validation_score is None or not math.isfinite(validation_score):
            return
        if validation_score > self._score:
            self._best, self._score, self._round, self._without_gain = params, validation_score, round_number, 0
        else:
            self._without_gain += 1

    def params(self, last: _Params) -> _Params:
        """Return the best model; before the first validation the last one."""
        return last if self._best is None else self._best

    def describe(self, last_round: int) -> FinalModel:
        """Return which round the best model is of, and its score."""
        if self._best is None:
            return FinalModel(kind="best", rounds=(last_round,), validation_score=None, stopped_early=False)
        # Patience that ends with the last round has ended nothing.
        early = self.is_over and last_round < self._settings.rounds
        return FinalModel(kind="best", rounds=(self._round,), validation_score=self._score, stopped_early=early)

    def state(self) -> dict[str, Any]:
        """Return the best model, its score and round, and the validations since."""
        if self._best is None:
            return {}
        kept = {"params": dict(self._best), "score": self._score, "round": self._round}
        return kept | {"without_gain": self._without_gain}

    def restore(self, state: Mapping[str, Any], last_round: int) -> None:
        """Take back the best model."""
        del last_round
        if state:
            self._best, self._score = dict(state["params"]), float(state["score"])
            self._round, self._without_gain = int(state["round"]), int(state["without_gain"])


class MeanOfLast(ModelChoice):
    """Has the mean of the parameters after the last rounds, as a running mean; integer buffers are the last ones."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self._first = max(settings.rounds - settings.final_rounds + 1, 1)
        self.restart()

    def restart(self) -> None:
        """Forget the mean."""
        self._mean: dict[str, torch.Tensor] = {}
        self._rounds: tuple[int, ...] = ()

    def note(self, round_number: int, params: _Params, validation_score: float | None = None) -> None:
        """Add the model of one of the last rounds to the mean."""
        del validation_score
        if round_number < self._first:
            return
        self._rounds = (*self._rounds, round_number)
        count = len(self._rounds)
        self._mean = {
            name: _running_mean(self._mean[name], value, count) if count > 1 and value.is_floating_point() else value
            for name, value in params.items()
        }

    def params(self, last: _Params) -> _Params:
        """Return the mean so far; before the first of the last rounds the last model."""
        return self._mean if self._rounds else last

    def describe(self, last_round: int) -> FinalModel:
        """Return which rounds the mean is of."""
        return FinalModel(kind="mean_of_last", rounds=self._rounds or (last_round,))

    def state(self) -> dict[str, Any]:
        """Return the mean, its rounds, and the round from which it is taken."""
        return {"params": dict(self._mean), "rounds": list(self._rounds), "first": self._first}

    def restore(self, state: Mapping[str, Any], last_round: int) -> None:
        """Take back the mean; one of rounds that are no longer the last is dropped where none of it is needed."""
        if self._first > last_round:
            return
        if state["first"] != self._first:
            settings, needed = self._settings, last_round + self._settings.final_rounds
            raise ResumeError(
                f"With rounds={settings.rounds} the final model is the mean of rounds {self._first} to "
                f"{settings.rounds}, but the state after round {last_round} has the mean from round {state['first']} "
                f"on. Continue with rounds={needed} or more."
            )
        self._mean, self._rounds = dict(state["params"]), tuple(state["rounds"])


def _running_mean(mean: torch.Tensor, value: torch.Tensor, count: int) -> torch.Tensor:
    """The mean of `count` tensors from that of all but the last, computed in double precision."""
    before = mean.double()
    return (before + (value.double() - before) / count).to(value.dtype)


_CHOICES: dict[FinalModelKind, type[ModelChoice]] = {
    "last": ModelChoice,
    "best": BestModel,
    "mean_of_last": MeanOfLast,
}
