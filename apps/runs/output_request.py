"""What an output folder was asked for, kept in it, so that no other results are mixed into those that it holds."""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...custom.data.file_locks import locked
from ...custom.data.whole_files import private_folder, write_text
from ...transforms.strict_files import read_json
from .job import JobError

_LOCK = ".lock"
# Stands for the output folder in a path that is kept relative to it.
_OUT = "{out}"


def keep_request(
    out: Path,
    file_name: str,
    asked: Mapping[str, Any],
    *,
    contents: str,
    growing: Mapping[str, str] | None = None,
    free: Collection[str] = (),
    paths: Collection[str] = (),
    root: Path | None = None,
) -> None:
    """Write into an output folder what it is asked for, or refuse a folder that was asked for something else.

    Args:
        out: the folder, which is made if there is none.
        file_name: of the file with the request.
        asked: what it is asked for, as JSON has it.
        contents: what the folder holds, a noun for messages.
        growing: keys of `asked` whose values are mappings to which entries may be added, each with a noun for an entry.
        free: keys of `asked` whose values may be others than before.
        paths: keys of `asked` whose values are paths, or None; the same place in other words is the same.
        root: a folder that may be moved as a whole: paths in it are kept relative to the output folder, which is in it
            as well; None for the output folder itself.

    Raises:
        JobError: if the folder holds results of another request, or other files.
        DataError: if the file cannot be read, or another process holds the folder for more than an hour.
    """
    _check_not_foreign(out, file_name, contents)
    private_folder(out)
    kept = {key: _kept_path(value, out, root or out) if key in paths else value for key, value in asked.items()}
    with folder_locked(out):
        _keep(out, file_name, kept, contents, growing or {}, free, paths)


@contextmanager
def folder_locked(out: Path) -> Iterator[None]:
    """Be the only process that writes what belongs to a whole output folder, on all machines that share it.

    Raises:
        DataError: if another one does so for more than an hour.
    """
    lock = out / _LOCK
    with locked(lock, "written", out):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _check_not_foreign(out: Path, file_name: str, contents: str) -> None:
    """Refuse a folder with other files; nothing is written into it."""
    holds_files = out.exists() and any(out.iterdir())
    # In this order: who makes the folder now locks it first, then writes the file, then removes the lock.
    if holds_files and not (out / _LOCK).exists() and not (out / file_name).is_file():
        raise JobError(f"Expected an empty folder or an earlier {contents}, but {out} holds other files.")


def _keep(
    out: Path,
    file_name: str,
    asked: Mapping[str, Any],
    contents: str,
    nouns: Mapping[str, str],
    free: Collection[str],
    paths: Collection[str],
) -> None:
    file = out / file_name
    earlier: dict[str, Any] = {}
    if file.is_file():
        earlier = read_json(file, f"what this {contents} was asked for")
        pairs = [
            (key, earlier.get(key), value)
            for key, value in asked.items()
            if key not in nouns
            and key not in free
            and not (key in paths and _is_same_place(earlier.get(key), value, out))
        ]
        for key, noun in nouns.items():
            known = earlier.get(key, {})
            pairs += [(f"the {noun} {name!r}", known.get(name, entry), entry) for name, entry in asked[key].items()]
        if differing := [f"{what} was {before} and is {now}" for what, before, now in pairs if before != now]:
            raise JobError(
                f"{out} holds another {contents}: {'; '.join(differing)}. Choose another output folder, or what it was."
            )
    elif any(not _is_left_by_us(entry.name, file_name) for entry in out.iterdir()):
        raise JobError(f"Expected an empty folder or an earlier {contents}, but {out} holds other files.")
    grown = {key: earlier.get(key, {}) | asked[key] for key in nouns}
    write_text(file, json.dumps({**asked, **grown}, indent=2) + "\n")


def _is_left_by_us(name: str, file_name: str) -> bool:
    """Whether a file is the lock, or of a process that was killed while it wrote the request."""
    return name == _LOCK or re.fullmatch(rf"\.\d+\.{re.escape(file_name)}", name) is not None


def _kept_path(path: str | None, out: Path, root: Path) -> str | None:
    """A path as it is kept: relative to the output folder where it moves with it, else as it was given."""
    if path is None or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        return path
    return f"{_OUT}/{Path(os.path.relpath(os.path.realpath(path), os.path.realpath(out))).as_posix()}"


def _is_same_place(before: object, now: object, out: Path) -> bool:
    """Whether two kept paths lead to the same place; earlier versions kept all as they were given."""
    return isinstance(before, str) and isinstance(now, str) and _real_path(before, out) == _real_path(now, out)


def _real_path(kept: str, out: Path) -> str:
    return os.path.realpath(out / kept.removeprefix(f"{_OUT}/") if kept.startswith(f"{_OUT}/") else kept)
