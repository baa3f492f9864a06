"""The progress of a long command."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.status import Status

from ...custom.run.time_left import duration
from ..terminal import Terminal

# Seconds between two lines of a state where there is no terminal: a log keeps them all.
_EVERY = 30.0
_BAR_WIDTH = 20


@dataclass(frozen=True)
class ProgressStep:
    """Receives the progress of a work.

    Attributes:
        text: what is being done, or has been done, in words.
        done: how much of it is done, None where it cannot be counted.
        total: of how much.
        stays: whether it is worth keeping, such as a round's score; else the next step takes its place.

    >>> str(ProgressStep("Round 3/8: site-2", 17, 64))
    'Round 3/8: site-2 (17 of 64)'
    """

    text: str
    done: int | None = None
    total: int | None = None
    stays: bool = False

    def __str__(self) -> str:
        return self.text if self.total is None else f"{self.text} ({self.done} of {self.total})"


OnProgress = Callable[[ProgressStep], None]


class Progress:
    """Tells what is being done: in a terminal by one line that changes, elsewhere by a line now and then.

    The line has a bar and the time left where it is known how much there is to do.

    Args:
        console: where progress is printed, by default the standard error.
        clock: gives seconds.
        states_in_log: whether a state is a line now and then where there is no terminal.
    """

    def __init__(
        self,
        console: Terminal | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        states_in_log: bool = True,
    ) -> None:
        self._console = console or Terminal(stderr=True)
        self._clock = clock
        self._states_in_log = states_in_log
        self._status: Status | None = None
        self._reported_at: float | None = None
        self._began = _Beginning(0, 0, 0.0)

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
        self._reported_at = self._clock()

    def state(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Tell what is being done right now; where lines stay only if none was printed for a while.

        Args:
            text: what is being done.
            done: how much of it is done.
            total: of how much.
        """
        if self._status is not None:
            bar = "" if done is None or not total else f"{self._bar(done, total)} "
            self._status.update(self._console.render_str(f"{bar}{text}"))
        elif self._states_in_log and (self._reported_at is None or self._clock() - self._reported_at >= _EVERY):
            self.tell(text)

    def _bar(self, done: int, total: int) -> str:
        """A bar, the share that is done, and the time that is left, by what was done since this work began."""
        now = self._clock()
        if total != self._began.total or done < self._began.done:
            self._began = _Beginning(done, total, now)
        filled = round(_BAR_WIDTH * done / total)
        text = f"{'━' * filled}{'─' * (_BAR_WIDTH - filled)} {100 * done // total:3d} %"
        gained = done - self._began.done
        if gained <= 0:
            return text
        return f"{text}, about {duration((now - self._began.time) / gained * (total - done))} left;"


class Reported(Progress):
    """Hands everything to a function, or to nobody, and prints nothing.

    Args:
        on_progress: is given every step.
    """

    def __init__(self, on_progress: OnProgress | None) -> None:
        super().__init__()
        self._on_progress = on_progress

    def __enter__(self) -> Self:
        return self

    def tell(self, text: str) -> None:
        """Hand on something that is worth keeping."""
        if self._on_progress is not None:
            self._on_progress(ProgressStep(text, stays=True))

    def state(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Hand on what is being done right now."""
        if self._on_progress is not None:
            self._on_progress(ProgressStep(text, done, total))


def progress_of(on_progress: "Progress | OnProgress | None") -> Progress:
    """Return what the work tells its progress to.

    Args:
        on_progress: what a caller gave: a function that is given every step, a command's own, or None for nobody.
    """
    return on_progress if isinstance(on_progress, Progress) else Reported(on_progress)


@dataclass(frozen=True)
class _Beginning:
    """How far a job was when it was first reported."""

    done: int
    total: int
    time: float
