"""The log of an in-process run: everything in a file, and on the console what a person waits for."""

import copy
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...custom.data.whole_files import private_file
from ...custom.flare.console import ProgressFilter
from ...custom.flare.executor import FederatedExecutor
from ...transforms.printable import printable, printable_lines
from .interruption import received_signal
from .progress import Progress

LOG_FILE = "log.txt"
_SITE_LOGGER = f"{FederatedExecutor.__module__}.{FederatedExecutor.__name__}"

# NVFlare puts the participant and the run in front of a message.
_PREFIX = re.compile(r"^\[identity=(?P<identity>[^,\]]+)[^\]]*\]: ")
# NVFlare's components log a traceback as a message of its own.
_TRACEBACK = "Traceback (most recent call last):\n"


class _ForFiles(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # A message, whatever names it holds, cannot pass for a line of its own; of a traceback lines are indented.
        own = copy.copy(record)
        message = record.getMessage()
        own.msg, own.args = message.rstrip() if message.startswith(_TRACEBACK) else printable(message), None
        return printable_lines(super().format(own))


class _ForPeople(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = printable(_PREFIX.sub(lambda match: f"{match['identity']}: ", record.getMessage()))
        return f"{record.levelname.lower()}: {text}" if record.levelno >= logging.WARNING else text


class _ToProgress(logging.Handler):
    """Hands what a person waits for to what tells it."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress
        self.setFormatter(_ForPeople())
        self.addFilter(ProgressFilter())

    def emit(self, record: logging.LogRecord) -> None:
        # Errors after a signal to end are its consequences; the file has them.
        if received_signal() is not None and record.levelno >= logging.WARNING:
            return
        # A site's error is told with its refusal; the file has the rest of the traceback.
        is_traceback = record.getMessage().startswith(_TRACEBACK)
        if is_traceback and record.name == _SITE_LOGGER:
            return
        if is_traceback:
            for line in printable_lines(record.getMessage().rstrip()).split("\n"):
                self._progress.tell(line)
        else:
            self._progress.tell(self.format(record))


@contextmanager
def run_log(folder: Path, progress: Progress) -> Iterator[None]:
    """Log everything to a file in the folder, and tell rounds and warnings, while the block runs."""
    root = logging.getLogger()
    file = logging.FileHandler(private_file(folder / LOG_FILE))
    file.setFormatter(_ForFiles("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    console = _ToProgress(progress)
    level = root.level
    root.setLevel(logging.INFO)
    for handler in (file, console):
        root.addHandler(handler)
    try:
        yield
    finally:
        root.setLevel(level)
        for handler in (file, console):
            root.removeHandler(handler)
            handler.close()
