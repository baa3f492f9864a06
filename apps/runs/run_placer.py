"""What runs of a comparison are handed to: it starts so many at a time, and ends them together."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")


class RunTimeoutError(RuntimeError):
    """A run took longer than it may."""


class RunStoppedError(RuntimeError):
    """A run was not begun, or was ended, since all were asked to end."""


class PlacementError(RuntimeError):
    """A run could not be made where it was placed: no fault of the run."""


class RunPlacer(ABC):
    """Makes runs of a command, each in a process of its own.

    Args:
        at_a_time: threads that wait for runs. Nobody waits for the threads: one that is starting a process cannot be
            known to stop.
    """

    def __init__(self, at_a_time: int) -> None:
        self._stopped = False
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._at_a_time = at_a_time
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def run(self, arguments: Sequence[str], log: Path, *, timeout: float) -> int:
        """Run a command and return its exit code; of one that was killed the signal's number with a minus.

        Args:
            arguments: the command's.
            log: file for what it prints, written again.
            timeout: seconds after which it is killed.

        Raises:
            RunTimeoutError: if it was.
            RunStoppedError: if :meth:`stop` came before.
            PlacementError: if the place of the run failed, and not the run.
        """

    @abstractmethod
    def stop(self) -> None:
        """End all that runs, by force what does not end in time, and begin nothing more."""

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """Let a thread do some work, which may :meth:`run` commands, when one is free."""
        result: Future[Result] = Future()

        def do() -> None:
            if not result.set_running_or_notify_cancel():
                return
            try:
                result.set_result(work())
            except BaseException as error:
                result.set_exception(error)

        self._waiting.put(do)
        if len(self._threads) < self._at_a_time:
            self._threads.append(threading.Thread(target=self._work, daemon=True))
            self._threads[-1].start()
        return result

    def _work(self) -> None:
        while not self._stopped:
            self._waiting.get()()

    def _end_threads(self) -> None:
        """Let threads end that wait for work; :attr:`_stopped` is set before."""
        for _ in self._threads:
            self._waiting.put(lambda: None)
