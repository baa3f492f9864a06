"""Opening regular files alone: a pipe lets its reader wait for a writer, and a device may have no end."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

NO_REGULAR_FILE = "no regular file"


def open_regular_file(file: Path | str) -> BufferedReader:
    """Open a file to read; a folder, pipe or device is refused at once.

    Raises:
        OSError: if it cannot be opened, or is no regular file.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, NO_REGULAR_FILE, str(file))
    return os.fdopen(descriptor, "rb")
