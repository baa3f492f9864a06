"""Digests of the content of files; a file that has not changed since is not read again."""

import hashlib
import json
import os
import secrets
import time
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from .prepared_pack import DAMAGED
from .regular_files import open_regular_file
from .store_folder import StoreFolder
from .whole_files import new_private_file, open_private_file

_FORMAT = 1
_MAX_THREADS = 4
# The clock of a disk may be as coarse. What has changed so recently may change again without a trace.
_COARSEST_CLOCK_NS = 2 * 10**9

_READ = "content"

State = tuple[int, int, int, int]


class FileContent(NamedTuple):
    """What a file holds, wherever it lies.

    Attributes:
        text: for a case's key: the digest of the content; of a file that cannot be read where it is and why.
        state: the file's number, size and times when it was read; None if there is none.
    """

    text: str
    state: State | None

    @property
    def is_readable(self) -> bool:
        """Whether the content could be read."""
        return self.text.startswith(_READ)

    def is_still(self, path: str) -> bool:
        """Return whether the file at the path has not changed since."""
        return _state(path) == self.state


class FileDigests:
    """Digests of files, kept in a store under checksums of their paths, with numbers, sizes and times.

    Args:
        store: the store.
        scope: what the files belong to; each has a list of its own, of the files that it has now.
    """

    def __init__(self, store: StoreFolder, scope: str) -> None:
        self._file = store.digests / hashlib.sha256(scope.encode(errors="surrogateescape")).hexdigest()[:32]
        self._unfinished = store.digests / f"{self._file.name}-{secrets.token_hex(8)}"

    def contents(self, paths: Iterable[str]) -> dict[str, FileContent]:
        """Return what each file holds, by its path; those that have changed, or not been seen before, are read."""
        known, used = self._read(), dict[str, str]()
        result: dict[str, FileContent] = {}
        changed: list[str] = []
        for path in dict.fromkeys(paths):
            state = _state(path)
            name = "" if state is None else _name(path, state)
            text = known.get(name)
            if text is None:
                changed.append(path)
            else:
                used[name] = text
                result[path] = FileContent(text, state)
        if changed:
            now = time.time_ns()
            with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
                for path, content in zip(changed, pool.map(_content, changed), strict=True):
                    result[path] = content
                    if content.state is not None and content.is_readable and _is_settled(content.state, now):
                        used[_name(path, content.state)] = content.text
        self._keep(used, is_new=used != known)
        return result

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


def _state(path: str) -> State | None:
    """Number, size, time of the content, and time of the state, which changes with rights and with restored times."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _name(path: str, state: State) -> str:
    """How a file is called in the list. A checksum of the path is enough besides number and time, and no name."""
    number, size, modified, changed = state
    return f"{zlib.crc32(path.encode(errors='surrogateescape'))} {number} {size} {modified} {changed}"


def _content(path: str) -> FileContent:
    """Read a file. Its state is that before: whoever compares it later notices a change while it was read."""
    state = _state(path)
    try:
        with open_regular_file(path) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        # Its name counts only as far as it decides how the file is read.
        named = ".nii.gz" if path.endswith(".nii.gz") else ".nii" if path.endswith(".nii") else ""
        return FileContent(f"{_READ} {named} {digest}", state)
    except (OSError, ValueError) as error:
        code = error.errno if isinstance(error, OSError) else None
        where = os.path.abspath(path)  # noqa: PTH100
        return FileContent(f"unreadable {where} {type(error).__name__} {code} {state}", state)


def _is_settled(state: State, now: int) -> bool:
    """Whether a digest may be kept: a later change would change the time of the file's state."""
    return state[-1] < now - _COARSEST_CLOCK_NS
