"""One run of a comparison, in a process of its own, which no other process runs at the same time."""

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from ...custom.data.file_locks import LockAnswer, is_taken, lock_attempt
from ...custom.data.whole_files import private_folder, replaced
from ...custom.run.state import STATE_FILE, SUMMARY_FILE, kept_state_file
from ..reports.comparison_page import run_folder
from .arms import PlannedArm
from .locked_run import with_resume, worker_lock
from .participants import JOB_ID
from .resuming import RUN_FOLDER, can_be_resumed
from .run_placer import PlacementError, RunPlacer, RunStoppedError, RunTimeoutError

_RUN_TIMEOUT_SECONDS = 24 * 3600
# Another process holds a lock for an instant when it looks whether a run is over.
_LOCK_SECONDS = 1.0


def federation_of(data: str | None, seed: int) -> Path | None:
    """Return the folder of a seed's federation, None for generated images."""
    return None if data is None else Path(data.replace("{seed}", str(seed)))


def is_run_elsewhere(folder: Path) -> bool:
    """Return whether another process works on the run of an output folder now, on any machine that shares the disk."""
    return is_taken(_lock(folder)) or is_taken(worker_lock(folder))


def _lock(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.lock"


def state_folder(run: Path) -> Path:
    """Return the server's folder of a run in its output folder."""
    return run / RUN_FOLDER / "server" / JOB_ID


def run_arm(
    commands: RunPlacer,
    arm: PlannedArm,
    seed: int,
    *,
    reference: str,
    data: str | None,
    common: Mapping[str, str | None],
    without: Collection[str],
    out: Path,
) -> str | None:
    """Run an arm in a process of its own and return an error's text.

    A run that is done, or that another process works on, is left as it is. So is one that branches from a run that
    another process works on.

    Args:
        commands: makes the runs.
        arm: what is run.
        seed: of the run.
        reference: name of the arm that others branch from.
        data: a federation's folder, with ``{seed}`` for the seed; None for generated images.
        common: options of all runs; None for one that is not given.
        without: settings that are not given by `--set`.
        out: the comparison's output folder.
    """
    folder = run_folder(out, arm.name, seed)
    if (folder / SUMMARY_FILE).is_file():
        return None
    private_folder(folder.parent)
    lock = _lock(folder)
    with lock_attempt(lock, _LOCK_SECONDS) as answer:
        # A run on another machine may outlive the process that asked for it.
        if answer is LockAnswer.TAKEN or is_taken(worker_lock(folder)):
            return None
        try:
            if (folder / SUMMARY_FILE).is_file():
                # Another process has finished it meanwhile.
                return None
            if arm.shared_rounds and not can_be_resumed(folder):
                of_reference = run_folder(out, reference, seed)
                if is_run_elsewhere(of_reference):
                    return None
                if (error := _branch(arm, seed, folder, of_reference)) is not None:
                    return error
            asked = {"--data": federation_of(data, seed), **common}
            options = {option: value for option, value in asked.items() if value is not None}
            return _run(commands, _command(arm, seed, folder, options, without), f"{arm.name}, seed {seed}", folder)
        finally:
            lock.unlink(missing_ok=True)


def _branch(arm: PlannedArm, seed: int, folder: Path, of_reference: Path) -> str | None:
    """Let a run begin after rounds of the reference's run; return an error's text."""
    state = state_folder(folder) / STATE_FILE
    kept = state_folder(of_reference) / kept_state_file(arm.shared_rounds)
    if not kept.is_file():
        reference = of_reference.name.rpartition("-seed")[0]
        return f"{arm.name}, seed {seed}: {kept} is absent; {reference} was run before it had to be kept."
    private_folder(state.parent)
    with replaced(state) as temporary:
        shutil.copyfile(kept, temporary)
    return None


def _run(commands: RunPlacer, command: list[str], name: str, folder: Path) -> str | None:
    log = folder.parent / f"{folder.name}.log"
    try:
        failed = commands.run(command, log, timeout=_RUN_TIMEOUT_SECONDS) != 0
    except (RunTimeoutError, RunStoppedError, PlacementError) as error:
        return f"{name}: {error}"
    if failed:
        last = (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
        return f"{name}: {last} (log: {log})"
    return None


def _command(
    arm: PlannedArm, seed: int, folder: Path, asked: Mapping[str, str | Path], without: Collection[str]
) -> list[str]:
    """The command of an arm's run; it goes on where its folder has one already."""
    # Arms differ in what they are given alone.
    command = ["simulate", str(arm.job.folder), "--no-plan", "--seed", str(seed), "--out", str(folder)]
    for option, value in asked.items():
        command += [option, str(value)]
    # A network of a researcher's own code is named by its option.
    for key, value in arm.overrides.items():
        if key in without:
            continue
        command += ["--set", f"{key}={json.dumps(value)}"]
    return with_resume(command, folder)
