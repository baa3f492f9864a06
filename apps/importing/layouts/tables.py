"""Reading tables of annotations: CSV files and the first sheet of Excel's ``.xlsx``."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ....transforms.errors import DataError
from .spreadsheet import sheet_rows

# Preferred first.
TABLE_SUFFIXES = (".csv", ".xlsx")

_MOST_BYTES = 2**26
_MOST_ROWS = 100_000


def read_table(file: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Read columns of the rows below a header; empty cells are empty texts and rows without any text are left out.

    Args:
        file: CSV in UTF-8, separated by commas, semicolons or tabs, or ``.xlsx``.
        columns: columns that the table must have.

    Returns:
        The text of every column, row by row.

    Raises:
        DataError: if the file cannot be read, lacks a column, or is larger than any table should be.
    """
    rows = _with_text(_csv_rows(file) if file.suffix.lower() == ".csv" else sheet_rows(file))
    header = next(rows, [])
    missing = [column for column in columns if column not in header]
    if missing:
        result = ", ".join(filter(None, header)) or "none"
        raise DataError(f"{file}: found the columns {result}; expected also {', '.join(missing)}.")
    if twice := [column for column in columns if header.count(column) > 1]:
        raise DataError(f"{file}: found several columns {twice[0]}; expected one of each name. Rename the others.")
    places = {column: place for place, column in enumerate(header) if column in columns}
    table: list[dict[str, str]] = []
    for row in rows:
        if len(table) == _MOST_ROWS:
            raise DataError(f"{file}: expected at most {_MOST_ROWS} rows of annotations, but found more.")
        table.append({column: row[place] if place < len(row) else "" for column, place in places.items()})
    return table


def _with_text(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    for row in rows:
        if any(cells := [cell.strip() for cell in row]):
            yield cells


def _csv_rows(file: Path) -> Iterator[list[str]]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise DataError(f"{file}: expected a table of at most {_MOST_BYTES} bytes, but it is larger.")
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read as text ({error}); expected CSV in UTF-8.") from error
    if mark := re.match(r"sep=(.)\r?\n", text):
        # So a spreadsheet program says which mark it takes.
        text = text[mark.end() :]
    header = text.partition("\n")[0]
    delimiter = mark[1] if mark else max(",;\t", key=header.count)
    # A cell may hold all corners of a polygon; the file's size bounds it.
    csv.field_size_limit(_MOST_BYTES)
    try:
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    except csv.Error as error:
        raise DataError(
            f"{file}: cannot be read as CSV ({error}); look for a quotation mark without its counterpart."
        ) from error
