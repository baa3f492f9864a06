"""`results.csv`: what a run's model scores in every case.

A case has the number of its place in the site's list, a patient a number by first appearance: no name is in the files.
`results.json` says how many lines `results.csv` has, so that one that was cut off is noticed, and of which model each
run's lines are.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from ...custom.data.whole_files import write_text
from ...custom.evaluation.case_results import CaseResult, Detection
from ...custom.records.round_records import Record
from ...custom.run.summary_record import FinalModel
from ...transforms.errors import DataError, describe_validation_error
from ...transforms.printable import printable
from ...transforms.strict_files import read_json
from .csv_tables import table_lines, write_table

RESULTS_FILE = "results.csv"
RESULTS_DESCRIPTION = "results.json"

# The model that all sites share; another one has the name of its site.
GLOBAL_MODEL = "global"


@dataclass(frozen=True)
class ResultRow:
    """A line of `results.csv`: a class in a case, scored with one model; NaN or nothing where it is not defined.

    Attributes:
        run: the run's name.
        arm: what was compared, or the job.
        seed: of the run.
        site: whose case it is; `test` for the server's test set.
        case: `case-N`, the N-th of its list.
        class_name: the class; in a classification the case's own.
        dice: see :class:`.CaseResult`, and below.
        hd95_mm: in millimetres; NaN where these are not known.
        nsd: at `nsd_tolerance`.
        volume_difference_ml: predicted less annotated, in millilitres.
        lesion_f1: F1 of lesions.
        detected: one of :class:`.Detection`; in a classification whether the predicted class is the case's.
        unit: `mm`, or `px` for pictures; empty in a classification.
        hd95_px: in pixels, where there are no millimetres.
        volume_difference_px: as above, pixels.
        nsd_tolerance: in `unit`.
        patient: `patient-N`; cases of one patient are not independent.
        list_name: of the site's datalist.
        model: `global`, or the site whose own model it is.
        predicted: the class that a classifier says.
        confidence: its probability.
        foreground_f1: F1 of the objects of all classes together.
        confused_fraction: of the annotated pixels, those that are predicted as another class.
    """

    run: str
    arm: str
    seed: int
    site: str
    case: str
    class_name: str
    dice: float
    hd95_mm: float
    nsd: float
    volume_difference_ml: float
    lesion_f1: float
    detected: str
    unit: str
    hd95_px: float
    volume_difference_px: float
    nsd_tolerance: float
    patient: str
    list_name: str
    model: str
    predicted: str = ""
    confidence: float = math.nan
    foreground_f1: float = math.nan
    confused_fraction: float = math.nan

    @property
    def hd95(self) -> float:
        """In `unit`."""
        return self.hd95_px if self.unit == "px" else self.hd95_mm

    @property
    def volume_difference(self) -> float:
        """In millilitres or pixels."""
        return self.volume_difference_px if self.unit == "px" else self.volume_difference_ml


# Heading → attribute, in the order of the file.
COLUMNS = {{"class_name": "class", "list_name": "list"}.get(one.name, one.name): one for one in fields(ResultRow)}


def segmentation_row(common: Mapping[str, Any], result: CaseResult, class_name: str, unit: str) -> ResultRow:
    """Return the line of a class in a case.

    Args:
        common: run, arm, seed, site, case, patient, list, model and tolerance, by attribute.
        result: what was measured.
        class_name: the class.
        unit: of its distances, `mm` or `px`.
    """
    in_mm = unit == "mm"
    return ResultRow(
        **common,
        class_name=printable(class_name),
        dice=result.dice,
        hd95_mm=result.hd95 if in_mm else math.nan,
        nsd=result.nsd,
        volume_difference_ml=result.volume_difference if in_mm else math.nan,
        lesion_f1=result.lesion_f1,
        detected=result.detection.value,
        unit=unit,
        hd95_px=math.nan if in_mm else result.hd95,
        volume_difference_px=math.nan if in_mm else result.volume_difference,
        foreground_f1=result.foreground_f1,
        confused_fraction=result.confused_fraction,
    )


_OF_SEGMENTATION = (
    *("dice", "hd95_mm", "nsd", "volume_difference_ml", "lesion_f1", "hd95_px", "volume_difference_px"),
    "nsd_tolerance",
)


def classification_row(common: Mapping[str, Any], true: str, predicted: str, confidence: float) -> ResultRow:
    """Return the line of a case with a class; arguments as above."""
    nothing: dict[str, Any] = dict.fromkeys(_OF_SEGMENTATION, math.nan)
    return ResultRow(
        **(dict(common) | nothing),
        class_name=printable(true),
        detected=(Detection.DETECTED if true == predicted else Detection.MISSED).value,
        unit="",
        predicted=printable(predicted),
        confidence=confidence,
    )


class ResultsDescription(Record):
    """What `results.json` says of the table next to it.

    Attributes:
        version: of the record's form.
        lines: how many the table has, without its heading.
        nsd_tolerances: of the normalised surface Dice, in millimetres or pixels; empty of a classification.
        models: by run, which of its models was scored.
    """

    version: Literal[1] = 1
    lines: int
    nsd_tolerances: tuple[float, ...]
    models: dict[str, FinalModel]


def write_results(file: Path, rows: Sequence[ResultRow], models: Mapping[str, FinalModel]) -> None:
    """Write lines with their heading, and in another file how many there are.

    Args:
        file: the table; its description has the same name with the ending ``.json``.
        rows: the lines.
        models: by run, which of its models they are of.
    """
    tolerances = sorted({row.nsd_tolerance for row in rows if math.isfinite(row.nsd_tolerance)})
    description = ResultsDescription(lines=len(rows), nsd_tolerances=tuple(tolerances), models=dict(models))
    # Whoever is killed between the files leaves a table without description, which counts as none.
    _description_file(file).unlink(missing_ok=True)
    write_table(file, list(COLUMNS), [[getattr(row, one.name) for one in COLUMNS.values()] for row in rows])
    write_text(_description_file(file), json.dumps(description.model_dump(mode="json"), indent=2) + "\n")


def read_results(file: Path) -> list[ResultRow]:
    """Read lines; columns that are not known are left out.

    Raises:
        DataError: if there is no such file, a column or value is not as expected, or lines are missing.
    """
    if not file.is_file():
        raise DataError(f"{file}: found no such file; expected the results per case of a run or a comparison.")
    lines = table_lines(file, [name for name in COLUMNS if name not in _LATER])
    rows = [_row(line, f"{file}: line {number}") for number, line in enumerate(lines, 2)]
    expected = read_description(file).lines
    if len(rows) != expected:
        raise DataError(
            f"{file}: found {len(rows)} lines, expected {expected} as in {_description_file(file).name}; the file was "
            "cut off or changed. Remove both, and give the command that made them again."
        )
    return rows


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


def renamed(rows: Sequence[ResultRow], *, run: str, arm: str) -> list[ResultRow]:
    """Return lines as those of another run and arm."""
    return [replace(row, run=run, arm=arm) for row in rows]


@dataclass(frozen=True)
class RunName:
    """What a run's lines begin with."""

    run: str
    arm: str
    seed: int
