"""One run of a job in one process, from the job folder to the output folder with model, summary and figures."""

import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ...custom.components.merging import merged
from ...custom.data.datalist import VALIDATION
from ...custom.data.federation import read_federation
from ...custom.data.file_locks import LockAnswer, lock_attempt
from ...custom.data.location import DATA_VARIABLE
from ...custom.data.phantoms.choice import write_embedded_federation
from ...custom.data.site_data import count_cases
from ...custom.data.store_location import participant_store
from ...custom.data.whole_files import make_private, private_folder
from ...custom.methods.lookup import method_of
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.networks.devices import preferred_device
from ...custom.networks.precision import computed_precision
from ...custom.run.state import SUMMARY_FILE
from ...custom.run.summary_record import Summary
from ...custom.settings import RunSettings, SettingValues
from ...custom.training.component_check import check_training
from ...transforms.errors import DataError
from ..reports.case_results import FinishedRun, write_case_results
from ..reports.compared_results import results_of_run
from ..reports.output import DATA_FOLDER, PERSISTED_MODEL, collect_output, read_summary, scored_model
from ..reports.result_rows import RunName
from ..reports.results_file import RESULTS_FILE, is_written
from .cores import estimated_step_mb, suitable_sites_at_once
from .data_compatibility import read_descriptions, settings_for_data
from .in_process import Step, run_in_process
from .job import Job, JobError, check_runs_in_process, flat_settings
from .planned_settings import PlannedSettings
from .progress import Progress
from .resuming import (
    RESUMED_FOLDER,
    RUN_FOLDER,
    EarlierRun,
    can_be_resumed,
    check_continues,
    check_is_run,
    check_new,
    copy_job,
    data_of_run,
    finished_summary,
    prepare_beginning,
    prepare_collection,
    prepare_next_rounds,
    server_folder,
)
from .run_log import run_log
from .setting_origins import named_origins
from .settings_files import SettingsFile
from .tracking import Tracking, tracked_run

_LOCK, _LOCK_SECONDS = ".run.lock", 0.2
_MEMORY_OF_STEP = "A step of training takes about {:.0f} MB, estimated by a pass without values."


