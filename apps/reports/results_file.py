"""`results.csv`: what a run's model scores in every case; and `results_rounds.csv`: what each round scored.

A case has the number of its place in the site's list, a patient a number by its first case there: no name is in the
files.
`results.json` says how many lines both have, so that one that was cut off is noticed, and of which model each run's
lines are.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from ...custom.data.whole_files import write_text
from ...custom.evaluation.score_records import ClassificationDetails, SegmentationDetails
from ...custom.records.round_records import Record, RoundRecord
from ...custom.run.summary_record import FinalModel
from ...transforms.errors import DataError, describe_validation_error
from ...transforms.printable import printable, spreadsheet_safe
from ...transforms.strict_files import read_json
from .result_rows import ResultRow, RunName

RESULTS_FILE = "results.csv"
RESULTS_DESCRIPTION = "results.json"
ROUNDS_FILE = "results_rounds.csv"

# Of a table of rounds: the mean over classes.
MEAN = "mean"

# Heading → attribute, in the order of the file.
COLUMNS = {{"class_name": "class", "list_name": "list"}.get(one.name, one.name): one for one in fields(ResultRow)}


class ResultsDescription(Record):
    """What `results.json` says of the table next to it.

    Attributes:
        version: of the record's form.
        lines: how many the table has, without its heading.
        round_lines: the same of the table of rounds next to it; None in descriptions of earlier versions.
        nsd_tolerances: of the normalised surface Dice, in millimetres or pixels; empty of a classification.
        models: by run, which of its models was scored.
    """

    version: Literal[1] = 1
    lines: int
    round_lines: int | None = None
    nsd_tolerances: tuple[float, ...]
    models: dict[str, FinalModel]


def write_results(
    file: Path, rows: Sequence[ResultRow], models: Mapping[str, FinalModel], rounds: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Write the lines of cases and of rounds with their headings, and in another file how many there are.

    Args:
        file: the table of cases; its description has the same name with the ending ``.json``.
        rows: its lines.
        models: by run, which of its models they are of.
        rounds: lines of the table of rounds next to it, see :func:`round_lines` and :func:`read_round_lines`.
    """
    tolerances = sorted({row.nsd_tolerance for row in rows if math.isfinite(row.nsd_tolerance)})
    description = ResultsDescription(
        lines=len(rows), round_lines=len(rounds), nsd_tolerances=tuple(tolerances), models=dict(models)
    )
    # Whoever is killed between the files leaves tables without description, which count as none.
    _description_file(file).unlink(missing_ok=True)
    _write(file.with_name(ROUNDS_FILE), ROUND_COLUMNS, [[line[name] for name in ROUND_COLUMNS] for line in rounds])
    _write(file, list(COLUMNS), [[getattr(row, one.name) for one in COLUMNS.values()] for row in rows])
    write_text(_description_file(file), json.dumps(description.model_dump(mode="json"), indent=2) + "\n")


def read_results(file: Path) -> list[ResultRow]:
    """Read lines; columns that are not known are left out.

    Raises:
        DataError: if there is no such file, a column or value is not as expected, or lines are missing.
    """
    if not file.is_file():
        raise DataError(f"{file}: found no such file; expected the results per case of a run or a comparison.")
    lines = _lines(file, [name for name in COLUMNS if name not in _LATER])
    rows = [_row(line, f"{file}: line {number}") for number, line in enumerate(lines, 2)]
    _check_count(file, len(rows), read_description(file).lines)
    return rows


def _check_count(file: Path, count: int, expected: int | None) -> None:
    if expected is not None and count != expected:
        raise DataError(
            f"{file}: found {count} lines, expected {expected} as in {RESULTS_DESCRIPTION}; the file was cut off or "
            f"changed. Remove {RESULTS_FILE}, {ROUNDS_FILE} and {RESULTS_DESCRIPTION}, and give the command that made "
            "them again."
        )


def read_description(file: Path) -> ResultsDescription:
    """Return what is known of a table of results per case.

    Raises:
        DataError: if its description is absent or is none.
    """
    source = _description_file(file)
    if not source.is_file():
        raise DataError(
            f"{source}: found no such file; expected the number of lines of {file.name}, without which nobody knows "
            f"whether it was cut off. Remove {file.name}, and give the command that made it again."
        )
    try:
        return ResultsDescription.model_validate(read_json(source, "what results per case are of"))
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(source), model=ResultsDescription)) from error


def is_written(file: Path) -> bool:
    """Return whether results per case were written to their end."""
    return file.is_file() and _description_file(file).is_file()


