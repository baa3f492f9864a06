"""A run that holds a lock of its own, for places where the process that asked for it may end before it or on another
machine: `fedannot simulate …`, which goes on where its output folder has a run already.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from ...custom.data.file_locks import LockAnswer, lock_attempt
from ...custom.data.whole_files import private_folder
from ..commands.simulation import SIMULATION, run_simulation
from ..plain_lines import say_error
from .program import Program

_RESUME = "--resume"
# A run whose worker has died ends within seconds; one on a machine that is cut off keeps its lock.
_LOCK_SECONDS = 60.0


def worker_lock(folder: Path) -> Path:
    """Return the lock that a run holds itself, next to its output folder."""
    return folder.parent / f".{folder.name}.worker.lock"


def with_resume(arguments: Sequence[str], folder: Path) -> list[str]:
    """Return the arguments of a run that goes on where its output folder has anything already."""
    has_begun = folder.is_dir() and any(folder.iterdir())
    return [*arguments, _RESUME] if has_begun and _RESUME not in arguments else list(arguments)


def run_locked(arguments: Sequence[str]) -> None:
    """Run `fedannot simulate …` with its lock held, and end this process.

    Args:
        arguments: what follows `fedannot`, with ``--out``.

    Raises:
        SystemExit: with the command's exit code; 1 if another process works on the run, or the disk has no locks.
    """
    folder = Path(arguments[list(arguments).index("--out") + 1])
    lock = worker_lock(private_folder(folder.parent) / folder.name)
    with lock_attempt(lock, _LOCK_SECONDS) as answer:
        if answer is not LockAnswer.HELD:
            taken = f"another process works on the run for more than {_LOCK_SECONDS:.0f} s; expected it to have ended"
            reason = taken if answer is LockAnswer.TAKEN else "the disk has no locks; expected one that shares them"
            say_error(f"Error: {lock}: {reason}.")
            raise SystemExit(1)
        try:
            run_simulation(with_resume(arguments, folder))
        finally:
            lock.unlink(missing_ok=True)


LOCKED_SIMULATION = Program(SIMULATION.name, __name__, run_locked, SIMULATION.preloaded)

if __name__ == "__main__":
    run_locked(sys.argv[1:])
