"""Runs of a comparison that Ray places: on which machine, how many at a time, and again where a worker has died."""

import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...custom.data.file_locks import LockAnswer, lock_attempt
from ...custom.data.whole_files import private_file
from ...custom.run.threads import THREADS_VARIABLE, number_of_threads
from .job import JobError
from .ray_cluster import connected
from .ray_engine import RETRIES, RayEngine, RunBudget, run_budget, runs_at_a_time
from .ray_worker import RunKilledError, RunOrder, digest_of_contents, installed_versions, run_on_worker
from .run_placer import PlacementError, RunPlacer, RunStoppedError, RunTimeoutError

# Each has a thread that waits, and holds the run's lock.
_MOST_AT_A_TIME = 256
# A run has 5 s to end when it is asked to.
_SECONDS_TO_END = 10.0
_SECONDS_TO_DIE = 5.0
_LONGEST_REASON = 300


@dataclass(frozen=True)
class RayPlaces:
    """What Ray has for the runs.

    Attributes:
        placer: makes the runs.
        budget: of each run.
        at_a_time: how many fit now.
    """

    placer: RunPlacer
    budget: RunBudget
    at_a_time: int


@contextmanager
def ray_places(engine: RayEngine, out: Path, threads: int, at_a_time: int | None) -> Iterator[RayPlaces]:
    """Connect to Ray, and give what makes runs there; none of them outlives the block.

    Args:
        engine: what is asked of Ray.
        out: the comparison's output folder.
        threads: of a run.
        at_a_time: the most runs at a time; None for as many as fit.

    Raises:
        JobError: if Ray cannot be used, no machine has what a run needs, or the output folder's disk has no locks.
    """
    with _probe(out) as probe, connected(engine.address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        budget = run_budget(engine, threads, nodes)
        fitting = runs_at_a_time(budget, nodes)
        # More machines may join: what does not fit waits at Ray.
        placer = RayRuns(ray, budget, probe, at_a_time or _MOST_AT_A_TIME)
        try:
            yield RayPlaces(placer, budget, min(fitting, at_a_time or fitting))
        finally:
            placer.stop()


@contextmanager
def _probe(out: Path) -> Iterator[Path]:
    """A file by which workers know the output folder; this process holds its lock."""
    file = out / f".ray-{secrets.token_hex(8)}.lock"
    with lock_attempt(file) as answer:
        if answer is not LockAnswer.HELD:
            raise JobError(
                f"{out}: the disk has no locks, by which Ray's workers would know who writes a run. Expected one that "
                "shares its locks, as NFS 4; or divide the runs by --only."
            )
        try:
            private_file(file).write_text(secrets.token_hex(16), encoding="ascii")
            yield file
        finally:
            file.unlink(missing_ok=True)


class RayRuns(RunPlacer):
    """Hands runs to Ray, which waits for a machine with what they need.

    Args:
        ray: the module, connected.
        budget: what each run gets.
        probe: a file that this process has locked.
        at_a_time: the most runs at a time.
    """

    def __init__(self, ray: Any, budget: RunBudget, probe: Path, at_a_time: int) -> None:
        super().__init__(at_a_time)
        self._ray = ray
        self._budget = budget
        self._probe, self._probe_text = probe.resolve(), probe.read_text(encoding="ascii")
        self._lock = threading.Lock()
        self._running: set[Any] = set()
        self._digests: dict[str, str] = {}
        # Of a run whose job is wrong the exit code tells, and no exception: it is not begun again.
        self._task = ray.remote(
            num_cpus=budget.cpus,
            num_gpus=budget.gpus,
            # A worker ends with its run, and clears up behind itself.
            max_calls=1,
            max_retries=RETRIES,
            retry_exceptions=[RunKilledError],
            name="fedannot run",
        )(run_on_worker)

    def run(self, arguments: Sequence[str], log: Path, *, timeout: float) -> int:
        """Let a worker run a command; see :meth:`.RunPlacer.run`."""
        running = self._begin(self.order(arguments, log, timeout))
        try:
            return int(self._ray.get(running))
        except self._ray.exceptions.TaskCancelledError:
            raise RunStoppedError("ended, since all runs were asked to end.") from None
        except (self._ray.exceptions.RayError, RuntimeError, OSError) as error:
            if self._stopped:
                raise RunStoppedError("ended, since all runs were asked to end.") from error
            raise _reason(error) from error
        finally:
            with self._lock:
                self._running.discard(running)

    def order(self, arguments: Sequence[str], log: Path, timeout: float) -> RunOrder:
        """Return all that is sent for a run."""
        return RunOrder(
            arguments=tuple(arguments),
            log=str(log),
            working_folder=str(Path.cwd()),
            probe=str(self._probe),
            probe_text=self._probe_text,
            inputs={path: self._digest(path) for path in _inputs(arguments)},
            versions=installed_versions(),
            variables={
                THREADS_VARIABLE: os.environ.get(THREADS_VARIABLE),
                "OMP_NUM_THREADS": str(_default_threads()),
            },
            sees_gpus=self._budget.gpus > 0,
            timeout=timeout,
        )

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = digest_of_contents(Path(path))
        return self._digests[path]

    def _begin(self, order: RunOrder) -> Any:
        with self._lock:
            if self._stopped:
                raise RunStoppedError("not begun, since all runs were asked to end.")
            running = self._task.remote(order)
            self._running.add(running)
            return running

    def stop(self) -> None:
        """End all runs, by force what does not end in time, and begin nothing more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        self._end_threads()
        if not running or not self._ray.is_initialized():
            return
        left = running
        try:
            for task in running:
                self._ray.cancel(task)
            _, left = self._ray.wait(running, num_returns=len(running), timeout=_SECONDS_TO_END)
        finally:
            # Also at once, where a person does not want to wait.
            for task in left:
                self._ray.cancel(task, force=True)
            if left:
                self._ray.wait(left, num_returns=len(left), timeout=_SECONDS_TO_DIE)


def _inputs(arguments: Sequence[str]) -> list[str]:
    """The job, the data and the set of settings of a run, as far as they are files or folders."""
    pairs = dict(pairwise(arguments))
    named = [arguments[1], pairs.get("--data"), pairs.get("--settings")]
    return [path for path in named if path is not None and Path(path).exists()]


def _default_threads() -> int:
    """How many threads PyTorch starts with here, where neither a job nor a person says it."""
    return number_of_threads(0)


def _reason(error: BaseException) -> Exception:
    """What a person can use of an error of Ray, or of a worker."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, RunTimeoutError | PlacementError):
        return type(cause)(str(cause))
    if isinstance(cause, RunKilledError):
        return PlacementError(f"{cause} It was begun {RETRIES + 1} times; call the command again to go on.")
    text = " ".join(str(cause).split())[:_LONGEST_REASON]
    return PlacementError(
        f"Ray could not make the run: {type(cause).__name__}: {text} Expected workers that answer and have the same "
        "fedannot installed, in the Python that Ray was started with."
    )
