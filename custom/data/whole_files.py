"""Files and folders of one user alone, and writing them as a whole or not at all.

What shows or names a patient is private: files have the mode 0600 and folders 0700, whatever the umask is. Private is
what a writer gets who asks for nothing; ``shared=True`` is for what holds nothing of a patient and is meant for others.
"""

import errno
import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from ...transforms.errors import DataError
from ...transforms.printable import printable

_LOCK = "lock"
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_RIGHTS, _OTHERS, _OTHERS_WRITE = 0o777, 0o077, 0o022

_LOGGER = logging.getLogger(__name__)


def private_folder(folder: Path) -> Path:
    """Make a folder that its owner alone may enter, with all parents that it lacks, and return it.

    A folder that exists keeps its mode. Where others may look into it a warning says so, since they can read the names
    of its files.

    Raises:
        FileExistsError: if it is a file.
    """
    is_new = _made_folder(folder)
    if not is_new and is_open_to_others(folder):
        _warn_of(folder.resolve())
    return folder


def private_file(file: Path) -> Path:
    """Make a file that its owner alone may read and write, or narrow one that exists; it keeps its content. Return it.

    What opens it again, such as matplotlib, NumPy, nibabel or SimpleITK, keeps its mode.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
    try:
        os.fchmod(descriptor, _FILE_MODE)
    finally:
        os.close(descriptor)
    return file


def make_private(folder: Path) -> None:
    """Take every right of others from a folder and all that is in it; links are not followed."""
    for parent, _, names in os.walk(folder):
        Path(parent).chmod(_FOLDER_MODE)
        for name in names:
            if not (file := Path(parent, name)).is_symlink():
                file.chmod(_FILE_MODE)


def is_open_to_others(folder: Path) -> bool:
    """Return whether other accounts have any right to a folder."""
    return bool(folder.stat().st_mode & _OTHERS)


def make_private_folder(folder: Path) -> Path:
    """Make a folder of mode 0700, whatever the umask, or check that one is private; return where it really is.

    The folder may be reached by symbolic links of this user and of root. Its rights stay as they are found; see
    :func:`close_to_others`.

    Raises:
        DataError: if the folder cannot be made, is no folder, belongs to another user, or is reached by a symbolic link
            of another user.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _make(folder)
    except OSError as error:
        raise _unusable(folder, error) from error
    return check_owner(folder)


def check_owner(folder: Path) -> Path:
    """Return where a folder really is, if it is this user's and no other user decides where that is.

    Raises:
        DataError: if it is not there, is no folder, belongs to another user, or is reached by a symbolic link of
            another user.
    """
    try:
        _check_links(folder)
        real = folder.resolve(strict=True)
        status = real.stat()
    except (OSError, RuntimeError) as error:
        raise _unusable(folder, error) from error
    if not stat.S_ISDIR(status.st_mode):
        raise DataError(f"{folder}: found a file; expected a folder. Remove it, or name another folder.")
    if status.st_uid != os.geteuid():
        raise DataError(
            f"{folder}: belongs to user {status.st_uid}; expected a folder of this user ({os.geteuid()}), which nobody "
            "else reads or fills. Name another folder."
        )
    return real


def close_to_others(folder: Path) -> bool:
    """Give a folder the mode 0700; return whether others could write there before.

    Raises:
        DataError: if the disk does not let the rights be taken.
    """
    before = stat.S_IMODE(folder.stat().st_mode)
    if before & _RIGHTS == _FOLDER_MODE:
        return False
    try:
        folder.chmod(_FOLDER_MODE)
        after = stat.S_IMODE(folder.stat().st_mode)
    except OSError:
        after = before
    if after & _OTHERS:
        raise DataError(
            f"{folder}: other users of this machine can open it (mode {after:04o}), and the disk does not let that be "
            f"changed; expected mode {_FOLDER_MODE:04o}. Name a folder on a disk with rights of its own."
        )
    return bool(before & _OTHERS_WRITE)


def make_private_part(folder: Path, owners: frozenset[int] = frozenset()) -> Path:
    """Make a folder of mode 0700 in one of this user, or narrow the one that is there; return it.

    Nothing is made or changed through a symbolic link.

    Args:
        folder: the folder; the one that it is in exists.
        owners: users besides this one whose folder it may be.

    Raises:
        DataError: if a symbolic link, a file or another user's folder is in its place.
    """
    _make(folder)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise DataError(
            f"{folder}: found {'a symbolic link' if folder.is_symlink() else 'no folder that can be entered'}; "
            "expected a folder of this user, or nothing. Remove it, after a look at who has put it there."
        ) from error
    try:
        result = os.fstat(descriptor)
        if result.st_uid not in {os.geteuid(), *owners}:
            raise DataError(f"{folder}: belongs to the user {result.st_uid}; expected a folder of this user.")
        if stat.S_IMODE(result.st_mode) != _FOLDER_MODE:
            os.fchmod(descriptor, _FOLDER_MODE)
    finally:
        os.close(descriptor)
    return folder


