"""Which model a run's result is, and what its scores are of, in words."""

from collections.abc import Sequence
from typing import Protocol

from ...custom.evaluation.score_records import MeanScores
from ...custom.run.summary_record import FinalModel, ScoredRounds
from ...custom.settings import ScoredRoundsKind

_LAST_ROUNDS = "mean of the last five rounds"
_FINAL_MODEL = "final model"
_ROUNDS: dict[ScoredRoundsKind, str] = {
    "last": "last round",
    "last_5": _LAST_ROUNDS,
    "last_10": "mean of the last ten rounds",
    "best": "round that is the best by the sites' validation",
}


class HasFinalScores(Protocol):
    """A run, of which scores may be known of a final model that is not the last one."""

    @property
    def final_scores(self) -> MeanScores | None:
        """The scores of that model."""

    @property
    def scored_rounds(self) -> ScoredRounds | None:
        """Which rounds count, where the settings say it."""


def final_model_in_words(final: FinalModel | None) -> str:
    """Return which model a run's result is, as a phrase: ``the model of round 12, the best by the sites' validation``.

    Args:
        final: of the run's summary; None in summaries of earlier versions.
    """
    if final is None or final.kind == "last":
        return "the model of the last round"
    if final.kind == "best":
        return f"the model of round {final.rounds[0]}, the best by the sites' validation"
    first, last = final.rounds[0], final.rounds[-1]
    if first == last:
        return f"the model of round {first}"
    some = "" if len(final.rounds) == last - first + 1 else f"{len(final.rounds)} of "
    return f"the mean of the models of {some}rounds {first} to {last}"


def scored_in_words(run: HasFinalScores, final: FinalModel | None) -> str:
    """Return what the scores of a run are of, as a phrase."""
    if run.scored_rounds is not None:
        return scored_rounds_in_words(run.scored_rounds)
    return _LAST_ROUNDS if run.final_scores is None else final_model_in_words(final)


def scored_rounds_in_words(scored: ScoredRounds) -> str:
    """Return the rounds whose scores count, as a phrase: ``round 12, the best by the sites' validation``."""
    if scored.kind == "best" and scored.rounds:
        return f"round {scored.rounds[0]}, the best by the sites' validation"
    return _ROUNDS[scored.kind]


def compared_in_words(runs: Sequence[HasFinalScores]) -> str:
    """Return what the scores of compared runs are of, as a phrase."""
    phrases = dict.fromkeys(map(_compared_rounds, runs))
    # The final model first, then in the order of the runs.
    return ", or ".join(sorted(phrases, key=lambda phrase: phrase != _FINAL_MODEL))


def _compared_rounds(run: HasFinalScores) -> str:
    if run.scored_rounds is not None:
        return _ROUNDS[run.scored_rounds.kind]
    return _LAST_ROUNDS if run.final_scores is None else _FINAL_MODEL


def stopped_early_in_words(final: FinalModel | None, rounds_finished: int, rounds: int) -> str | None:
    """Return that a run ended before its last round and why; None if it did not.

    Args:
        final: as above.
        rounds_finished: of the run.
        rounds: that its settings allow.
    """
    if final is None or not final.stopped_early:
        return None
    return (
        f"The run ended after {rounds_finished} of {rounds} rounds: the sites' validation had its best score in round "
        f"{final.rounds[0]}, and no better one since."
    )
