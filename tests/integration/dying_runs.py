"""Runs that kill themselves without warning at a named point, each in a process of its own."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from fedannot.apps.reports import output
from fedannot.apps.runs import simulate
from fedannot.apps.runs.program import Program
from fedannot.apps.runs.run_process import Commands
from fedannot.custom.run.state import RunState

TIMEOUT_SECONDS = 120


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _save_and_die_after(last: int) -> Callable[..., None]:
    save = RunState.save

    def saved(state: RunState, *arguments: Any) -> None:
        save(state, *arguments)
        if state.round_number == last:
            _die()

    return saved


_collect = simulate.collect_output


def _collect_and_die(*arguments: Any) -> None:
    _collect(*arguments)
    _die()


# Where a run is killed: what is put in place of what, in a process that ends itself there.
POINTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "before the data": (simulate, "write_embedded_federation", _die),
    "before the job is copied": (simulate, "copy_job", _die),
    "before the first round": (simulate, "run_in_process", _die),
    "in the first round": (RunState, "save", _die),
    "after the first round": (RunState, "save", _save_and_die_after(1)),
    "after the last round, before its model is written": (RunState, "save", _save_and_die_after(2)),
    "before collecting": (simulate, "collect_output", _die),
    "while collecting": (output, "write_summary", _die),
    "after collecting": (simulate, "collect_output", _collect_and_die),
}


def run_and_die(arguments: Sequence[str]) -> None:
    """Do what a process of its own does: point, job, output folder, and whether the run goes on."""
    point, job, out, how = arguments
    where, name, instead = POINTS[point]
    setattr(where, name, instead)
    simulate.simulate(Path(job), Path(out), resume=how == "resume")


# Forked from the process that all runs are forked from: importing what a run needs would take most of each run's time.
_DYING = Program("a dying run", "dying_runs", run_and_die, "fedannot.apps.commands.preloaded")


def killed(point: str, job: Path, out: Path, *, resume: bool = False) -> None:
    """Let a run be killed at a point."""
    log = out.with_name("killed.log")
    # Where no process can be forked, a new one finds this module in its folder.
    with chdir(Path(__file__).parent):
        how = "resume" if resume else "begin"
        code = Commands(_DYING).run([point, str(job), str(out), how], log, timeout=TIMEOUT_SECONDS)
    assert code == -signal.SIGKILL, log.read_text(encoding="utf-8")


if __name__ == "__main__":
    run_and_die(sys.argv[1:])
