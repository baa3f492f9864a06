"""Records in JSON-lines files, one line each."""

import json
from collections.abc import Sequence
from pathlib import Path

from ..data.whole_files import private_file, write_text
from .plain_values import finite
from .round_records import Record, RoundRecord


def append_record(path: Path, record: Record) -> None:
    """Append one record to a JSON-lines file."""
    with private_file(path).open("a", encoding="utf-8") as file:
        file.write(_line(record))


def write_records(path: Path, records: Sequence[RoundRecord]) -> None:
    """Write a JSON-lines file again, in one step."""
    write_text(path, "".join(map(_line, records)))


def _line(record: Record) -> str:
    return json.dumps(finite(record.plain()), allow_nan=False) + "\n"
