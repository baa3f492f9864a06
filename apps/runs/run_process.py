"""Runs of a command in processes of their own that need not import anything again."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Protocol

from ...custom.data.whole_files import private_file
from .gpus import SharedGpus
from .program import Program
from .run_placer import RunPlacer, RunStoppedError, RunTimeoutError

# How long a command may take to end when it is asked to, in seconds.
_END_TIMEOUT = 5.0
# What a run takes from the rights of new files: all of others'.
_PRIVATE = 0o077


class Commands(RunPlacer):
    """Runs a program in processes of this machine, so many at a time, and ends them together.

    Args:
        program: what is run.
        at_a_time: runs at a time.
        environment: the environment of the runs; None for that of this process at the moment.
        gpus: names of the GPUs that they share; each run sees one of several.
    """

    def __init__(
        self,
        program: Program,
        at_a_time: int = 1,
        *,
        environment: Mapping[str, str] | None = None,
        gpus: Sequence[str] = (),
    ) -> None:
        super().__init__(at_a_time)
        self._program = program
        self._environment = environment
        self._gpus = SharedGpus(gpus)
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._running: set[_Process] = set()

    def run(self, arguments: Sequence[str], log: Path, *, timeout: float) -> int:
        """Run a command and return its exit code; of one that was killed the signal's number with a minus.

        On Linux the process is forked from one that has imported what runs need, which saves each of them some seconds;
        elsewhere it is a new one.

        Args:
            arguments: the command's.
            log: file for what it prints, written again.
            timeout: seconds after which it is killed.

        Raises:
            RunTimeoutError: if it was.
            RunStoppedError: if :meth:`stop` came before.
        """
        with self._gpus.one() as sees:
            process = self._begin(arguments, log, sees)
            try:
                if (code := process.wait(timeout)) is None:
                    process.kill()
                    raise RunTimeoutError(
                        f"{self._program.name} {' '.join(arguments)}: took longer than {timeout:g} s and was stopped."
                    )
                return code
            finally:
                with self._lock:
                    self._running.discard(process)

    def _begin(self, arguments: Sequence[str], log: Path, sees: Mapping[str, str]) -> "_Process":
        refused = RunStoppedError(
            f"{self._program.name} {' '.join(arguments)}: not begun, since all runs were asked to end."
        )
        # The first start takes seconds, for which `stop` does not wait.
        with self._starting:
            if self._stopped:
                raise refused
            environment = os.environ if self._environment is None else self._environment
            process = _begin(self._program, arguments, log, {**environment, **sees})
        with self._lock:
            if not self._stopped:
                self._running.add(process)
                return process
        process.kill()
        raise refused

    def stop(self) -> None:
        """End all that runs, by force what does not end in time, and begin nothing more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        self._end_threads()
        end = time.monotonic() + _END_TIMEOUT
        try:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(max(0.0, end - time.monotonic()))
        finally:
            # Also at once, where a person does not want to wait.
            for process in running:
                if process.wait(0.0) is None:
                    process.kill()


class _Process(Protocol):
    def wait(self, timeout: float) -> int | None:
        """The exit code, None if there is none in time."""

    def terminate(self) -> None:
        """Tell it to end."""

    def kill(self) -> None:
        """End it by force."""


class _Forked:
    def __init__(
        self,
        context: ForkServerContext,
        program: Program,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        what_it_gets = (program.entry, list(arguments), str(log), dict(environment), str(Path.cwd()))
        self._process = context.Process(target=_run_forked, args=what_it_gets, daemon=True)
        with _without_callers_script():
            self._process.start()

    def wait(self, timeout: float) -> int | None:
        wait([self._process.sentinel], timeout)
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


class _New:
    def __init__(self, program: Program, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", program.module, *arguments]
        with private_file(log).open("w", encoding="utf-8") as stream:
            self._process = subprocess.Popen(
                command, stdout=stream, stderr=subprocess.STDOUT, umask=_PRIVATE, env=dict(environment)
            )

    def wait(self, timeout: float) -> int | None:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _begin(program: Program, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> _Process:
    context = _fork_server(program.preloaded)
    if context is None:
        return _New(program, arguments, log, environment)
    return _Forked(context, program, arguments, log, environment)


@cache
def _fork_server(preloaded: str) -> ForkServerContext | None:
    """What processes are forked from; the first program of a process decides what it has imported."""
    if sys.platform != "linux":
        return None
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preloaded])
    resource_tracker.ensure_running()
    with _blocked(signal.SIGINT):
        forkserver.ensure_running()
    return context


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Keep a signal from processes that are begun in the block, and from those that they begin.

    A terminal sends SIGINT to all processes of a command. The first one ends its runs itself; theirs would be
    tracebacks between its lines.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_callers_script() -> Iterator[None]:
    """Keep the script that called from being run again in a process that is started in the block.

    Python would do so for what the script defines, of which a run needs nothing, and a script without a guard would
    start everything once more.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _run_forked(
    entry: Callable[[Sequence[str]], None], arguments: list[str], log: str, environment: Mapping[str, str], folder: str
) -> None:
    """In the new process: what the caller's process has, then the command; nothing if the caller has ended."""
    parent = multiprocessing.parent_process()
    if parent is None or not parent.is_alive():
        return
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # Whatever others write in this process, NVFlare and TensorBoard among them.
    os.umask(_PRIVATE)
    descriptor = os.open(private_file(Path(log)), os.O_WRONLY | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    _end_with(parent)
    entry(arguments)


def _end_with(parent: BaseProcess) -> None:
    """Let this process end when the one that asked for it does, even if that was killed."""

    def end() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
