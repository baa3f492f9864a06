"""From a job folder for the simulator to one that is submitted to a federation of hospitals."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...custom.aggregation.influence import deployed_aggregation, deployed_influence
from ...custom.approval.approved import installed_version
from ...custom.approval.configuration import CLIENT_CONFIG, SERVER_CONFIG, JobConfiguration, JobRefusedError
from ...custom.approval.limits import Limits, Minimum, check_minimum, check_settings, check_texts
from ...custom.compatibility import network_settings
from ...custom.components.component import Component, ComponentError
from ...custom.components.merging import merged
from ...custom.data.description import read_description_file
from ...custom.data.whole_files import new_folder, write_text
from ...custom.settings import RunSettings, SettingValues
from ...transforms.errors import DataError
from ...transforms.strict_files import read_json
from ..runs.job import ALL_MEMBERS, Job, JobError, parse_hocon
from ..runs.setting_origins import named_origins
from ..runs.settings_files import SettingsFile

# Seconds that a round waits for the last sites when a majority has answered, unless the job or the caller says else.
GRACE_PERIOD = 600

_APP = "app"


@dataclass(frozen=True)
class DeployableJob:
    """A job that can be submitted: two configurations in plain JSON, and what it says about itself.

    Attributes:
        folder: its folder.
        name: its name.
        settings: its settings.
        configuration: what it asks for.
        refused_by_default: why participants whose kits have the limits of fedannot refuse it; empty if they do not.
    """

    folder: Path
    name: str
    settings: RunSettings
    configuration: JobConfiguration
    refused_by_default: str = ""


def deployable_job(
    job_folder: str | Path,
    out: Path,
    *,
    sites: Sequence[str] = (),
    description: Path | None = None,
    settings: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> DeployableJob:
    """Write a job that can be submitted to a federation, and return it.

    It carries no code and is plain JSON: two configurations, which participants approve, and one document of settings,
    which each checks against its own limits. Sites train on their own data and never on the embedded phantom, with as
    many threads as they have cores or choose, in processes whose death does not end the job. Rounds close when a
    majority, and as many as participants want by default, has answered and the others have had their time. What one
    site can do to the model is bounded, where the method has the results at one place. All but the first of these can
    be overridden.

    Args:
        job_folder: the job's folder, as for the simulator, or the name of an installed job.
        out: the new job's folder; must be absent or empty.
        sites: names of the sites; none for all that are there when the job starts.
        description: a site's ``data.yaml``, from which the network's dimensions, channels and classes follow.
        settings: a set of settings, by its name next to the job or as a file.
        overrides: single settings to change after that, ``{"rounds": 100}``.

    Raises:
        JobError: if the job cannot be used, or a site is named twice.
        JobRefusedError: if a setting names a path or data.
        SettingsError: if a setting cannot be used.
        DataError: if the description cannot be used, or there are files in `out`.
    """
    if len(set(sites)) != len(sites) or "server" in sites:
        raise JobError(f"Expected names of sites, each once, but got {list(sites)}.")
    job = Job.open(job_folder)
    changes: SettingValues = {"data_required": True, "task_process": True, "grace_period": GRACE_PERIOD, "threads": 0}
    asked = job_configuration(job)
    overrides = job.current_names(overrides or {})
    settings_file = None if settings is None else SettingsFile.read(job, settings, overrides)
    given = merged({} if settings_file is None else settings_file.values, overrides)
    configured = replace(asked, settings=merged(asked.settings, given))
    if configured.takes_bounds:
        changes |= deployed_bounds(len(sites) or None, takes_rule=configured.takes_rule)
    changes["min_sites"] = fewest_sites(len(sites) or None)
    if description is not None:
        of_data = network_settings(read_description_file(description))
        changes |= {f"network.{key}": value for key, value in of_data.items()}
    if settings_file is not None:
        changes = merged(changes, settings_file.values)
    with named_origins(job, settings_file, overrides):
        chosen = job.settings_with(merged(changes, overrides))
        check_deployable_network(chosen)
        _check_training(chosen, job)
    check_texts(chosen)
    if sites and chosen.min_sites > len(sites):
        raise JobError(f"min_sites is {chosen.min_sites}, but the job names {len(sites)} sites.")
    named = frozenset(sites) if sites else None
    configuration = JobConfiguration(asked.server, asked.client, chosen.model_dump(mode="json"), named)
    made = DeployableJob(out, job.name, chosen, configuration, _refused_by_default(configuration))
    meta = {
        "name": job.name,
        "min_clients": chosen.min_sites,
        "deploy_map": {_APP: ["server", *sites] if sites else [ALL_MEMBERS]},
        "fedannot": installed_version(),
    }
    with new_folder(out, shared=True) as unfinished:
        write_text(unfinished / "meta.json", json.dumps(meta, indent=2) + "\n", shared=True)
        config = unfinished / _APP / "config"
        config.mkdir(parents=True)
        for name, content in made.configuration.documents().items():
            write_text(config / name, json.dumps(content, indent=2) + "\n", shared=True)
    return made


def deployed_bounds(num_sites: int | None, *, takes_rule: bool = True) -> dict[str, int | float | str]:
    """Return what bounds a single site in a job with a server for so many hospitals, as settings by dotted keys.

    Args:
        num_sites: how many sites the job names; None where it names none.
        takes_rule: whether a rule can make its model.
    """
    rule = deployed_aggregation(num_sites) if takes_rule else {}
    return {
        **{f"influence.{key}": value for key, value in deployed_influence(num_sites, takes_rule=takes_rule).items()},
        **{f"aggregation.{key}": value for key, value in rule.items()},
    }


def fewest_sites(num_sites: int | None) -> int:
    """Return how few usable results a deployed job's round may have, unless the job says so.

    More than half of the sites, and what kits ask for by default; of one or two sites all.

    Args:
        num_sites: number of sites that the job names; None where it names none.
    """
    least = Minimum().min_sites
    return least if num_sites is None else min(num_sites, max(num_sites // 2 + 1, least))


def check_deployable_network(settings: RunSettings) -> None:
    """Check that participants can build and run the network of a job.

    Raises:
        JobError: if its class or arguments cannot be used, it does not return what the task needs, or it is code of
            this process alone.
    """
    if settings.network.component is None:
        return
    # PyTorch takes seconds, and the networks of settings without a class need no look.
    from ...custom.networks.dry_run import dry_run  # noqa: PLC0415
    from ...custom.networks.own_network import OWN_TARGET  # noqa: PLC0415

    if settings.network.component.target == OWN_TARGET:
        raise JobError(
            f"key 'network' names {settings.network.component.arguments.get('name')!r}, code of the process that ran "
            "it; a deployed job names classes that participants have installed."
        )
    try:
        dry_run(settings)
    except ComponentError as error:
        raise JobError(f"key 'network': {error}") from error


def _check_training(settings: RunSettings, job: Job) -> None:
    """Raises SettingsError if a class that settings name for training cannot be used."""
    training = settings.training
    named = (training.loss, training.optimizer, training.schedule, settings.inferer)
    if any(isinstance(value, Component) for value in named):
        # PyTorch, as above.
        from ...custom.training.component_check import check_training  # noqa: PLC0415

        check_training(settings, str(job.settings_file))


def _refused_by_default(configuration: JobConfiguration) -> str:
    limits = Limits()
    try:
        settings = check_settings(configuration.settings, limits)
        check_minimum(settings, limits, configuration.sites, takes_bounds=configuration.takes_bounds)
    except JobRefusedError as error:
        return str(error)
    return ""


def job_configuration(job: Job) -> JobConfiguration:
    """Return what a job for the simulator asks for, includes and substitutions resolved.

    Raises:
        JobError: if the configurations of server and sites have no settings in common.
    """
    try:
        return JobConfiguration.of_resolved(parse_hocon(job.server_config), parse_hocon(job.client_config))
    except JobRefusedError as error:
        raise JobError(f"{job.folder}: {error}") from error


def read_configuration(folder: Path) -> tuple[str, JobConfiguration]:
    """Return a job's name and what it asks for, of a job for the simulator or of one that can be submitted.

    A job for the simulator may also be an installed one, by its name.

    Raises:
        JobError: if the folder is no job, or cannot be read.
    """
    config = folder / _APP / "config"
    if not (config / SERVER_CONFIG).is_file():
        job = Job.open(folder)
        return job.name, job_configuration(job)
    try:
        name = str(read_json(folder / "meta.json", "what the job says of itself")["name"])
        texts = [(config / file).read_bytes() for file in (SERVER_CONFIG, CLIENT_CONFIG)]
        return name, JobConfiguration.of_texts(*texts)
    except (OSError, ValueError, KeyError, TypeError, DataError) as error:
        raise JobError(f"{folder}: expected a job with meta.json and two configurations, but {error}.") from error
