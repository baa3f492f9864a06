"""What a run that was stopped or killed has left in its output folder, and whether a job may go on with it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from ...custom.data.whole_files import make_private, private_folder, replaced
from ...custom.methods.lookup import method_of
from ...custom.run.reading import METRICS_FILE
from ...custom.run.state import (
    SCORED_MODEL_FILE,
    STATE_FILE,
    SUMMARY_FILE,
    ResumeError,
    RunState,
    kept_state_file,
)
from ...custom.run.summary_record import Summary
from ...custom.settings import NSD_TOLERANCE, RunSettings, SettingValues
from ..reports.calibration_file import CALIBRATION_FILE
from ..reports.output import DATA_FOLDER, MODEL_FILE, read_summary
from ..reports.results_file import RESULTS_DESCRIPTION, RESULTS_FILE, ROUNDS_FILE
from .job import Job, JobError
from .participants import JOB_ID
from .planned_settings import PLAN_FILE
from .run_log import LOG_FILE

RUN_FOLDER = "run"
# Where the workspaces of a run that is being continued lie until the run is over.
RESUMED_FOLDER = "resumed"
JOB_FOLDER = "job"

# Settings of what is said of a run that is over, with their values before they were there.
_REPORTED: SettingValues = {"scored_rounds": None, "nsd_tolerance": NSD_TOLERANCE}
_SHOWN_NAMES = 5
_UNFINISHED_JOB = ".job-unfinished"
_ENTRIES = {RUN_FOLDER, RESUMED_FOLDER, JOB_FOLDER, DATA_FOLDER, LOG_FILE, MODEL_FILE, METRICS_FILE, SUMMARY_FILE}
_ENTRIES |= {PLAN_FILE, RESULTS_FILE, RESULTS_DESCRIPTION, ROUNDS_FILE, CALIBRATION_FILE, SCORED_MODEL_FILE}


@dataclass(frozen=True)
class EarlierRun:
    """A run with at least one finished round.

    Attributes:
        workspaces: the workspaces of server and sites after that round.
        state: the state after it.
    """

    workspaces: Path
    state: RunState

    @classmethod
    def find(cls, out: Path) -> "EarlierRun | None":
        """Find the run in an output folder; None if no round was finished.

        Raises:
            ResumeError: if its state cannot be read.
        """
        for folder in (RUN_FOLDER, RESUMED_FOLDER):
            if (file := _state_file(out / folder)).is_file():
                return cls(out / folder, RunState.load(file))
        return None


def progress(out: Path) -> str:
    """Say after which round the run in an output folder was stopped."""
    earlier = EarlierRun.find(out)
    if earlier is None:
        return "No round is finished."
    return f"The last finished round is {earlier.state.round_number} of {earlier.state.settings['rounds']}."


def can_be_resumed(out: Path) -> bool:
    """Return whether an output folder holds a run with a finished round."""
    return any(_state_file(out / folder).is_file() for folder in (RUN_FOLDER, RESUMED_FOLDER))


def has_begun(out: Path) -> bool:
    """Return whether an output folder holds a run's job or its plan, so that the run's settings are known."""
    return (out / JOB_FOLDER).is_dir() or is_planned(out)


def is_planned(out: Path) -> bool:
    """Return whether an output folder holds a run's plan, which the run goes on with."""
    return (out / PLAN_FILE).is_file()


def check_new(out: Path) -> None:
    """Check that an output folder is empty or absent.

    Raises:
        JobError: if it holds anything.
    """
    if out.exists() and any(out.iterdir()):
        raise JobError(f"Expected an empty or absent output folder, but {out} holds files; --resume continues a run.")


def check_is_run(out: Path, earlier: EarlierRun | None) -> None:
    """Check that an output folder is that of a run, or of one that was stopped before it had written anything.

    Raises:
        JobError: if it is absent or holds other files.
    """
    foreign = sorted(entry.name for entry in out.iterdir() if not _is_ours(entry)) if out.is_dir() else []
    if not out.is_dir() or (foreign and earlier is None):
        result = f"it holds {', '.join(foreign[:_SHOWN_NAMES])}" if foreign else "there is no such folder"
        raise JobError(f"Expected a run to continue in {out}, but {result}. Without --resume a new run begins.")


