"""How far a run is, while it goes on: the round, who has answered, the score, the time left."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from ...transforms.natural_order import natural_order
from ..evaluation.scoring import Scoring
from ..records.round_records import Record, RoundRecord, Stage
from ..refusals import RefusalReason
from ..settings import RunSettings
from .time_left import latest_round_seconds, time_left
from .transport import Link, Reply, Request
from .versions import installed_versions

# In the server's run folder, and the name under which NVFlare's statistics of a running job have it.
PROGRESS_FILE = "fedannot_progress.json"


class Phase(StrEnum):
    """What the server's process of a run is doing, or how it ended."""

    STARTING = "starting"
    WAITING = "waiting"
    COMPUTING = "computing"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        """Whether nothing comes after it."""
        return self in (Phase.FINISHED, Phase.STOPPED, Phase.FAILED)


class Failure(StrEnum):
    """Why a run ended itself; the server's log has the text, which may name files."""

    TOO_FEW_RESULTS = "too few results"
    STATE = "state"
    DATA = "data"
    SETTINGS = "settings"
    ERROR = "error"


class OpenRequest(Record):
    """What sites are, or were last, asked for.

    Attributes:
        task: by its own name.
        sites: who is asked.
        answered: whose usable answer is there.
        since: when it was sent, in seconds since 1970 by the server's clock.
    """

    task: str
    sites: tuple[str, ...]
    answered: tuple[str, ...] = ()
    since: float


class RunProgress(Record):
    """How far a run is. It holds what the run's summary will hold, and nothing of a site's files.

    Attributes:
        version: of the record's form; in version 1 reasons are texts.
        fedannot: version at the server.
        method: how is learnt.
        phase: what the server does.
        failure: why the run ended itself; None where it did not.
        rounds: of the run.
        round_number: the round at hand, 0 before the first.
        finished_rounds: number of the last finished round.
        stage: of the method in the last finished round; None before one is finished.
        score: of the model after the last round that was scored, a share; None where none was.
        score_label: how that score is called.
        min_sites: usable results without which a round does not count.
        grace_period: seconds that the others have once so many have answered; None for `task_timeout`.
        task_timeout: seconds that a site has for what it is asked.
        request: what sites are asked for; None before anything was.
        refused: whose answer does not count in the round at hand, or in the last one, and why.
        absent: sites that the job names and that were not there when it started.
        round_seconds: that the latest rounds took, the median; None before one is finished.
        seconds_left: for the rounds that are left; None before one is finished.
        written: when this was put together, in seconds since 1970 by the server's clock.
    """

    version: Literal[1, 2] = 2
    fedannot: str
    method: str
    phase: Phase = Phase.STARTING
    failure: Failure | None = None
    rounds: int
    round_number: int = 0
    finished_rounds: int = 0
    stage: Stage | None = None
    score: float | None = None
    score_label: str
    min_sites: int
    grace_period: float | None
    task_timeout: float
    request: OpenRequest | None = None
    refused: dict[str, RefusalReason] = Field(default_factory=dict)
    absent: tuple[str, ...] = ()
    round_seconds: float | None = None
    seconds_left: float | None = None
    written: float

    @property
    def missing(self) -> tuple[str, ...]:
        """Sites that are asked and have neither answered nor been refused."""
        if self.request is None or self.phase is not Phase.WAITING:
            return ()
        done = {*self.request.answered, *self.refused}
        return tuple(site for site in self.request.sites if site not in done)


