"""One run of a job in one process, from the job folder to the output folder with model, summary and pictures."""

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..custom.data.description import read_site_description
from ..custom.data.embedded_choice import write_embedded_federation
from ..custom.data.federation import read_federation
from ..custom.data.location import DATA_VARIABLE
from ..custom.data_fit import network_settings
from ..custom.run_state import STATE_FILE, SUMMARY_FILE, kept_state_file
from ..custom.settings import RunSettings
from .in_process import JOB_ID, run_in_process
from .job import Job, JobError, check_runs_in_process
from .output import collect_output
from .run_log import run_log
from .settings_files import SettingsFile

RUN_FOLDER = "run"
# Where the workspaces of a run that is being continued lie until the run is over.
RESUMED_FOLDER = "resumed"


def simulate(
    job_folder: Path,
    out: Path,
    *,
    data: Path | None = None,
    settings: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Run a job in this process and return its summary.

    The output folder gets the job as it was run, the model, ``summary.json``, ``metrics.jsonl``, and under ``run`` the
    workspaces of server and sites. Without data the embedded federation of the job's settings is written to ``data`` in
    it.

    Args:
        job_folder: the job.
        out: output folder; must be empty or absent unless the run is resumed.
        data: a federation's folder; its sites replace those that the job names.
        settings: a set of settings to use in place of the job's own, by its name beside the job or as a file.
        overrides: single settings to change after that, ``{"training.batch_size": 8}``.
        resume: go on after the last finished round of an earlier run in ``out``.

    Raises:
        JobError: if the job or the output folder cannot be used, or the job's sites talk to each other.
        SettingsError: if a setting cannot be used.
        DataError: if the data cannot be used, or are not those that the set of settings is for.
        RunError: if the run ended with an error.
    """
    started = time.monotonic()
    job = Job.open(job_folder)
    check_runs_in_process(job)
    changes: dict[str, Any] = {}
    if settings is not None:
        settings_file = SettingsFile.read(job, settings)
        settings_file.check_data(data)
        changes |= settings_file.values
    changes |= overrides or {}
    earlier_state = _prepare_output(out, resume)
    if earlier_state is not None:
        changes["resume_from"] = str(earlier_state)
    if data is None:
        data = _embedded_federation(job.settings_with(changes), out / "data")
    federation = read_federation(data)
    for key, value in network_settings(read_site_description(data / federation.sites[0])).items():
        changes.setdefault(f"network.{key}", value)
    run_job = job.copy_with(changes, out / "job")
    with _environment(DATA_VARIABLE, str(data.resolve())), run_log(out):
        run_folder = run_in_process(run_job, federation.sites, out / RUN_FOLDER)
    summary = collect_output(run_folder, out)
    shutil.rmtree(out / RESUMED_FOLDER, ignore_errors=True)
    summary["data"] = str(data.resolve())
    summary["wall_seconds"] = round(time.monotonic() - started, 2)
    summary["peak_memory_mb"] = round(_peak_memory_mb(), 1)
    (out / SUMMARY_FILE).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def can_be_resumed(out: Path) -> bool:
    """Return whether an output folder holds a run with a finished round."""
    return any(_state_file(out / folder).is_file() for folder in (RUN_FOLDER, RESUMED_FOLDER))


def _state_file(workspaces: Path) -> Path:
    return workspaces / "server" / JOB_ID / STATE_FILE


def _prepare_output(out: Path, resume: bool) -> Path | None:
    """Make the output folder ready; return the state to continue from, in the earlier run's workspaces."""
    if not resume:
        if out.exists() and any(out.iterdir()):
            raise JobError(
                f"Expected an empty or absent output folder, but {out} holds files; --resume continues a run."
            )
        out.mkdir(parents=True, exist_ok=True)
        return None
    if not can_be_resumed(out):
        raise JobError(f"Expected a run to continue in {out}, but there is no {_state_file(out / RUN_FOLDER)}.")
    if _state_file(out / RUN_FOLDER).is_file():
        shutil.rmtree(out / RESUMED_FOLDER, ignore_errors=True)
        (out / RUN_FOLDER).rename(out / RESUMED_FOLDER)
    for folder in (out / RUN_FOLDER, out / "job"):
        shutil.rmtree(folder, ignore_errors=True)
    state = _state_file(out / RESUMED_FOLDER)
    # The states that the job keeps stay where other runs look for them.
    _state_file(out / RUN_FOLDER).parent.mkdir(parents=True)
    for kept in state.parent.glob(kept_state_file("*")):
        shutil.copyfile(kept, _state_file(out / RUN_FOLDER).with_name(kept.name))
    return state.resolve()


def _embedded_federation(settings: RunSettings, folder: Path) -> Path:
    if not folder.exists():
        write_embedded_federation(folder, settings.embedded)
    return folder


@contextmanager
def _environment(variable: str, value: str) -> Iterator[None]:
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def _peak_memory_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
