"""The summary of a run: what does not grow is rewritten after every round, all of it when the run ends."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...transforms.natural_order import natural_order
from ...transforms.strict_files import JsonObject, read_json
from ..data.whole_files import write_text
from ..evaluation.score_records import ClassificationRoundScores, RoundScores, SegmentationRoundScores
from ..records.plain_values import finite
from ..records.record_lines import LogPosition
from ..records.round_records import Record, RoundRecord, SiteReport
from ..settings import ScoredRoundsKind
from .convergence import ScoreTrend, score_trend
from .reading import read_summary_file
from .round_summaries import round_summaries
from .scored_rounds import scored_records
from .state import RunState
from .summary_record import SUMMARIES, SUMMARY_VERSION, UNFINISHED, FinalModel, ScoredRounds, Summary
from .versions import installed_versions, source_commit


def write_summary(path: Path, summary: Summary) -> None:
    """Write the summary file in one step."""
    _write(path, summary.plain())


def write_unfinished_summary(path: Path, summary: Summary, logged: LogPosition) -> None:
    """Write the summary of a run that goes on, without what grows with its rounds, which the metrics file has.

    :func:`fedannot.custom.run.reading.read_summary_file` puts both together.

    Args:
        path: the file; the metrics file lies next to it.
        summary: see :func:`summarize`; its rounds are left out.
        logged: up to where the metrics file has the rounds.
    """
    growing = round_summaries((), summary.task)
    values = {name: value for name, value in summary.plain().items() if name not in growing}
    _write(path, values | {UNFINISHED: logged.model_dump()})


def complete_summary_file(path: Path) -> None:
    """Write a summary whole that lacks its rounds; one that has them, or is not there, stays as it is.

    Raises:
        DataError: if it, or the metrics file next to it, cannot be used.
    """
    if path.is_file() and is_unfinished(path):
        write_summary(path, read_summary_file(path))


def is_unfinished(path: Path) -> bool:
    """Return whether a summary is of a run that goes on, or was killed, and lacks its rounds.

    Raises:
        DataError: if the file is no JSON.
    """
    return UNFINISHED in read_json(path, "a run's summary")


def _write(path: Path, values: JsonObject) -> None:
    write_text(path, json.dumps(finite(values), indent=2, allow_nan=False) + "\n")


def summarize(
    state: RunState,
    added: Mapping[str, Any],
    *,
    absent: Sequence[str] = (),
    server_threads: int | None = None,
    final_model: FinalModel | None = None,
    final_scores: RoundScores | None = None,
    with_rounds: bool = True,
) -> Summary:
    """Return method, seed, sites, the rounds' scores, their mean over the rounds that count, refusals and settings.

    Args:
        state: the run after its last finished round.
        added: what the method adds, as plain values.
        absent: sites that the job names and that were not there when it started.
        server_threads: that the server computes with.
        final_model: which model is the result.
        final_scores: its scores, where it is another model than the last one.
        with_rounds: whether it has what grows with the rounds, see :func:`write_unfinished_summary`.

    Raises:
        ValueError: if the method adds what the summary has, or what is no plain value.
    """
    history, task = state.history, str(state.settings["task"])
    kind: Any = state.settings.get("scored_rounds")
    scored = scored_records(history, kind)
    commit = source_commit()
    sites: dict[str, SiteReport] = {}
    for record in history:
        sites |= record.sites
    return SUMMARIES[task].of(
        {
            "version": SUMMARY_VERSION,
            "task": task,
            "method": state.method,
            "seed": state.settings["seed"],
            "rounds_finished": state.round_number,
            "sites": {site: sites[site].plain() for site in sorted(sites, key=natural_order)},
            "preparations": finite(dict(sorted(state.method_state.get("preparations", {}).items()))) or None,
            "last_rounds": {name: mean_score(scored, name) for name in _fields(task, "last_rounds")},
            "last_round": {name: history[-1].named(name) if history else None for name in _fields(task, "last_round")},
            **_said(
                final_model=final_model,
                final_scores=final_scores,
                scored_rounds=_named_rounds(scored, kind),
                score_trend=_trend(history),
            ),
            **round_summaries(history if with_rounds else (), task),
            "seconds": sum(record.seconds for record in history),
            "settings": state.settings,
            "absent": list(absent),
            "server_threads": server_threads,
            "versions": installed_versions(),
            "source": None if commit is None else commit.plain(),
        },
        added,
    )


def _said(**records: Record | RoundScores | None) -> dict[str, object]:
    """What is known of some records, by name, as plain values."""
    known = {name: record for name, record in records.items() if record is not None}
    return {name: record.model_dump(mode="json", exclude_unset=True) for name, record in known.items()}


def _trend(history: Sequence[RoundRecord]) -> ScoreTrend | None:
    return score_trend([record.main_score for record in history])


def _fields(task: str, name: str) -> list[str]:
    """The names of the scores that the summary has under a name."""
    kind: Any = SUMMARIES[task].model_fields[name].annotation
    return list(kind.model_fields)


def scores_of(history: Sequence[RoundRecord], final: FinalModel) -> RoundScores | None:
    """Return the scores of the final model, where it is that of an earlier round; None if it is the last one.

    Args:
        history: records of the finished rounds.
        final: which model the result is.
    """
    if final.kind != "best" or final.validation_score is None:
        return None
    (number,) = final.rounds
    record = next(record for record in history if record.round == number)
    kind = ClassificationRoundScores if isinstance(record, ClassificationRoundScores) else SegmentationRoundScores
    names = record.model_fields_set & kind.model_fields.keys()
    return kind.model_validate({name: getattr(record, name) for name in names})


def mean_score(records: Sequence[RoundRecord], name: str) -> float | None:
    """Return the mean of a score over the records that have it, None if none has."""
    values = [value for record in records if (value := record.named(name)) is not None]
    return sum(values) / len(values) if values else None


def _named_rounds(scored: Sequence[RoundRecord], kind: ScoredRoundsKind | None) -> ScoredRounds | None:
    """The rounds that count, where the settings say which ones do."""
    return None if kind is None else ScoredRounds(kind=kind, rounds=tuple(record.round for record in scored))
