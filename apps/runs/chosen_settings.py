"""What a run changes of its job's settings: what a person chose, and what follows from the data and the machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...custom.components.merging import merged
from ...custom.methods.lookup import method_of
from ...custom.networks.devices import preferred_device
from ...custom.networks.precision import computed_precision
from ...custom.settings import SettingValues
from ...custom.training.component_check import check_training
from .data_compatibility import read_descriptions, settings_for_data
from .job import Job
from .planned_settings import PlannedSettings
from .setting_origins import named_origins
from .settings_files import SettingsFile


def changes_here(job: Job, changes: SettingValues) -> SettingValues:
    """Return changes of a job's settings, with what this machine decides."""
    if job.settings_with(changes).training.precision != "auto":
        return changes
    # The run's state says in which precision it goes on, whatever machine that is on.
    return changes | {"training.precision": computed_precision("auto", preferred_device())}


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
