"""Writing a folder or a file as a whole or not at all."""

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...transforms.errors import DataError

_LOCK = "lock"


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside the wanted one that takes its place when everything went well.

    What is there afterwards is on the disk, so that it outlives a loss of power, too. What a process that was killed
    has left of the same folder is removed. A process that still writes it holds a lock,
    and what it writes stays.

    Args:
        folder: the wanted folder; must be absent or empty. Its parents are made.

    Raises:
        DataError: if there is a file, or a folder that is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "a folder with files in it" if folder.is_dir() else "a file"
        raise DataError(
            f"{folder}: found {found}; expected an empty or absent output folder. Remove it or choose another."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    workplace, lock = _workplace(folder)
    try:
        # A folder of tempfile's can be read by its owner alone, the result need not be.
        unfinished = workplace / folder.name
        unfinished.mkdir()
        yield unfinished
        _sync_below(unfinished)
        unfinished.rename(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)
        os.close(lock)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step; a further name of an older file (a hard link) keeps what it has."""
    with replaced(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_private_text(path: Path, text: str) -> None:
    """Write a text file in one step that nobody but its owner can read or change, at no moment and with any umask."""
    with replaced(path) as temporary:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """Give a temporary file of the same suffix that takes a file's place in one step when everything went well.

    What is there afterwards is on the disk, so that it outlives a loss of power, too.
    """
    temporary = file.with_name(f".{os.getpid()}.{file.name}")
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(file)
        _sync(file.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_below(folder: Path) -> None:
    """Have all that is in a folder written to the disk; links lead to what others have written."""
    for parent, _, names in os.walk(folder):
        for path in (*(Path(parent, name) for name in names), Path(parent)):
            if not path.is_symlink():
                _sync(path)


def _sync(path: Path) -> None:
    """Have a file's content, or a folder's names, written to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network disks do not synchronise folders.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def _prefix(folder: Path) -> str:
    return f".{folder.name}-unfinished-"


def _workplace(folder: Path) -> tuple[Path, int]:
    """A folder to work in beside the wanted one, and its lock, which ends with the process."""
    while True:
        workplace = Path(tempfile.mkdtemp(dir=folder.parent, prefix=_prefix(folder)))
        try:
            lock = os.open(workplace / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            # Another process took it for abandoned before it was locked.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        except OSError:
            # Some network disks have no locks; nobody can get this one there.
            return workplace, lock
        if (workplace / _LOCK).exists():
            return workplace, lock
        os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes that are gone have left of a folder: only what has the form of our own, and no lock."""
    form = re.compile(re.escape(_prefix(folder)) + r"[a-z0-9_]{8}")
    for workplace in folder.parent.iterdir():
        if form.fullmatch(workplace.name) and workplace.is_dir() and not workplace.is_symlink():
            _remove_if_abandoned(workplace, folder.name)


def _remove_if_abandoned(workplace: Path, name: str) -> None:
    try:
        if any(entry.name not in (name, _LOCK) for entry in workplace.iterdir()):
            return
        lock = os.open(workplace / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        # Killed before it was locked, or about to be: only an empty folder goes, whose owner takes another.
        _remove_empty(workplace)
        return
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(workplace, ignore_errors=True)
    except OSError:
        # Held by a process that lives, or the disk has no locks.
        return
    finally:
        os.close(lock)


def _remove_empty(workplace: Path) -> None:
    try:
        workplace.rmdir()
    except OSError:
        return