@contextmanager
def new_private_file(file: Path) -> Iterator[BinaryIO]:
    """Give a new file of mode 0600 to write to, which is on the disk when the block ends without an error.

    Raises:
        FileExistsError: if there is anything of that name.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as stream:
        yield stream
        stream.flush()
        os.fsync(descriptor)


def open_private_file(file: Path) -> BinaryIO:
    """Open a file of this user to read; what a link leads to is not opened.

    Raises:
        OSError: if it cannot be opened, is a link, or another user's.
    """
    stream = os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    status = os.fstat(stream.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        stream.close()
        raise PermissionError(f"{file.name} is no file of this user")
    return stream


def private_size(file: Path) -> int | None:
    """Return how long a file of this user is, None if it is none."""
    try:
        with open_private_file(file) as stream:
            return os.fstat(stream.fileno()).st_size
    except OSError:
        return None


@contextmanager
def new_folder(folder: Path, *, shared: bool = False) -> Iterator[Path]:
    """Give a temporary folder next to the wanted one that takes its place when everything went well.

    What is there afterwards is on the disk, so that it outlives a loss of power, too. What a process that was killed
    has left of the same folder is removed. A process that still writes it holds a lock,
    and what it writes stays.

    Args:
        folder: the wanted folder; must be absent or empty. Its parents are made.
        shared: whether others may read it as the umask says; else it and all in it are private.

    Raises:
        DataError: if there is a file, or a folder that is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            f"{folder}: found {'a folder with files in it' if folder.is_dir() else 'a file'}; expected an empty or "
            "absent output folder. Remove it or choose another."
        )
    if shared:
        folder.parent.mkdir(parents=True, exist_ok=True)
    else:
        _made_folder(folder.parent)
    _remove_abandoned(folder)
    workplace, lock = _workplace(folder)
    try:
        # The workplace is tempfile's, which its owner alone may enter: nothing is open while it is written.
        unfinished = workplace / folder.name
        unfinished.mkdir()
        yield unfinished
        if not shared:
            make_private(unfinished)
        _sync_below(unfinished)
        unfinished.rename(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)
        os.close(lock)


def write_text(path: Path, text: str, *, shared: bool = False) -> None:
    """Write a text file in one step; a further name of an older file (a hard link) keeps what it has.

    Args:
        path: the file.
        text: its content.
        shared: as for :func:`replaced`.
    """
    with replaced(path, shared=shared) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replaced(file: Path, *, shared: bool = False) -> Iterator[Path]:
    """Give an empty temporary file of the same suffix that takes a file's place in one step when everything went well.

    What is there afterwards is on the disk, so that it outlives a loss of power, too.

    Args:
        file: the file; its folder exists.
        shared: whether others may read it as the umask says; else its owner alone may, from the first byte on.
    """
    temporary = file.with_name(f".{os.getpid()}.{file.name}")
    # Left by a process of the same number that was killed.
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.close(os.open(temporary, flags, 0o666 if shared else _FILE_MODE))
        yield temporary
        _sync(temporary)
        temporary.replace(file)
        _sync(file.parent)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def _warn_of(folder: Path) -> None:
    """Say once that others can list a folder."""
    _LOGGER.warning(
        "%s: other accounts of this machine can list this folder. What is written into it is private, the names of its "
        "files are not. To close it: chmod 700",
        printable(str(folder)),
    )


def _made_folder(folder: Path) -> bool:
    """Make a private folder with all parents that it lacks; return whether it was not there."""
    if folder.is_dir():
        return False
    _made_folder(folder.parent)
    if _make(folder):
        return True
    # Another process was faster, or there is a file.
    if not folder.is_dir():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    return False


def _unusable(folder: Path, error: Exception) -> DataError:
    reason = error.strerror if isinstance(error, OSError) else error
    return DataError(
        f"{folder}: cannot be used ({reason}); expected a folder of this user, or a place to make one. Name another "
        "folder."
    )


def _make(folder: Path) -> bool:
    try:
        folder.mkdir(_FOLDER_MODE)
    except FileExistsError:
        return False
    # A umask can only take rights, and might take the owner's.
    folder.chmod(_FOLDER_MODE)
    return True


def _check_links(folder: Path) -> None:
    for part in (folder, *folder.parents):
        status = part.lstat()
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
            raise DataError(
                f"{folder}: {part} is a symbolic link of user {status.st_uid}; expected a folder of this user "
                f"({os.geteuid()}), reached by links of nobody else. Remove the link, or name another folder."
            )


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
    """A folder to work in next to the wanted one, and its lock, which ends with the process."""
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
