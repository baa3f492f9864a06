"""What an output folder was asked for, kept in it, so that no other results are mixed into those that it holds."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...custom.data.file_locks import locked
from ...custom.data.whole_files import private_folder, write_text
from ...transforms.strict_files import read_json
from .job import JobError

_LOCK = ".lock"


def keep_request(
    out: Path,
    file_name: str,
    asked: Mapping[str, Any],
    *,
    contents: str,
    growing: Mapping[str, str] | None = None,
    free: Collection[str] = (),
) -> None:
    """Write into an output folder what it is asked for, or refuse a folder that was asked for something else.

    Args:
        out: the folder, which is made if there is none.
        file_name: of the file with the request.
        asked: what it is asked for, as JSON has it.
        contents: what the folder holds, a noun for messages.
        growing: keys of `asked` whose values are mappings to which entries may be added, each with a noun for an entry.
        free: keys of `asked` whose values may be others than before.

    Raises:
        JobError: if the folder holds results of another request, or other files.
        DataError: if the file cannot be read, or another process holds the folder for more than an hour.
    """
    _check_not_foreign(out, file_name, contents)
    private_folder(out)
    with folder_locked(out):
        _keep(out, file_name, asked, contents, growing or {}, free)


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
) -> None:
    file = out / file_name
    earlier: dict[str, Any] = {}
    if file.is_file():
        earlier = read_json(file, f"what this {contents} was asked for")
        pairs = [(key, earlier.get(key), value) for key, value in asked.items() if key not in nouns and key not in free]
        for key, noun in nouns.items():
            known = earlier.get(key, {})
            pairs += [(f"the {noun} {name!r}", known.get(name, entry), entry) for name, entry in asked[key].items()]
        if differing := [f"{what} was {before} and is {now}" for what, before, now in pairs if before != now]:
            raise JobError(
                f"{out} holds another {contents}: {'; '.join(differing)}. Choose another output folder, or what it was."
            )
    elif any(entry.name != _LOCK for entry in out.iterdir()):
        raise JobError(f"Expected an empty folder or an earlier {contents}, but {out} holds other files.")
    grown = {key: earlier.get(key, {}) | asked[key] for key in nouns}
    write_text(file, json.dumps({**asked, **grown}, indent=2) + "\n")
