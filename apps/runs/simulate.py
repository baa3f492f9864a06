"""One run of a job in one process, from the job folder to the output folder with model, summary and figures."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...custom.data.federation import read_federation
from ...custom.data.file_locks import LockAnswer, lock_attempt
from ...custom.data.location import DATA_VARIABLE
from ...custom.data.phantoms.choice import write_embedded_federation
from ...custom.data.store_location import participant_store
from ...custom.data.whole_files import make_private, private_folder
from ...custom.networks.devices import processor_name
from ...custom.run.state import SUMMARY_FILE
from ...custom.run.summary_record import Summary
from ...custom.settings import RunSettings
from ..reports.case_results import FinishedRun, write_case_results
from ..reports.compared_results import results_of_run
from ..reports.output import DATA_FOLDER, PERSISTED_MODEL, collect_output, read_summary, scored_model
from ..reports.result_rows import RunName
from ..reports.results_file import RESULTS_FILE, is_written
from .chosen_settings import changes_here, changes_of_run
from .cores import estimated_step_mb, suitable_sites_at_once
from .in_process import Step, run_in_process
from .job import Job, JobError, check_runs_in_process, flat_settings
from .missing_validation import without_validation
from .planned_settings import PlannedSettings
from .process_state import cpu_seconds, environment_variable, peak_memory_mb, threads_given_back
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
    changes = changes_here(job, changes_of_run(job, settings, data, overrides or {}, planned))
    run_settings = job.settings_with(changes)
    _check_surroundings(track)
    with _earlier_run(out, resume) as earlier:
        # Nobody knows what an earlier process took.
        computed = None if resume else cpu_seconds()
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
        if earlier is not None and not rounds_left:
            summary = _finished(out, earlier, run_settings, data, progress)
            if summary is not None:
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
        name = RunName(out.resolve().name, job.name, run_settings.seed)
        run = _ReadyRun(name, run_job, run_settings, planned, data, sites, out, is_generated=is_generated)
        run_folder, estimate = run.finish(sites_at_once, progress)
        summary = collect_output(run_folder, out, lambda: _surroundings(started, computed, data, estimate, planned))
        shutil.rmtree(out / RESUMED_FOLDER, ignore_errors=True)
        return summary


@dataclass(frozen=True)
class _ReadyRun:
    """A run whose rounds can begin or go on.

    Attributes:
        name: what the lines of its results begin with.
        job: the copy that is run.
        settings: its settings.
        planned: what a plan chose of them; None without a plan.
        data: the federation's folder.
        sites: names of its sites.
        out: the output folder.
        is_generated: whether its images are.
    """

    name: RunName
    job: Job
    settings: RunSettings
    planned: PlannedSettings | None
    data: Path
    sites: Sequence[str]
    out: Path
    is_generated: bool

    def finish(self, sites_at_once: int | None, progress: Progress) -> tuple[Path, float | None]:
        """Run the rounds and score the cases.

        Returns:
            The server's run folder; and what a step was estimated to take, in MB.
        """
        with run_log(self.out, progress):
            estimate = estimated_step_mb(self.settings, self.data / self.sites[0])
            self._tell_what_to_expect(estimate, progress)
            if sites_at_once is None:
                sites_at_once = suitable_sites_at_once(self.settings, len(self.sites), step_mb=estimate)
            folder = _run_rounds(self.job, self.sites, self.data, self.out, progress, sites_at_once)
            model, which = scored_model(folder, folder / PERSISTED_MODEL, read_summary(folder))
            workspaces = self.out / RUN_FOLDER
            finished = FinishedRun(self.name, workspaces, model, which, self.settings, self.data, self.sites)
            score_cases(finished, folder, self.out, progress)
        return folder, estimate

    def _tell_what_to_expect(self, estimate: float | None, progress: Progress) -> None:
        if self.planned is not None:
            progress.tell(self.planned.sentence(self.settings))
        images = ", on generated images" if self.is_generated else ""
        progress.tell(f"{self.name.arm}: {len(self.sites)} sites, {self.settings.rounds} rounds{images}.")
        if estimate is not None:
            progress.tell(_MEMORY_OF_STEP.format(estimate))
        if (warning := without_validation(self.settings, self.data, self.sites)) is not None:
            progress.tell(warning)


def _surroundings(
    started: float, computed: float | None, data: Path, estimate: float | None, planned: PlannedSettings | None
) -> dict[str, Any]:
    """What the summary says of data, time and memory."""
    return {
        "data": str(data.resolve()),
        "processor": processor_name(),
        "wall_seconds": round(time.monotonic() - started, 2),
        **({} if computed is None else {"cpu_seconds": round(cpu_seconds() - computed, 2)}),
        "peak_memory_mb": round(peak_memory_mb(), 1),
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
    with environment_variable(DATA_VARIABLE, str(data.resolve())), threads_given_back():
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
