"""Reading what runs left behind: summaries and records of rounds, of this version or of before there was one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ...transforms.errors import DataError, describe_validation_error
from ...transforms.strict_files import JsonObject, parse_json, read_json
from ..data.regular_files import open_regular_file
from ..records.record_lines import LogPosition, lines_up_to
from ..records.round_records import ROUND_RECORDS, VERSION, Record, RoundRecord
from .round_summaries import round_summaries
from .summary_record import SUMMARIES, SUMMARY_VERSION, UNFINISHED, Summary

SomeRecord = TypeVar("SomeRecord", bound=Record)

METRICS_FILE = "metrics.jsonl"


def read_summary_file(file: Path) -> Summary:
    """Read the summary of a run; of one that goes on, or was killed, with its rounds from the metrics file next to it.

    Raises:
        DataError: if the file is no summary, or of a later version, or the metrics file is not that run's.
    """
    values = _versioned(read_json(file, "a run's summary"), str(file), "the summary of a run", SUMMARY_VERSION)
    kind = _of_task(SUMMARIES, values.get("task"), str(file))
    if UNFINISHED in values:
        position = _position(values.pop(UNFINISHED), str(file))
        values |= round_summaries(logged_records(file.with_name(METRICS_FILE), position), values["task"])
    return _read(kind, values, str(file))


def read_metrics_file(file: Path) -> list[RoundRecord]:
    """Read the records of a run's rounds, without the last line where the run was killed while it wrote that.

    Raises:
        DataError: if the file is absent, a line is no record of a round, or is of a later version.
    """
    try:
        with open_regular_file(file) as stream:
            text = stream.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read ({error}); expected the records of a run's rounds.") from error
    return _records_of_lines(_whole_lines(text), file)


def logged_records(file: Path, position: LogPosition) -> list[RoundRecord]:
    """Read the records of a run's rounds up to a position.

    Raises:
        DataError: as above, or if the file has other records up to there.
    """
    return _records_of_lines(lines_up_to(file, position).decode().splitlines(), file)


def _whole_lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    try:
        # A part of an object is no JSON.
        parse_json(last, "the last line")
    except DataError:
        return lines
    return [*lines, last]


def _records_of_lines(lines: Sequence[str], file: Path) -> list[RoundRecord]:
    sources = [f"{file}, line {number}" for number in range(1, len(lines) + 1)]
    return [round_record(parse_json(line, source), source) for line, source in zip(lines, sources, strict=True)]


def _position(values: Any, source: str) -> LogPosition:
    try:
        return LogPosition.model_validate(values)
    except ValidationError as error:
        raise DataError(f"{source}: key {UNFINISHED!r} is {values!r:.80}, expected size and sha256.") from error


def round_record(values: Any, source: str) -> RoundRecord:
    """Read the record of a round from plain values.

    Args:
        values: what a line or a state holds.
        source: the file, or other place, to name in an error.

    Raises:
        DataError: if it is none, or of a later version.
    """
    values = _versioned(values, source, "the record of a round", VERSION)
    task = "classification" if "f1" in values else "segmentation"
    return _read(ROUND_RECORDS[task], values, source)


def round_records(history: Sequence[Any], source: str) -> list[RoundRecord]:
    """Read records as above."""
    return [round_record(values, f"{source}, round {number}") for number, values in enumerate(history, start=1)]


def _versioned(values: Any, source: str, expected: str, latest: int) -> JsonObject:
    """The values with their version; those without one are of before there was one, which is 1."""
    if not isinstance(values, Mapping):
        raise DataError(f"{source}: found {type(values).__name__}, expected {expected}.")
    version = values.get("version", 1)
    if isinstance(version, int) and version > latest:
        raise DataError(
            f"{source}: found version {version} of {expected}, expected at most {latest}: a later fedannot wrote it; "
            "use that, or a newer one."
        )
    return {"version": 1} | dict(values)


def _of_task(kinds: Mapping[str, type[SomeRecord]], task: Any, source: str) -> type[SomeRecord]:
    if not isinstance(task, str) or task not in kinds:
        raise DataError(f"{source}: key 'task' is {task!r:.80}, expected {' or '.join(kinds)} in a run's summary.")
    return kinds[task]


def _read(kind: type[SomeRecord], values: Mapping[str, Any], source: str) -> SomeRecord:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=source, model=kind)) from error
