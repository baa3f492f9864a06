"""Running a job in this process, and a finished run as a value that a notebook shows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...custom.components.merging import merged
from ...custom.methods.lookup import read_job_settings
from ...custom.run.state import ResumeError
from ...custom.run.summary_record import ClassificationSummary, Summary
from ..plain_lines import GENERATED
from ..reports.captions import caption
from ..reports.html import html_paragraphs, html_picture, html_table
from ..reports.output import DATA_FOLDER, MODEL_FILE, read_summary, used_generated_images
from ..reports.pictures import PICTURE_FOLDER, draw_run
from ..reports.run_page import REPORT_FILE, write_run_page
from ..reports.site_columns import WORDS, site_columns, site_legend, weight_beside_noise
from ..reports.summary_text import headline
from ..runs.job import Job, JobError
from ..runs.own_code import OwnNetworkCode, own_network_changes
from ..runs.planned_settings import PlannedSettings
from ..runs.progress import OnProgress, Progress, progress_of
from ..runs.resuming import RUN_FOLDER, check_new, has_begun, server_folder
from ..runs.run_log import LOG_FILE
from ..runs.simulate import simulate as run_job
from ..runs.tracking import Tracking, tracked_run


@dataclass(frozen=True)
class Run:
    """A finished run; a notebook shows its scores, its sites and its pictures.

    Attributes:
        folder: its output folder.
        summary: scores, sites and what the method concluded.
        plan: for how long the run was planned, and what nnU-Net's full recipe would take; empty without a plan.
    """

    folder: Path
    summary: Summary
    plan: str = ""

    @property
    def score(self) -> float | None:
        """Dice or macro F1: of the rounds that ``scored_rounds`` names, or of the final model if one was chosen."""
        return self.summary.main_score

    @property
    def uses_generated_images(self) -> bool:
        """Whether it trained on generated images because it was given no data."""
        return used_generated_images(self.summary, self.folder)

    @property
    def model(self) -> Path:
        """The file with the global model's weights."""
        return self.folder / MODEL_FILE

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The files of the pictures, in the order of their names."""
        return tuple(sorted((self.folder / PICTURE_FOLDER).glob("*.png")))

    @property
    def report(self) -> Path:
        """The page with everything that is known of the run, and its pictures."""
        return self.folder / REPORT_FILE

    @property
    def sites(self) -> dict[str, list[str]]:
        """The table of sites: the cells of each column, by its heading."""
        return site_columns(self.summary)

    def __str__(self) -> str:
        return headline(self.summary)

    def _repr_html_(self) -> str:
        summary = self.summary
        explanation = weight_beside_noise(summary) or ""
        is_classification = isinstance(summary, ClassificationSummary)
        pictures = [
            html_picture(file, caption(file.stem, is_classification=is_classification)) for file in self.pictures
        ]
        return "".join(
            [
                html_paragraphs(headline(summary), self.plan, GENERATED if self.uses_generated_images else ""),
                html_table(self.sites, left=WORDS),
                html_paragraphs(*site_legend(summary), explanation),
                *pictures,
            ]
        )


def simulate(
    job: str | Path,
    out: str | Path,
    *,
    data: str | Path | None = None,
    settings: str | None = None,
    changes: Mapping[str, Any] | None = None,
    seed: int | None = None,
    hours: float | None = None,
    resume: bool = False,
    track: str | None = None,
    network: OwnNetworkCode | None = None,
    sites_at_once: int | None = None,
    on_progress: OnProgress | Progress | None = None,
) -> Run:
    """Run a job in this process; the result is the same as NVFlare's, bit for bit on the CPU.

    Args:
        job: the name of an installed job, or a job's folder.
        out: output folder, absent or empty unless the run is resumed.
        data: a federation's folder; None for generated images.
        settings: a set of settings, by its name next to the job or as a file.
        changes: single settings to change after that, ``{"training.batch_size": 8}``.
        seed: of everything random; None for the job's.
        hours: that the run may take on this machine: nnU-Net's recipe with as many steps and rounds as fit, in place of
            the job's settings; `changes` still count. None for the job's settings. A continued run
            keeps its plan; another time than that of its plan is refused.
        resume: go on after the last finished round of the run in `out`.
        track: ``mlflow=URI`` or ``wandb=PROJECT``: numbers, settings and pictures go there as well.
        network: of your own code in place of the job's: a ``torch.nn.Module``, whose weights the run starts with, a
            function or class that builds one, or ``package.module:function``; see
            :func:`fedannot.apps.runs.own_code.own_network_changes`. Such a job cannot be deployed.
        sites_at_once: how many sites work at a time, each on a core of its own; None for as many as there are cores
            and memory for. The result is the same.
        on_progress: is given every step; ``print`` will do.

    Raises:
        JobError, SettingsError, DataError, ResumeError, RunError: see :func:`fedannot.apps.runs.simulate.simulate`.

    >>> from fedannot.apps import simulate
    >>> small = {"rounds": 1, "network.features": [4, 4, 8, 8, 8, 4], "training.local_epochs": 1}
    >>> few = {"embedded.sites": 2, "embedded.noise": None, "embedded.stratified": None, "embedded.exact": False}
    >>> run = simulate("fedavg", "runs/first", changes=small | few | {"embedded.images_per_site": 2})
    >>> sorted(run.summary.sites), run.score is not None
    (['site-1', 'site-2'], True)
    """
    progress, folder = progress_of(on_progress), Path(out)
    overrides = dict(changes or {}) | ({} if seed is None else {"seed": seed})
    if network is not None:
        if named := sorted(key for key in overrides if key == "network" or key.startswith("network._target_")):
            raise JobError(f"--network is given, and {named[0]!r} names a network, too; expected one of them.")
        overrides = merged(overrides, own_network_changes(network))
    data_folder = None if data is None else Path(data)
    planned = (
        None
        if hours is None
        else _planned(job, folder, data_folder, settings, overrides, hours, resume=resume, sites_at_once=sites_at_once)
    )
    tracking = None if track is None else Tracking.parse(track)
    summary = run_job(
        job,
        folder,
        data=data_folder,
        settings=settings,
        overrides=overrides,
        planned=planned,
        resume=resume,
        track=tracking,
        sites_at_once=sites_at_once,
        progress=progress,
    )
    progress.state("Drawing the pictures.")
    pictures = draw_run(folder, data_folder or folder / DATA_FOLDER)
    write_run_page(folder, summary, pictures)
    if tracking is not None:
        _track_pictures(tracking, folder, pictures, progress)
    return Run(folder, summary, _plan_sentence(Job.open(job), folder, summary))


def _plan_sentence(job: Job, folder: Path, summary: Summary) -> str:
    planned = PlannedSettings.of_run(job, folder)
    return "" if planned is None else planned.sentence(read_job_settings(summary.settings, of_finished_run=True))


def _planned(
    job: str | Path,
    out: Path,
    data: Path | None,
    settings: str | None,
    overrides: Mapping[str, Any],
    hours: float,
    *,
    resume: bool,
    sites_at_once: int | None,
) -> PlannedSettings | None:
    """What a run is planned with; None where it is continued, and has a plan of its own for the same time."""
    if not resume:
        check_new(out)
    elif has_begun(out):
        _check_same_hours(job, out, hours)
        return None
    # The plan measures steps, which takes MONAI.
    from ..planning.planned_run import plan_run  # noqa: PLC0415

    return plan_run(
        Job.open(job), data, hours, out, settings=settings, overrides=overrides, sites_at_once=sites_at_once
    )


def _check_same_hours(job: str | Path, out: Path, hours: float) -> None:
    """Raises ResumeError if the run in a folder was planned for another time than is asked for now, or not at all."""
    begun = PlannedSettings.of_run(Job.open(job), out)
    if begun is not None and math.isclose(begun.time.hours, hours, rel_tol=1e-5):
        return
    known = "was begun without a plan" if begun is None else f"was planned for {begun.time.hours:g} h"
    expected = "no --hours" if begun is None else f"--hours {begun.time.hours:g} or none"
    raise ResumeError(
        f"--hours: found {hours:g}, but the run in {out} {known} and goes on as it was begun; expected {expected}. For "
        "another time give a new run another --out."
    )


def _track_pictures(tracking: Tracking, folder: Path, pictures: Sequence[Path], progress: Progress) -> None:
    """Give the pictures to the tracking server; what is wrong there has nothing to do with the run, which is over."""
    progress.state("Giving the pictures to the tracking server.")
    run_id = tracked_run(server_folder(folder / RUN_FOLDER))
    if run_id is None:
        progress.tell(f"warning: the run was not tracked; {folder / LOG_FILE} says why.")
        return
    try:
        tracking.add_pictures(run_id, pictures)
    except Exception as error:
        progress.tell(f"warning: the tracking server did not take the pictures: {type(error).__name__}: {error}")


def read_run(folder: str | Path) -> Run:
    """Return a run that is finished already.

    Args:
        folder: its output folder, of `simulate` or of `fedannot show`.

    Raises:
        OutputError: if there is none.
        DataError: if its summary cannot be used.

    >>> from fedannot.apps import read_run
    >>> read_run("nowhere")
    Traceback (most recent call last):
    ...
    fedannot.apps.reports.output.OutputError: Expected the output of a run in nowhere, but there is no summary.json.
    """
    return Run(Path(folder), read_summary(Path(folder)))
