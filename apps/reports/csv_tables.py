"""Tables as CSV in UTF-8: written safely for spreadsheets, read whole or refused."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...custom.data.whole_files import write_text
from ...transforms.errors import DataError
from ...transforms.printable import spreadsheet_safe


def table_lines(file: Path, names: Sequence[str]) -> list[dict[str, str]]:
    """Return the lines of a table, by column; all of them whole.

    Raises:
        DataError: if it is no table, lacks one of the columns, or a line has another number of cells.
    """
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


def write_table(file: Path, heading: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    """Write a table; numbers that are not finite, and nothing, are empty cells."""
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