class ProgressTracker:
    """Keeps the progress of a run up to date; sites answer from several threads.

    Args:
        settings: the job's settings.
        clock: gives seconds since 1970.

    Attributes:
        keep: is given the progress whenever the run has come to another step; None for nobody.
    """

    def __init__(self, settings: RunSettings, clock: Callable[[], float] = time.time) -> None:
        self.keep: Callable[[RunProgress], None] | None = None
        self._clock = clock
        self._lock = threading.Lock()
        # In the order in which they came, each site once.
        self._answered: dict[str, None] = {}
        self._progress = RunProgress(
            fedannot=installed_versions()["fedannot"],
            method=settings.method,
            rounds=settings.rounds,
            score_label=Scoring.of(settings.task).label,
            min_sites=settings.min_sites,
            grace_period=settings.grace_period,
            task_timeout=settings.task_timeout,
            written=clock(),
        )

    @property
    def current(self) -> RunProgress:
        """The progress now."""
        with self._lock:
            self._note_answers()
            return self._progress.model_copy(update={"written": self._clock()})

    def begin_round(self, number: int, history: Sequence[RoundRecord], absent: Collection[str] = ()) -> None:
        """Note that a round begins.

        Args:
            number: of the round.
            history: records of the rounds before it.
            absent: sites that the job names and that were not there when it started.
        """
        self._change(
            phase=Phase.COMPUTING, round_number=number, refused={}, absent=tuple(absent), **self._of_rounds(history)
        )

    def ask(self, task: str, sites: Collection[str]) -> None:
        """Note that sites are asked."""
        request = OpenRequest(task=task, sites=tuple(sites), since=self._clock())
        with self._lock:
            self._answered = {}
            self._set(phase=Phase.WAITING, request=request)

    def answer(self, site: str) -> None:
        """Note a usable answer to what is asked; nothing is kept, since there are many."""
        with self._lock:
            self._answered[site] = None

    def refuse(self, site: str, reason: RefusalReason) -> None:
        """Note that a site's answer does not count in this round; the first reason stays."""
        with self._lock:
            refused = {site: reason} | self._progress.refused
            self._progress = self._progress.model_copy(update={"refused": refused})

    def compute(self) -> None:
        """Note that the server goes on with what the sites have sent."""
        with self._lock:
            self._progress = self._progress.model_copy(update={"phase": Phase.COMPUTING})

    def finish_round(self, history: Sequence[RoundRecord]) -> None:
        """Note that a round is finished, whose state is on the disk."""
        self._change(**self._of_rounds(history))

    def end(self, phase: Phase, failure: Failure | None = None) -> None:
        """Note how the run ended."""
        self._change(phase=phase, failure=failure)

    def _of_rounds(self, history: Sequence[RoundRecord]) -> dict[str, Any]:
        if not history:
            return {}
        scores = [record.main_score for record in history if record.main_score is not None]
        seconds, last = [record.seconds for record in history], history[-1]
        return {
            "finished_rounds": last.round,
            "stage": last.stage,
            "score": scores[-1] if scores else None,
            "round_seconds": latest_round_seconds(seconds),
            "seconds_left": time_left(seconds, self._progress.rounds - last.round),
        }

    def _note_answers(self) -> None:
        """Put the answers that have come into the progress, which is looked at less often than answers come."""
        request = self._progress.request
        if request is not None and len(request.answered) < len(self._answered):
            answered = request.model_copy(update={"answered": tuple(self._answered)})
            self._progress = self._progress.model_copy(update={"request": answered})

    def _change(self, **values: Any) -> None:
        with self._lock:
            self._note_answers()
            self._set(**values)

    def _set(self, **values: Any) -> None:
        self._progress = self._progress.model_copy(update=values | {"written": self._clock()})
        if self.keep is not None:
            self.keep(self._progress)


def give_noted(
    link: Link,
    request: Request,
    receive: Callable[[Reply], bool],
    refuse: Callable[[str, RefusalReason], None],
    progress: ProgressTracker,
) -> None:
    """Send a request by a link, and note in the progress who is asked and whose answers can be used.

    Args:
        link: see :meth:`Link.give`, which says what the next three are.
        request: as above.
        receive: as above.
        refuse: as above; it notes refusals itself.
        progress: of the run.
    """

    def receive_and_note(reply: Reply) -> bool:
        is_usable = receive(reply)
        if is_usable:
            progress.answer(reply.site)
        return is_usable

    asked = None if request.sites is None else set(request.sites)
    # Of ten thousand sites a hundred may be asked, and only they are ordered.
    there = [site for site in link.sites() if asked is None or site in asked]
    progress.ask(request.task, sorted(there, key=natural_order))
    link.give(request, receive_and_note, refuse)
    progress.compute()
