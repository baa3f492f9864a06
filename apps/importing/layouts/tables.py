"""Reading tables of annotations: CSV files and the first sheet of Excel's ``.xlsx``."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ....transforms.errors import DataError
from .spreadsheet import sheet_rows

# Preferred first.
TABLE_SUFFIXES = (".csv", ".xlsx")

_MOST_BYTES = 2**26
_MOST_ROWS = 100_000


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        place: where a person finds it: the line of the file in which it begins, or the row of the sheet.
        cells: its text in every column that was asked for.
    """

    place: str
    cells: dict[str, str]


def read_table(file: Path, columns: Sequence[str]) -> list[TableRow]:
    """Read columns of the rows below a header; empty cells are empty texts and rows without any text are left out.

    Args:
        file: CSV in UTF-8, separated by commas, semicolons or tabs, or ``.xlsx``.
        columns: columns that the table must have.

    Returns:
        The rows in their order.

    Raises:
        DataError: if the file cannot be read, lacks a column, or is larger than any table should be.
    """
    is_csv = file.suffix.lower() == ".csv"
    rows = _with_text(_csv_rows(file) if is_csv else sheet_rows(file))
    _, header = next(rows, (0, []))
    missing = [column for column in columns if column not in header]
    if missing:
        result = ", ".join(filter(None, header)) or "none"
        raise DataError(f"{file}: found the columns {result}; expected also {', '.join(missing)}.")
    if twice := [column for column in columns if header.count(column) > 1]:
        raise DataError(f"{file}: found several columns {twice[0]}; expected one of each name. Rename the others.")
    places = {column: place for place, column in enumerate(header) if column in columns}
    table: list[TableRow] = []
    for number, row in rows:
        if len(table) == _MOST_ROWS:
            raise DataError(f"{file}: expected at most {_MOST_ROWS} rows of annotations, but found more.")
        cells = {column: row[place] if place < len(row) else "" for column, place in places.items()}
        table.append(TableRow(f"{'line' if is_csv else 'row'} {number}", cells))
    return table


def _with_text(rows: Iterable[tuple[int, Sequence[str]]]) -> Iterator[tuple[int, list[str]]]:
    for number, row in rows:
        if any(cells := [cell.strip() for cell in row]):
            yield number, cells


def _csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the line in which it begins: a cell in quotation marks may have several."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise DataError(f"{file}: expected a table of at most {_MOST_BYTES} bytes, but it is larger.")
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read as text ({error}); expected CSV in UTF-8.") from error
    if mark := re.match(r"sep=(.)\r?\n", text):
        # So a spreadsheet program says which mark it takes.
        text = text[mark.end() :]
    before = 1 if mark else 0
    header = text.partition("\n")[0]
    delimiter = mark[1] if mark else max(",;\t", key=header.count)
    # A cell may hold all corners of a polygon; the file's size bounds it.
    csv.field_size_limit(_MOST_BYTES)
    reader, begin = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), before + 1
    try:
        for row in reader:
            yield begin, row
            begin = before + reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{file}: the row that begins in line {begin} cannot be read as CSV ({error}); look for a quotation mark "
            "without its counterpart."
        ) from error
