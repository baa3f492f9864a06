"""Rows of the first sheet of an ``.xlsx`` workbook, read by openpyxl within bounds that no file can leave."""

import contextlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from ....transforms.errors import DataError

# Of the file, and of all that is packed in it; tables of annotations have a few million bytes.
MOST_BYTES = 2**24
# A text counts as often as cells refer to it.
MOST_CHARACTERS = 2**25
# Excel's last row. Rows without cells cost nothing in a file.
LAST_ROW = 2**20
# Columns beyond are not looked at.
LAST_COLUMN = 2**8

_AS_CSV = "open it in a spreadsheet program and save it as CSV beside it"


def sheet_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Give number and texts of the first sheet's rows but for empty ones; formulas count with their stored result.

    Args:
        file: ``.xlsx``.

    Raises:
        DataError: if openpyxl is not installed, or the file cannot be read or is larger than any table should be.
    """
    try:
        # An optional extra.
        import openpyxl  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise DataError(
            f"{file}: reading .xlsx needs openpyxl; install it with pip install 'openpyxl>=3.1', or {_AS_CSV}."
        ) from error
    try:
        content = _checked_content(file)
        with contextlib.closing(
            openpyxl.load_workbook(content, read_only=True, data_only=True, keep_links=False)
        ) as book:
            yield from _texts(book.worksheets[0])
    # Whatever is wrong with a file, the library may raise anything.
    except Exception as error:
        raise DataError(f"{file}: cannot be read as .xlsx ({error}); {_AS_CSV}.") from error


def _texts(sheet: Any) -> Iterator[tuple[int, list[str]]]:
    characters = 0
    # The bounds are given, since those that the sheet names may be wrong.
    rows = sheet.iter_rows(max_row=LAST_ROW, max_col=LAST_COLUMN, values_only=True)
    for number, row in enumerate(rows, 1):
        if row.count(None) == len(row):
            continue
        texts = ["" if value is None else str(value) for value in row]
        characters += sum(map(len, texts))
        if characters > MOST_CHARACTERS:
            raise ValueError(f"its cells have more than {MOST_CHARACTERS} characters")
        yield number, texts


def _checked_content(file: Path) -> IO[bytes]:
    """The file in memory, once nothing in it can grow beyond the bounds."""
    with file.open("rb") as stream:
        content = io.BytesIO(stream.read(MOST_BYTES + 1))
    with zipfile.ZipFile(content) as archive:
        # More than the size that a part names is never unpacked.
        size = max(sum(part.file_size for part in archive.infolist()), content.getbuffer().nbytes)
        if size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} bytes when unpacked")
        for part in archive.infolist():
            with archive.open(part) as opened:
                _refuse_document_type(opened, part.filename)
    return content


def _refuse_document_type(part: IO[bytes], name: str) -> None:
    """Refuse entities, which can name other files and can stand for more text than memory holds; Excel writes none."""

    def refuse(*_: object) -> None:
        raise ValueError(f"{name} declares a document type")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    # What is no XML has no document type; whether it should be some, its reader says.
    with contextlib.suppress(expat.ExpatError):
        parser.ParseFile(part)
