"""A lock that one process or thread holds at a time, in a file; it ends with the process that has it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger

_LOGGER = printable_logger(__name__)

_LONGEST_WAIT = 3600.0
_SECONDS_BETWEEN_TRIES = 0.05


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Wait until no other process or thread holds the lock, and hold it in the block.

    Raises:
        DataError: if another one holds it for more than an hour.
    """
    descriptor = _wait(file)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def locked_if_free(file: Path) -> Iterator[bool]:
    """Hold a lock in the block if nobody has it, and say whether; never on a disk without locks."""
    try:
        descriptor = _try(file)
    except _NoLocksError:
        descriptor = None
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


class _NoLocksError(Exception):
    """The disk has no locks."""


def _wait(file: Path) -> int | None:
    """The descriptor of the held lock; None on a disk without locks."""
    end = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            descriptor = _try(file)
        except _NoLocksError as error:
            # Some network disks have none. Processes of one participant rarely prepare the same cases at a time.
            _LOGGER.warning("%s: the disk has no locks (%s); no other process may use the folder now.", file, error)
            return None
        if descriptor is not None:
            return descriptor
        if time.monotonic() > end:
            raise DataError(
                f"{file.parent.parent}: another process has prepared data there for more than {_LONGEST_WAIT:.0f} "
                "seconds; expected it to finish. End it, or choose another folder."
            )
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _try(file: Path) -> int | None:
    """Open and lock a file, None if another one has it; of a file that was removed meanwhile the lock is no use."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == file.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(descriptor)
        raise _NoLocksError(str(error)) from error
    os.close(descriptor)
    return None
