"""`results_rounds.csv`: what each round of a run scored."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...custom.evaluation.score_records import ClassificationDetails, SegmentationDetails
from ...custom.records.round_records import RoundRecord
from ...transforms.printable import printable
from .csv_tables import table_lines, write_table
from .results_file import RunName

ROUNDS_FILE = "results_rounds.csv"
# Of a table of rounds: the mean over classes.
MEAN = "mean"

_SCORES = ("dice", "left_empty", "hd95", "f1", "recall", "precision")
ROUND_COLUMNS = ("run", "arm", "seed", "round", "evaluated_on", "class", *_SCORES, "hd95_unit")


def write_rounds(file: Path, name: RunName, records: Sequence[RoundRecord], classes: Sequence[str]) -> None:
    """Write what each round of a run scored: the mean over classes, and each class.

    Args:
        file: the file.
        name: of the run.
        records: of its rounds.
        classes: names of the classes that are scored; empty where they are not known.
    """
    write_table(file, ROUND_COLUMNS, [line for record in records for line in _round_lines(name, record, classes)])


def read_round_lines(file: Path) -> list[dict[str, str]]:
    """Return the lines of a table of rounds, by column; none where there is no file.

    Raises:
        DataError: if it is no such table.
    """
    if not file.is_file():
        return []
    return table_lines(file, ROUND_COLUMNS)


def write_round_lines(file: Path, lines: Sequence[Mapping[str, str]]) -> None:
    """Write what :func:`read_round_lines` returns."""
    write_table(file, ROUND_COLUMNS, [[line[name] for name in ROUND_COLUMNS] for line in lines])


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