def _description_file(file: Path) -> Path:
    return file.with_suffix(".json")


def _lines(file: Path, names: Sequence[str]) -> list[dict[str, str]]:
    """The lines of a table, by column; all of them whole."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            missing = [name for name in names if name not in (reader.fieldnames or [])]
            lines = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file}: found what is no table ({error}); expected CSV in UTF-8.") from error
    if missing:
        raise DataError(f"{file}: found no column {missing[0]!r}; expected {', '.join(names)}.")
    for number, line in enumerate(lines, 2):
        if None in line or None in line.values():
            raise DataError(
                f"{file}: line {number} has not as many cells as the heading; expected the file as it was written."
            )
    return lines


def _row(line: Mapping[str, str], place: str) -> ResultRow:
    values: dict[str, Any] = {}
    for name, one in COLUMNS.items():
        text = line.get(name, "") if name in _LATER else line[name]
        try:
            values[one.name] = _number(text, name) if one.type is float else one.type(text)  # type: ignore[operator]
        except ValueError as error:
            kind = "a number from 0 to 1" if name in _FRACTIONS else "a number"
            raise DataError(f"{place} has {name} = {printable(text)!r}; expected {kind}.") from error
        if isinstance(values[one.name], str):
            values[one.name] = printable(values[one.name])
    return ResultRow(**values)


# Columns that tables of earlier versions lack.
_LATER = ("foreground_f1", "confused_fraction")
# Columns of numbers from 0 to 1, and of numbers that cannot be negative.
_FRACTIONS = ("dice", "nsd", "lesion_f1", "confidence", "foreground_f1", "confused_fraction")
_AT_LEAST_0 = (*_FRACTIONS, "hd95_mm", "hd95_px", "nsd_tolerance")


def _number(text: str, name: str) -> float:
    if not text:
        return math.nan
    value = float(text)
    if not math.isfinite(value) or (name in _AT_LEAST_0 and value < 0) or (name in _FRACTIONS and value > 1):
        raise ValueError(text)
    return value


_SCORES = ("dice", "left_empty", "hd95", "f1", "recall", "precision")
ROUND_COLUMNS = ("run", "arm", "seed", "round", "evaluated_on", "class", *_SCORES, "hd95_unit")


def round_lines(name: RunName, records: Sequence[RoundRecord], classes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the lines, by column, of what each round of a run scored: the mean over classes, and each class.

    Args:
        name: of the run.
        records: of its rounds.
        classes: names of the classes that are scored; empty where they are not known.
    """
    lines = [line for record in records for line in _round_lines(name, record, classes)]
    return [dict(zip(ROUND_COLUMNS, line, strict=True)) for line in lines]


def read_round_lines(file: Path) -> list[dict[str, str]]:
    """Return the lines of a table of rounds, by column; none where there is no file.

    Raises:
        DataError: if it is no such table, or has not as many lines as the description next to it says.
    """
    description = file.with_name(RESULTS_DESCRIPTION)
    expected = read_description(description).round_lines if description.is_file() else None
    if not file.is_file():
        if expected:
            raise DataError(f"{file}: found no such file; expected {expected} lines as in {description.name}.")
        return []
    lines = _lines(file, ROUND_COLUMNS)
    _check_count(file, len(lines), expected)
    return lines


def _round_lines(name: RunName, record: RoundRecord, classes: Sequence[str]) -> list[list[Any]]:
    if not isinstance(record, SegmentationDetails | ClassificationDetails) or record.main_score is None:
        return []
    start = [name.run, name.arm, name.seed, record.round, getattr(record, "evaluated_on", None)]
    unit = getattr(record, "hd95_unit", None)
    lines = [[*start, MEAN, *(getattr(record, score, None) for score in _SCORES), unit]]
    per_class = {score: getattr(record, f"{score}_per_class", None) for score in _SCORES}
    count = max(len(values) for values in per_class.values() if values is not None) if any(per_class.values()) else 0
    names = list(map(printable, classes)) if len(classes) == count else [str(number + 1) for number in range(count)]
    for index, class_name in enumerate(names):
        lines.append([*start, class_name, *(None if of is None else of[index] for of in per_class.values()), None])
    return lines


def _write(file: Path, heading: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([[_cell(value) for value in line] for line in lines])
    write_text(file, text.getvalue())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.8g}" if math.isfinite(value) else ""
    if isinstance(value, str):
        return spreadsheet_safe(value)
    return "" if value is None else str(value)
