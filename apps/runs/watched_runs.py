"""How far the runs of a comparison are, by what each, a process of its own, has written."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...custom.run.reading import METRICS_FILE
from ...custom.run.state import SUMMARY_FILE
from ...custom.run.time_left import duration
from ..reports.output import percent, read_summary, scoring_of
from .arm_run import is_run_elsewhere
from .participants import JOB_ID
from .progress import Progress
from .resuming import RUN_FOLDER

# Seconds between two looks.
_LOOK_EVERY = 1.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class WatchedRun:
    """A run of a comparison.

    Attributes:
        name: what it is called.
        folder: its output folder.
        rounds: how many it has.
    """

    name: str
    folder: Path
    rounds: int

    @property
    def is_finished(self) -> bool:
        """Whether everything of it was collected."""
        return (self.folder / SUMMARY_FILE).is_file()

    @property
    def rounds_done(self) -> int:
        """How many rounds are finished."""
        if self.is_finished:
            return self.rounds
        try:
            text = (self.folder / RUN_FOLDER / "server" / JOB_ID / METRICS_FILE).read_bytes()
        except OSError:
            return 0
        return min(text.count(b"\n"), self.rounds)


class RunsProgress:
    """Tells how far all runs are together.

    Args:
        runs: all runs of the comparison, those that are finished already among them.
        progress: where progress is printed.
        clock: gives seconds.
    """

    def __init__(
        self, runs: Sequence[WatchedRun], progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runs = runs
        self._progress = progress
        self._clock = clock
        self._started = clock()
        self._rounds = sum(run.rounds for run in runs)
        self._done_before = sum(run.rounds_done for run in runs)

    def begin(self, at_a_time: int) -> None:
        """Tell what is to be done."""
        finished = sum(run.is_finished for run in self._runs)
        earlier = f" ({finished} finished before)" if finished else ""
        self._progress.tell(f"{len(self._runs)} runs{earlier}, {at_a_time} at a time.")

    def say(self, text: str) -> None:
        """Tell something that is worth keeping."""
        self._progress.tell(text)

    def wait(self, results: Mapping[Future[Result], WatchedRun]) -> list[Result]:
        """Return the results of runs when all are over, and tell meanwhile how far they are."""
        pending = set(results)
        finished = {result for result, run in results.items() if run.is_finished}
        while pending:
            self._progress.state(self.describe(), sum(run.rounds_done for run in self._runs), self._rounds)
            over, pending = wait(pending, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
            for result in over - finished:
                self._tell_end(results[result])
        return [result.result() for result in results]

    def describe(self) -> str:
        """Say how many rounds are done, how far the runs are that have begun, and how long the rest takes."""
        done, rounds = [run.rounds_done for run in self._runs], [run.rounds for run in self._runs]
        text = f"{sum(done)} of {sum(rounds)} rounds"
        if gained := sum(done) - self._done_before:
            left = (self._clock() - self._started) / gained * (sum(rounds) - sum(done))
            text += f", about {duration(left)} left"
        begun = [
            f"{run.name} {number}/{run.rounds}"
            for run, number in zip(self._runs, done, strict=True)
            if 0 < number < run.rounds
        ]
        return f"{text} ({'; '.join(begun)})" if begun else text

    def _tell_end(self, run: WatchedRun) -> None:
        if not run.is_finished:
            is_left = is_run_elsewhere(run.folder)
            self._progress.tell(f"{run.name}: {'left to the process that works on it' if is_left else 'failed'}")
            return
        summary = read_summary(run.folder)
        score = f"{scoring_of(summary).label} {percent(summary.main_score)} %"
        finished = sum(other.is_finished for other in self._runs)
        self._progress.tell(f"{run.name}: {score} in {duration(summary.seconds)}; {finished} of {len(self._runs)} runs")