def check_continues(settings: RunSettings, out: Path, earlier: EarlierRun | None) -> None:
    """Check that a job with these settings may go on with the run in an output folder.

    Args:
        settings: the job's settings, with all changes.
        out: the output folder.
        earlier: the run in it, None if no round was finished.

    Raises:
        ResumeError: if another job or other settings began the run.
    """
    values = settings.model_dump(mode="json")
    begun = Job(out / JOB_FOLDER).settings() if (out / JOB_FOLDER).is_dir() else None
    # A method may branch from federated averaging, but in a folder of its own: here it would take the run's place.
    if begun is not None and begun.method != settings.method:
        raise ResumeError(
            f"The run in {out} is of {begun.method!r}, but the job is {settings.method!r}. Expected the job that began "
            "it; give another job an output folder of its own."
        )
    if earlier is not None:
        earlier.state.check_continues(settings.method, values, rounds_of_averaging(settings))
    elif begun is not None:
        RunState(begun.method, begun.model_dump(mode="json"), 0, {}).check_continues(settings.method, values)


def data_of_run(out: Path) -> str:
    """Return the folder of the data that the run in an output folder was begun with; empty if it is not known."""
    if not (out / JOB_FOLDER).is_dir():
        return ""
    return Job(out / JOB_FOLDER).settings().data


def finished_summary(out: Path, earlier: EarlierRun, settings: RunSettings) -> Summary | None:
    """Return the summary of a run whose model, metrics and summary were all collected after its last round, or None.

    If other rounds are to be reported than it reports, or cases scored otherwise, it is none: it is written again.
    """
    if not (out / SUMMARY_FILE).is_file():
        return None
    summary = read_summary(out)
    is_collected = summary.wall_seconds is not None and summary.rounds_finished == earlier.state.round_number
    asked = settings.model_dump(mode="json")
    says_the_same = all(summary.settings.get(key, before) == asked.get(key) for key, before in _REPORTED.items())
    return summary if is_collected and says_the_same else None


def prepare_next_rounds(out: Path, earlier: EarlierRun) -> Path:
    """Move the workspaces of a run out of the way of one that continues it; return the state to continue from."""
    if earlier.workspaces.name == RUN_FOLDER:
        shutil.rmtree(out / RESUMED_FOLDER, ignore_errors=True)
        (out / RUN_FOLDER).rename(out / RESUMED_FOLDER)
    shutil.rmtree(out / RUN_FOLDER, ignore_errors=True)
    state = _state_file(out / RESUMED_FOLDER)
    # The states that the job keeps stay where other runs look for them.
    private_folder(_state_file(out / RUN_FOLDER).parent)
    for kept in state.parent.glob(kept_state_file("*")):
        with replaced(_state_file(out / RUN_FOLDER).with_name(kept.name)) as temporary:
            shutil.copyfile(kept, temporary)
    return state.resolve()


def prepare_collection(out: Path, earlier: EarlierRun) -> Path:
    """Put the workspaces of a run whose rounds are all done back in their place; return the state to collect from.

    What the sites have stored besides the rounds lies there, and would be lost with an earlier run's workspaces.
    """
    if earlier.workspaces.name == RESUMED_FOLDER:
        shutil.rmtree(out / RUN_FOLDER, ignore_errors=True)
        (out / RESUMED_FOLDER).rename(out / RUN_FOLDER)
    return _state_file(out / RUN_FOLDER).resolve()


def prepare_beginning(out: Path) -> None:
    """Remove what a run without a finished round has left; its data stay."""
    for folder in (RUN_FOLDER, RESUMED_FOLDER):
        shutil.rmtree(out / folder, ignore_errors=True)


def copy_job(job: Job, changes: SettingValues, out: Path) -> Job:
    """Copy a job with its changes to the output folder, in place of an earlier copy, as a whole."""
    unfinished, folder = out / _UNFINISHED_JOB, out / JOB_FOLDER
    shutil.rmtree(unfinished, ignore_errors=True)
    job.copy_with(changes, unfinished)
    make_private(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return Job(folder)


def server_folder(workspaces: Path) -> Path:
    """Return the server's run folder among the workspaces of a run."""
    return workspaces / "server" / JOB_ID


def _state_file(workspaces: Path) -> Path:
    return server_folder(workspaces) / STATE_FILE


def _is_ours(entry: Path) -> bool:
    """Whether a run may have written a file or folder."""
    return entry.name in _ENTRIES or entry.name.startswith(".") or entry.suffix == ".png"


def rounds_of_averaging(settings: RunSettings) -> int:
    """How many rounds at its start a job's method has in common with federated averaging."""
    return method_of(settings).server_part(settings).rounds_of_averaging
