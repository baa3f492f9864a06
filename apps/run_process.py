"""Runs of the `fedannot` command in processes of their own that need not import anything anew."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

# What a run imports; see preloaded_runs.
_PRELOADED = "fedannot.apps.preloaded_runs"


class RunTimeoutError(RuntimeError):
    """A run took longer than it may."""


def run_command(arguments: Sequence[str], log: Path, *, timeout: float) -> int:
    """Run ``fedannot ARGUMENTS`` in a process of its own and return its exit code.

    On Linux the process is forked from one that has imported what runs need, which saves each of them some seconds;
    elsewhere it is a new one.

    Args:
        arguments: the command's.
        log: file for what it prints, written anew.
        timeout: seconds after which it is killed.

    Raises:
        RunTimeoutError: if it was.
    """
    context = _fork_server()
    if context is None:
        return _run_anew(arguments, log, timeout)
    what_it_gets = (list(arguments), str(log), dict(os.environ), str(Path.cwd()))
    process = context.Process(target=_run_forked, args=what_it_gets, daemon=True)
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        raise RunTimeoutError(_timeout_text(arguments, timeout))
    # Of a process that was killed it is the signal's number with a minus.
    return process.exitcode or 0


@cache
def _fork_server() -> ForkServerContext | None:
    if sys.platform != "linux":
        return None
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    return context


def _run_forked(arguments: list[str], log: str, environment: Mapping[str, str], folder: str) -> None:
    """In the new process: what the caller's process has, then the command."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    from .cli import app

    app(arguments, prog_name="fedannot")


def _run_anew(arguments: Sequence[str], log: Path, timeout: float) -> int:
    command = [sys.executable, "-m", "fedannot.apps", *arguments]
    with log.open("w", encoding="utf-8") as stream:
        try:
            return subprocess.run(
                command, stdout=stream, stderr=subprocess.STDOUT, timeout=timeout, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            raise RunTimeoutError(_timeout_text(arguments, timeout)) from None


def _timeout_text(arguments: Sequence[str], timeout: float) -> str:
    return f"fedannot {' '.join(arguments)}: took longer than {timeout:g} s and was stopped."
