"""A lock that one process or thread holds at a time, in a file; it ends with the process that has it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger

_LOGGER = printable_logger(__name__)

_LONGEST_WAIT = 3600.0
_SECONDS_BETWEEN_TRIES = 0.05
_SECONDS_TO_ASK = 0.2


class LockAnswer(Enum):
    """What came of an attempt to hold a lock."""

    HELD = "held"
    TAKEN = "taken"
    NO_LOCKS = "no locks"


@contextmanager
def locked(file: Path, work: str = "prepared data", folder: Path | None = None) -> Iterator[None]:
    """Wait until no other process or thread holds the lock, and hold it in the block.

    Args:
        file: the lock; its folder exists.
        work: what its holder does, for the error.
        folder: where it does so; None for the folder above that of the lock.

    Raises:
        DataError: if another one holds it for more than an hour.
    """
    descriptor = _wait(file, work, folder or file.parent.parent)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def locked_if_free(file: Path) -> Iterator[bool]:
    """Hold a lock in the block if nobody has it, and say whether; never on a disk without locks."""
    with lock_attempt(file) as answer:
        yield answer is LockAnswer.HELD


@contextmanager
def lock_attempt(file: Path, seconds: float = 0.0) -> Iterator[LockAnswer]:
    """Hold a lock in the block if nobody has it, and say so, or whether another one has it or the disk has no locks.

    A lock ends with the process that holds it, so that none outlives a process that was killed. Across machines it
    holds on disks that share their locks, as NFS 4 does.

    Args:
        file: the lock; its folder exists.
        seconds: how long to try. :func:`is_taken` holds a lock for an instant.
    """
    end = time.monotonic() + seconds
    try:
        while (descriptor := _try(file)) is None and time.monotonic() < end:
            time.sleep(_SECONDS_BETWEEN_TRIES)
    except _NoLocksError:
        yield LockAnswer.NO_LOCKS
        return
    try:
        yield LockAnswer.TAKEN if descriptor is None else LockAnswer.HELD
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_taken(file: Path) -> bool:
    """Return whether another process or thread holds a lock now; False where there is no such file."""
    if not file.exists():
        return False
    # Another process that asks the same holds it for an instant.
    with lock_attempt(file, _SECONDS_TO_ASK) as answer:
        return answer is LockAnswer.TAKEN


class _NoLocksError(Exception):
    """The disk has no locks."""


def _wait(file: Path, work: str, folder: Path) -> int | None:
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
                f"{folder}: another process has {work} there for more than {_LONGEST_WAIT:.0f} seconds; expected it to "
                "finish. End it, or choose another folder."
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
