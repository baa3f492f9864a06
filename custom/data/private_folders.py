"""Folders and files on this machine that one user owns and nobody else can open."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ...transforms.errors import DataError

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_RIGHTS, _OTHERS, _OTHERS_WRITE = 0o777, 0o077, 0o022


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


def make_private_part(folder: Path) -> None:
    """Make a folder in a private one, or check that what has its name is a folder of this user and no link.

    Raises:
        DataError: if it is something else.
    """
    if _make(folder):
        return
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise DataError(f"{folder}: found no folder of this user; expected one. Remove it.")


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
