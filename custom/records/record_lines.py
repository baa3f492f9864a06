"""Records in JSON-lines files, one line each."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from ...transforms.errors import DataError
from ..data.regular_files import open_regular_file
from ..data.whole_files import private_file, replaced, write_text
from ..strict_model import StrictModel
from .plain_values import finite
from .round_records import Record


class LogPosition(StrictModel):
    """How far a JSON-lines file counts.

    Attributes:
        size: bytes from its beginning on.
        sha256: of them, so that the lines of another run are not taken for these.
    """

    size: int = Field(ge=0)
    sha256: str


class RecordLog:
    """A JSON-lines file to which a run appends a line for each finished round; nothing of it is written again.

    A state names the position up to which the file counts when it is written, and holds what comes after it. So nothing
    is read of what a process that was killed has left of its last line.

    Args:
        file: the file; its folder exists.

    Attributes:
        count: how many lines it has.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._size = 0
        self._hash = hashlib.sha256()
        self._written: tuple[int, ...] | None = None
        self.count = 0

    @property
    def position(self) -> LogPosition:
        """The end of the file."""
        return LogPosition(size=self._size, sha256=self._hash.hexdigest())

    @property
    def is_as_written(self) -> bool:
        """Whether nobody else has written, replaced or removed the file since this object wrote it."""
        return self._written is not None and self._written == _identity(self._file)

    def begin(self, lines: bytes = b"", records: Sequence[Record] = ()) -> None:
        """Write the file in one step.

        Args:
            lines: of an earlier run, which stay as they are.
            records: that come after them.
        """
        content = lines + b"".join(_line(record).encode() for record in records)
        with replaced(self._file) as temporary:
            temporary.write_bytes(content)
        self._size, self._hash = len(content), hashlib.sha256(content)
        self.count = content.count(b"\n")
        self._written = _identity(self._file)

    def append(self, record: Record) -> None:
        """Append one record, in place of what a failed attempt has left; it is on the disk afterwards.

        The file must be :attr:`is_as_written` but for such an attempt.
        """
        line = _line(record).encode()
        with private_file(self._file).open("r+b") as stream:
            stream.seek(self._size)
            stream.truncate()
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
        self._size += len(line)
        self._hash.update(line)
        self.count += 1
        self._written = _identity(self._file)


def _identity(file: Path) -> tuple[int, ...] | None:
    """What changes when a file is written, or another one takes its place; None if it is not there."""
    try:
        status = file.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def lines_up_to(file: Path, position: LogPosition) -> bytes:
    """Return the lines of a JSON-lines file up to a position.

    Raises:
        DataError: if it is not there, or the lines are others.
    """
    try:
        with open_regular_file(file) as stream:
            # No memory is taken for what is not there.
            result = stream.read(min(position.size, os.fstat(stream.fileno()).st_size))
    except OSError as error:
        raise DataError(
            f"{file}: cannot be read ({error.strerror}); expected the records of the rounds beside the state and the "
            "summary of a run."
        ) from error
    if hashlib.sha256(result).hexdigest() != position.sha256:
        raise DataError(
            f"{file}: found {len(result)} bytes of other records; expected the {position.size} bytes of the run "
            "whose state or summary is beside it."
        )
    return result


def append_record(path: Path, record: Record) -> None:
    """Append one record to a JSON-lines file."""
    with private_file(path).open("a", encoding="utf-8") as file:
        file.write(_line(record))


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write a JSON-lines file again, in one step."""
    write_text(path, "".join(map(_line, records)))


def _line(record: Record) -> str:
    return json.dumps(finite(record.plain()), allow_nan=False) + "\n"
