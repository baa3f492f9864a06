"""What a long command is doing, told while it does it."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.status import Status

from ..terminal import Terminal

# Seconds between two lines of a state where there is no terminal: a log keeps them all.
_EVERY = 30.0


class Progress:
    """Tells what is being done: in a terminal by one line that changes, elsewhere by a line now and then.

    Args:
        console: where it is told, by default the standard error.
        clock: gives seconds.
    """

    def __init__(self, console: Terminal | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Terminal(stderr=True)
        self._clock = clock
        self._status: Status | None = None
        self._told_at: float | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def tell(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(text, soft_wrap=True)
        self._told_at = self._clock()

    def state(self, text: str) -> None:
        """Tell what is being done right now; where lines stay only if none was printed for a while."""
        if self._status is not None:
            self._status.update(self._console.render_str(text))
        elif self._told_at is None or self._clock() - self._told_at >= _EVERY:
            self.tell(text)
