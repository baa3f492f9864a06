"""From a job folder for the simulator to one that is submitted to a federation of hospitals."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...custom.data.description import read_description_file
from ...custom.data.whole_files import new_folder, write_text
from ...custom.data_fit import network_settings
from ..job import ALL_MEMBERS, Job, JobError, is_swarm
from ..settings_files import SettingsFile

# Seconds that a round waits for the last sites when a majority has answered, unless the job or the caller says else.
GRACE_PERIOD = 600


def deployable_job(
    job_folder: Path,
    out: Path,
    *,
    sites: Sequence[str] = (),
    description: Path | None = None,
    settings: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Job:
    """Write a job that can be submitted to a federation, and return it.

    It carries no code, so that no right to send any is needed; the sites must list its classes. Sites train on their
    own data and never on the embedded phantom, in processes whose death does not end the job, and rounds close when a
    majority has answered and the others have had their time. All of that can be overridden.

    Args:
        job_folder: the job, as for the simulator.
        out: the new job's folder; must be absent or empty.
        sites: names of the sites; none for all that are there when the job starts.
        description: a site's ``data.yaml``, from which the network's dimensions, channels and classes follow.
        settings: a set of settings, by its name beside the job or as a file.
        overrides: single settings to change after that, ``{"rounds": 100}``.

    Raises:
        JobError: if the job cannot be used, or a site is named twice.
        SettingsError: if a setting cannot be used.
        DataError: if the description cannot be used, or there are files in `out`.
    """
    if len(set(sites)) != len(sites) or "server" in sites:
        raise JobError(f"Expected names of sites, each once, but got {list(sites)}.")
    job = Job.open(job_folder)
    changes: dict[str, Any] = {"data_required": True, "task_process": True, "grace_period": GRACE_PERIOD}
    if sites:
        changes["min_sites"] = len(sites) // 2 + 1
    if description is not None:
        of_data = network_settings(read_description_file(description))
        changes |= {f"network.{key}": value for key, value in of_data.items()}
    if settings is not None:
        changes |= SettingsFile.read(job, settings).values
    changes |= overrides or {}
    min_sites = job.settings_with(changes).min_sites
    if sites and min_sites > len(sites):
        raise JobError(f"min_sites is {min_sites}, but the job names {len(sites)} sites.")
    with new_folder(out) as unfinished:
        copied = job.copy_with(changes, unfinished / job.name)
        shutil.rmtree(copied.app / "custom")
        meta = {
            "name": job.name,
            "min_clients": min_sites,
            "deploy_map": {copied.app.name: ["server", *sites] if sites else [ALL_MEMBERS]},
        }
        if is_swarm(job):
            meta["scope"] = "swarm"
        write_text(copied.folder / "meta.json", json.dumps(meta, indent=2) + "\n")
        for entry in copied.folder.iterdir():
            entry.rename(unfinished / entry.name)
        copied.folder.rmdir()
    return Job.open(out)
