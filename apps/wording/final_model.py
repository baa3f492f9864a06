"""Which model a run's result is, and what its scores are of, in words."""

from collections.abc import Sequence
from typing import Protocol

from ...custom.evaluation.score_records import MeanScores
from ...custom.run.summary_record import FinalModel, ScoredRounds
from ...custom.settings import FinalModelKind

_FINAL_MODEL = "final model"
_LAST_ROUND = "last round"
_BEST_ROUND = "round that is the best by the sites' validation"
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
_CASE_MODELS: dict[FinalModelKind, str] = {
    "last": "the models of the last round",
    "best": "the models of the rounds that are the best by the sites' validation",
    "mean_of_last": "the means of the models of the last rounds",
}


class HasFinalScores(Protocol):
    """A run, of which scores may be known of a final model that is not the last one."""

    @property
    def final_scores(self) -> MeanScores | None:
        """The scores of that model."""

    @property
    def scored_rounds(self) -> ScoredRounds | None:
        """Which rounds count, where the settings say it."""

    @property
    def num_last_rounds(self) -> int:
        """Of how many rounds the means are where the settings name none: five, or all of a shorter run."""


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
    return last_rounds_in_words(run.num_last_rounds) if run.final_scores is None else final_model_in_words(final)


def scored_rounds_in_words(scored: ScoredRounds) -> str:
    """Return the rounds whose scores count, as a phrase: ``round 12, the best by the sites' validation``."""
    if scored.kind == "best" and scored.rounds:
        return f"round {scored.rounds[0]}, the best by the sites' validation"
    return _kind_in_words(scored)


def last_rounds_in_words(count: int) -> str:
    """Return the last rounds as a phrase.

    >>> last_rounds_in_words(3), last_rounds_in_words(1)
    ('mean of the last three rounds', 'last round')
    """
    return _LAST_ROUND if count <= 1 else f"mean of the last {_NUMBERS.get(count, str(count))} rounds"


def _kind_in_words(scored: ScoredRounds) -> str:
    if scored.kind == "best":
        return _BEST_ROUND
    return _LAST_ROUND if scored.kind == "last" else last_rounds_in_words(len(scored.rounds))


def case_models_in_words(models: Sequence[FinalModel]) -> str:
    """Return which models results per case are of, as a phrase; empty where it is not known.

    Args:
        models: of the runs.
    """
    return ", or ".join(dict.fromkeys(_CASE_MODELS[model.kind] for model in models))


def compared_in_words(runs: Sequence[HasFinalScores]) -> str:
    """Return what the scores of compared runs are of, as a phrase."""
    phrases = dict.fromkeys(map(_compared_rounds, runs))
    # The final model first, then in the order of the runs.
    return ", or ".join(sorted(phrases, key=lambda phrase: phrase != _FINAL_MODEL))


def _compared_rounds(run: HasFinalScores) -> str:
    if run.scored_rounds is not None:
        return _kind_in_words(run.scored_rounds)
    return last_rounds_in_words(run.num_last_rounds) if run.final_scores is None else _FINAL_MODEL


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