def simulate(
    job_folder: str | Path,
    out: Path,
    *,
    data: Path | None = None,
    settings: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    planned: PlannedSettings | None = None,
    resume: bool = False,
    track: Tracking | None = None,
    sites_at_once: int | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Run a job in this process and return its summary.

    The output folder gets the job as it was run, the model, ``summary.json``, ``metrics.jsonl``, ``results.csv`` and
    what belongs to it, and under ``run`` the workspaces of server and sites. Without data the embedded federation of
    the job's settings is written to ``data`` in it.

    Args:
        job_folder: the job's folder, or the name of an installed job.
        out: output folder; must be empty or absent unless the run is resumed.
        data: a federation's folder; its sites replace those that the job names.
        settings: a set of settings to use in place of the job's own, by its name next to the job or as a file.
        overrides: single settings to change after that, ``{"training.batch_size": 8}``.
        planned: what a plan chose, in place of a set of settings; a run that is continued has its own.
        resume: go on after the last finished round of an earlier run in ``out``, from the beginning if there is none.
            What was stopped after its last round is collected; of a finished run the summary is returned.
        track: where the run's numbers go as well; its settings are sent there, its figures are not.
        sites_at_once: how many sites work at a time; None for as many as cores and memory are enough for. The result is
            the same.
        progress: tells how far the run is; by default on the standard error.

    Raises:
        JobError: if the job, the output folder or the tracking server cannot be used, or the job's sites talk to each
            other.
        SettingsError: if a setting cannot be used.
        DataError: if the data or the store of prepared images cannot be used, or the data do not fit the job or are not
            those that the set of settings is for.
        ResumeError: if another job or other settings began the run that is to be continued; nothing is changed.
        RunError: if the run ended with an error.
    """
    started = time.monotonic()
    progress = progress or Progress()
    job = Job.open(job_folder)
    check_runs_in_process(job)
    if resume and planned is None:
        planned = PlannedSettings.of_run(job, out)
    changes = changes_of_run(job, settings, data, overrides or {}, planned)
    run_settings = job.settings_with(changes)
    if run_settings.training.precision == "auto":
        # The run's state says in which precision it goes on, whatever machine that is on.
        changes |= {"training.precision": computed_precision("auto", preferred_device())}
        run_settings = job.settings_with(changes)
    _check_surroundings(track)
    with _earlier_run(out, resume) as earlier:
        # Nobody knows what an earlier process took.
        computed = None if resume else _cpu_seconds()
        if resume:
            check_continues(run_settings, out, earlier)
        if planned is not None:
            planned.write()
        is_generated = data is None
        if data is None:
            progress.state("Making the embedded federation.")
            data = _embedded_federation(run_settings, out / DATA_FOLDER)
        sites = read_federation(data).sites
        rounds_left = earlier is None or not earlier.state.is_over(run_settings)
        if (
            earlier is not None
            and not rounds_left
            and (summary := _finished(out, earlier, run_settings, data, progress)) is not None
        ):
            return summary
        if resume and (before := data_of_run(out)) not in ("", str(data.resolve())):
            progress.tell(f"warning: the run began with the data in {before}, and goes on with those in {data}.")
        tracked_before = None if earlier is None else tracked_run(server_folder(earlier.workspaces))
        if (state := _make_ready(out, earlier, rounds_left=rounds_left)) is not None:
            changes["resume_from"] = str(state)
        # Its state holds a model, which is read once more.
        del earlier
        run_job = copy_job(job, changes | {"data": str(data.resolve())}, out)
        if track is not None:
            track.add_to(run_job, out.name, flat_settings(run_settings.model_dump(mode="json")), tracked_before)
        with run_log(out, progress):
            estimate = estimated_step_mb(run_settings, data / sites[0])
            if planned is not None:
                progress.tell(planned.sentence(run_settings))
            images = ", on generated images" if is_generated else ""
            progress.tell(f"{job.name}: {len(sites)} sites, {run_settings.rounds} rounds{images}.")
            _tell_what_to_expect(estimate, without_validation(run_settings, data, sites), progress)
            if sites_at_once is None:
                sites_at_once = suitable_sites_at_once(run_settings, len(sites), step_mb=estimate)
            run_folder = _run_rounds(run_job, sites, data, out, progress, sites_at_once)
            name = RunName(out.resolve().name, job.name, run_settings.seed)
            model, which = scored_model(run_folder, run_folder / PERSISTED_MODEL, read_summary(run_folder))
            score_cases(
                FinishedRun(name, out / RUN_FOLDER, model, which, run_settings, data, sites), run_folder, out, progress
            )
        summary = collect_output(run_folder, out, lambda: _surroundings(started, computed, data, estimate, planned))
        shutil.rmtree(out / RESUMED_FOLDER, ignore_errors=True)
        return summary


def _tell_what_to_expect(estimate: float | None, warning: str | None, progress: Progress) -> None:
    if estimate is not None:
        progress.tell(_MEMORY_OF_STEP.format(estimate))
    if warning is not None:
        progress.tell(warning)


def _surroundings(
    started: float, computed: float | None, data: Path, estimate: float | None, planned: PlannedSettings | None
) -> dict[str, Any]:
    """What the summary says of data, time and memory."""
    return {
        "data": str(data.resolve()),
        "wall_seconds": round(time.monotonic() - started, 2),
        **({} if computed is None else {"cpu_seconds": round(_cpu_seconds() - computed, 2)}),
        "peak_memory_mb": round(_peak_memory_mb(), 1),
        **({} if estimate is None else {"estimated_memory_mb": estimate}),
        **({} if planned is None else {"planned": tuple(planned.values)}),
    }


def _check_surroundings(track: Tracking | None) -> None:
    """Check what is no fault of a job or of a site's data, before anything is written."""
    participant_store().open()
    if track is not None:
        track.check()


def _run_rounds(
    run_job: Job, sites: Sequence[str], data: Path, out: Path, progress: Progress, sites_at_once: int
) -> Path:
    """Run the rounds over the sites of a federation's folder, and return the server's run folder."""
    with environment_variable(DATA_VARIABLE, str(data.resolve())), _threads_given_back():
        try:
            return run_in_process(run_job, sites, out / RUN_FOLDER, _Turns(progress), sites_at_once=sites_at_once)
        finally:
            # What others have written in it: NVFlare, TensorBoard.
            make_private(out / RUN_FOLDER)


def score_cases(finished: FinishedRun, metrics: Path, out: Path, progress: Progress) -> None:
    """Write the results per case of a run whose rounds are over; whatever goes wrong with them is said, and no error.

    Args:
        finished: the run.
        metrics: folder with the records of its rounds.
        out: its output folder.
        progress: tells it.
    """
    _tell_without_results(lambda: write_case_results(finished, out, metrics), progress)


class _Turns:
    """Tells whose turn it is. What a method asks sites for outside training does not set back what is done."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._furthest = 0

    def __call__(self, step: Step) -> None:
        self._furthest = max(self._furthest, step.done or 0)
        self._progress.state(str(step), self._furthest, step.total)


@contextmanager
def _earlier_run(out: Path, resume: bool) -> Iterator[EarlierRun | None]:
    """The run to continue, None if no round of it was finished; a new run's output folder is made.

    No other process makes a run there in the block: it would move what this one writes.
    """
    if not resume:
        check_new(out)
        private_folder(out)
    elif not can_be_resumed(out):
        check_is_run(out, None)
    lock = out / _LOCK
    with lock_attempt(lock, _LOCK_SECONDS) as answer:
        if answer is LockAnswer.TAKEN:
            raise JobError(f"{out}: another process makes the run in this folder; expected it to have ended.")
        try:
            # Nothing here keeps it, and its model, until the run is over.
            yield EarlierRun.find(out) if resume else None
        finally:
            lock.unlink(missing_ok=True)


def changes_of_run(
    job: Job,
    settings: str | None,
    data: Path | None,
    overrides: Mapping[str, Any],
    planned: PlannedSettings | None = None,
) -> SettingValues:
    """Return what differs from a job's own settings, with what follows from the data.

    Args:
        job: the job.
        settings: a set of settings to use in place of the job's own, by its name next to the job or as a file.
        data: a federation's folder; None for the embedded federation.
        overrides: single settings to change after that.
        planned: what a plan chose, in place of a set of settings.

    Raises:
        SettingsError: if a setting cannot be used.
        DataError: if the data cannot be used, do not fit the job, or are not those that the set of settings is for.
    """
    settings_file, overrides = None if planned is None else planned.as_file, job.current_names(overrides)
    if settings is not None:
        settings_file = SettingsFile.read(job, settings, overrides)
        settings_file.check_data(data)
    changes = merged({} if settings_file is None else settings_file.values, overrides)
    with named_origins(job, settings_file, overrides):
        changes = settings_for_data(job, changes, None if data is None else read_descriptions(data))
        asked = job.settings_with(changes)
        check_training(asked, str(job.settings_file))
        # What a method refuses, it says here before any data are made.
        method_of(asked).server_part(asked)
    return changes


def without_validation(settings: RunSettings, data: Path, sites: Sequence[str]) -> str | None:
    """Return a warning where sites have models of their own and no cases to score them on, else None."""
    if not isinstance(settings, PersonalSettings):
        return None
    lacking = [site for site in sites if not _count_validation(data / site)]
    if not lacking:
        return None
    which = "all sites" if len(lacking) == len(sites) else ", ".join(lacking)
    return (
        f"warning: without a list 'validation' in the datalist: {which}. Nothing says what the own models score there; "
        "--validation 0.2 of `fedannot data import` makes such lists."
    )


def _count_validation(folder: Path) -> int:
    try:
        return count_cases(folder, VALIDATION)
    except DataError:
        # The run refuses such a site by name.
        return 0


def _finished(out: Path, earlier: EarlierRun, settings: RunSettings, data: Path, progress: Progress) -> Summary | None:
    """The summary of a run of which everything was collected; says so, and scores its cases if nobody has."""
    summary = finished_summary(out, earlier, settings)
    if summary is not None:
        shutil.rmtree(out / RESUMED_FOLDER, ignore_errors=True)
        progress.tell(f"Finished already: the run in {out}, after round {summary.rounds_finished}.")
        if not is_written(out / RESULTS_FILE):
            _tell_without_results(lambda: results_of_run(out, data), progress)
    return summary


def _tell_without_results(score: Callable[[], object], progress: Progress) -> None:
    """Score cases; whatever it is that fails, the run must come to its end: resumed, it would stop here again."""
    progress.state("Scoring the model case by case.")
    try:
        score()
    except Exception as error:
        progress.tell(f"warning: no results per case: {type(error).__name__}: {error}")


def _make_ready(out: Path, earlier: EarlierRun | None, *, rounds_left: bool) -> Path | None:
    """Make the output folder ready; return the state to continue from."""
    # What has a summary is finished.
    (out / SUMMARY_FILE).unlink(missing_ok=True)
    if earlier is None:
        prepare_beginning(out)
        return None
    return prepare_next_rounds(out, earlier) if rounds_left else prepare_collection(out, earlier)


def _embedded_federation(settings: RunSettings, folder: Path) -> Path:
    if not folder.exists():
        write_embedded_federation(folder, settings.embedded)
    return folder


@contextmanager
def environment_variable(variable: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while.

    Args:
        variable: its name.
        value: its value meanwhile.
    """
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


@contextmanager
def _threads_given_back() -> Iterator[None]:
    """Leave PyTorch with the number of threads that the caller had chosen; the run computes with its own."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _peak_memory_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _cpu_seconds() -> float:
    """What this process, its threads and the processes that it waited for have taken of all cores."""
    return sum(os.times()[:4])
