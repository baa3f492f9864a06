"""Digests of the content of files; a file that has not changed since is not read again."""

import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .prepared_pack import DAMAGED
from .private_folders import new_private_file, open_private_file
from .store_folder import StoreFolder

_FORMAT = 1
_MAX_THREADS = 4
# The clock of a disk may be as coarse. What has changed so recently may change again without a trace.
_COARSEST_CLOCK_NS = 2 * 10**9
# Read by their names: the same bytes may be a volume under one and nothing under another.
_NAMED_SUFFIXES = (".nii", ".nii.gz")

State = tuple[int, int, int, int]


@dataclass(frozen=True)
class FileContent:
    """What a file holds, wherever it lies.

    Attributes:
        parts: of a case's key: the digest of the content; of a file that cannot be read where it is and why.
        state: the file's number, size and times when it was read; None if there is none.
    """

    parts: tuple[str | int | None, ...]
    state: State | None

    def is_still(self, file: Path) -> bool:
        """Return whether the file has not changed since."""
        return _state(file) == self.state


class FileDigests:
    """Digests of files, kept in a store under hashes of their paths, numbers, sizes and times.

    Args:
        store: the store.
        scope: what the files belong to; each has a list of its own, of the files that it has now.
    """

    def __init__(self, store: StoreFolder, scope: str) -> None:
        self._file = store.digests / hashlib.sha256(scope.encode()).hexdigest()[:32]
        self._unfinished = store.digests / f"{self._file.name}-{secrets.token_hex(8)}"

    def contents(self, files: Iterable[Path]) -> dict[Path, FileContent]:
        """Return what each file holds; those that have changed, or not been seen before, are read."""
        known, used = self._read(), dict[str, str]()
        found: dict[Path, FileContent] = {}
        changed: list[Path] = []
        for file in dict.fromkeys(files):
            state = _state(file)
            name = "" if state is None else _name(file, state)
            if name in known:
                used[name] = known[name]
                found[file] = FileContent((*_kind(file), known[name]), state)
            else:
                changed.append(file)
        if changed:
            now = time.time_ns()
            with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
                for file, content in zip(changed, pool.map(_content, changed), strict=True):
                    found[file] = content
                    if _is_settled(content, now):
                        assert content.state is not None
                        used[_name(file, content.state)] = str(content.parts[-1])
        self._keep(used, is_new=used != known)
        return found

    def _read(self) -> dict[str, str]:
        try:
            with open_private_file(self._file) as stream:
                content = json.load(stream)
            if content["format"] != _FORMAT:
                return {}
            return {str(name): str(digest) for name, digest in content["digests"].items()}
        except DAMAGED:
            return {}

    def _keep(self, digests: dict[str, str], *, is_new: bool) -> None:
        if not is_new:
            with suppress(OSError):
                os.utime(self._file)
            return
        # Without it files are read again, no more.
        with suppress(OSError), new_private_file(self._unfinished) as stream:
            stream.write(json.dumps({"format": _FORMAT, "digests": digests}).encode())
        with suppress(OSError):
            self._unfinished.replace(self._file)
        self._unfinished.unlink(missing_ok=True)


def _state(file: Path) -> State | None:
    """Number, size, time of the content, and time of the state, which changes with rights and with restored times."""
    try:
        status = os.stat(file)  # noqa: PTH116
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _name(file: Path, state: State) -> str:
    return hashlib.sha256(f"{file}\0{state}".encode(errors="surrogateescape")).hexdigest()[:32]


def _kind(file: Path) -> tuple[str, str]:
    return "content", next((suffix for suffix in reversed(_NAMED_SUFFIXES) if file.name.endswith(suffix)), "")


def _content(file: Path) -> FileContent:
    """Read a file. Its state is that before: whoever compares it later notices a change while it was read."""
    state = _state(file)
    try:
        # A pipe would let a reader wait for a writer.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise IsADirectoryError
            return FileContent((*_kind(file), hashlib.file_digest(stream, "sha256").hexdigest()), state)
    except (OSError, ValueError) as error:
        code = error.errno if isinstance(error, OSError) else None
        return FileContent(("unreadable", os.path.abspath(file), type(error).__name__, code, str(state)), state)  # noqa: PTH100


def _is_settled(content: FileContent, now: int) -> bool:
    """Whether a digest may be kept: it is one, and a later change would change the file's times."""
    if content.state is None or content.parts[0] != "content":
        return False
    return content.state[-1] < now - _COARSEST_CLOCK_NS
