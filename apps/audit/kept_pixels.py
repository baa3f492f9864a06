"""The cases of a review that stay in memory, in the pixels of their files."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...custom.audit.findings import AuditedCase
from ...transforms.errors import DataError
from .case_files import CaseReader
from .file_pixels import FilePixels

# So many bytes in all, but always the last channel and the annotations of the last case.
_KEPT_BYTES = 2**29
_KEPT_CASES = 8


class KeptPixels:
    """Reads cases as they are asked for, and keeps the last ones.

    Args:
        reader: of the audit.
        cases: as the page lists them.

    Attributes:
        reading: held by whoever reads files; a large image takes much memory, and several are no faster.
    """

    def __init__(self, reader: CaseReader, cases: Sequence[AuditedCase]) -> None:
        self._reader, self._cases = reader, cases
        self._pixels: OrderedDict[int, FilePixels] = OrderedDict()
        self.reading, self._keeping = threading.Lock(), threading.Lock()

    @contextmanager
    def of_version(self, number: int, version: str) -> Iterator[FilePixels]:
        """Give the pixels of a case's files; what was read of them in the block counts from then on.

        Raises:
            DataError: if the files are no longer those of this version, or cannot be read.
        """
        with self.now(number) as pixels:
            if pixels.version != version:
                raise DataError(f"{self._cases[number].image}: its files have changed; load the page again.")
            yield pixels

    @contextmanager
    def now(self, number: int) -> Iterator[FilePixels]:
        """Give the pixels of a case's files as they are now; what was read of them in the block counts from then on.

        Raises:
            DataError: if they cannot be read.
        """
        try:
            yield self._now(number)
        finally:
            self._forget()

    @contextmanager
    def read_once(self, number: int) -> Iterator[FilePixels]:
        """Give the same, but keep no case for it, and let no reader of another case wait.

        Raises:
            DataError: if they cannot be read.
        """
        case = self._cases[number]
        version = self._reader.version_of_files(case)
        pixels = self.kept(number, version)
        if pixels is None:
            # Whoever reads now may read this case.
            with self.reading:
                pixels = self.kept(number, version)
        try:
            yield pixels or FilePixels(self._reader, case, version)
        finally:
            self._forget()

    def _now(self, number: int) -> FilePixels:
        case = self._cases[number]
        version = self._reader.version_of_files(case)
        pixels = self.kept(number, version)
        if pixels is not None:
            return pixels
        with self.reading:
            pixels = self.kept(number, version) or FilePixels(self._reader, case, version)
            with self._keeping:
                self._pixels[number] = pixels
                self._pixels.move_to_end(number)
            self._forget()
            return pixels

    def kept(self, number: int, version: str) -> FilePixels | None:
        """Return the pixels of a case if they are in memory, and of this version."""
        with self._keeping:
            pixels = self._pixels.get(number)
            if pixels is None or pixels.version != version:
                return None
            self._pixels.move_to_end(number)
            return pixels

    def _forget(self) -> None:
        """Let go of cases, then of channels, that were not asked for the longest, where what is kept is too much."""
        with self._keeping:
            while len(self._pixels) > 1 and (len(self._pixels) > _KEPT_CASES or self._nbytes > _KEPT_BYTES):
                self._pixels.popitem(last=False)
            for last in self._pixels.values():
                while self._nbytes > _KEPT_BYTES and last.channels.forget_one():
                    pass

    @property
    def _nbytes(self) -> int:
        return sum(own.nbytes for own in self._pixels.values())
