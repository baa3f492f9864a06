"""Reading tables of annotations: CSV files and the first sheet of Excel's ``.xlsx``."""

import csv
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from ....transforms.errors import DataError

# Preferred first.
TABLE_SUFFIXES = (".csv", ".xlsx")

_LARGEST_PART = 2**27
# What damaged or encrypted archives and other programs' sheets lead to.
_UNREADABLE = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    RuntimeError,
    LookupError,
    ValueError,
    ElementTree.ParseError,
)
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def read_table(file: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Read the rows below a header; empty cells are empty texts and rows without any text are left out.

    Args:
        file: CSV in UTF-8, separated by commas or semicolons, or ``.xlsx``.
        columns: columns that the table must have.

    Raises:
        DataError: if the file cannot be read or lacks a column.
    """
    rows = _csv_rows(file) if file.suffix.lower() == ".csv" else _sheet_rows(file)
    rows = [cells for row in rows if any(cells := [cell.strip() for cell in row])]
    header = rows[0] if rows else []
    missing = [column for column in columns if column not in header]
    if missing:
        found = ", ".join(filter(None, header)) or "none"
        raise DataError(f"{file}: found the columns {found}; expected also {', '.join(missing)}.")
    return [dict(zip(header, [*row, *[""] * len(header)], strict=False)) for row in rows[1:]]


def _csv_rows(file: Path) -> list[list[str]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read as text ({error}); expected CSV in UTF-8.") from error
    header = text.partition("\n")[0]
    try:
        return list(
            csv.reader(io.StringIO(text, newline=""), delimiter=";" if header.count(";") > header.count(",") else ",")
        )
    except csv.Error as error:
        raise DataError(f"{file}: cannot be read as CSV ({error}).") from error


def _sheet_rows(file: Path) -> list[list[str]]:
    """The texts of the first sheet; formulas count with their stored result."""
    try:
        with zipfile.ZipFile(file) as archive:
            strings = _shared_strings(archive)
            sheet = _part(archive, _first_sheet(archive))
            return [_row_texts(row, strings) for row in sheet.iterfind("{*}sheetData/{*}row")]
    except _UNREADABLE as error:
        raise DataError(
            f"{file}: cannot be read as .xlsx ({error}); open it in a spreadsheet program and save it as CSV beside it."
        ) from error


def _first_sheet(archive: zipfile.ZipFile) -> str:
    """Where the workbook's first sheet lies in the archive."""
    sheet = _part(archive, "xl/workbook.xml").find("{*}sheets/{*}sheet")
    if sheet is None:
        raise ValueError("the workbook has no sheet")
    for relation in _part(archive, "xl/_rels/workbook.xml.rels"):
        if relation.get("Id") == sheet.get(_RELATION):
            target = PurePosixPath("/xl", relation.get("Target", ""))
            return str(target.relative_to("/"))
    raise ValueError("the workbook does not say where its first sheet is")


def _shared_strings(archive: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    return [_text(item) for item in _part(archive, "xl/sharedStrings.xml").iterfind("{*}si")]


def _part(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    if archive.getinfo(name).file_size > _LARGEST_PART:
        raise ValueError(f"{name} is larger than {_LARGEST_PART} bytes")
    return ElementTree.fromstring(archive.read(name))


def _row_texts(row: ElementTree.Element, strings: Sequence[str]) -> list[str]:
    """The texts of a row; cells that the file leaves out are empty."""
    texts: list[str] = []
    for cell in row.iterfind("{*}c"):
        column = _column(cell.get("r", ""), len(texts))
        texts += [""] * (column - len(texts))
        texts.append(_cell_text(cell, strings))
    return texts


def _cell_text(cell: ElementTree.Element, strings: Sequence[str]) -> str:
    if cell.get("t") == "inlineStr":
        item = cell.find("{*}is")
        return "" if item is None else _text(item)
    value = cell.findtext("{*}v") or ""
    return strings[int(value)] if cell.get("t") == "s" else value


def _text(item: ElementTree.Element) -> str:
    """The text of a string with or without formatting; not its pronunciation."""
    return "".join(part.text or "" for path in ("{*}t", "{*}r/{*}t") for part in item.iterfind(path))


def _column(reference: str, following: int) -> int:
    """Number from 0 of the column in a reference such as ``AB12``; the following one without a reference."""
    letters = re.match(r"[A-Z]+", reference)
    if not letters:
        return following
    number = 0
    for letter in letters[0]:
        number = 26 * number + ord(letter) - ord("A") + 1
    if not following <= number - 1 < 2**14:
        raise ValueError(f"the cell {reference} is out of order")
    return number - 1
