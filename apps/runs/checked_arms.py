"""Arms that can be compared: their settings on the data, checked before anything runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...custom.components.merging import merged
from ...custom.settings import RunSettings, SettingsError, SettingValues
from ...transforms.errors import DataError
from ..reports.compared_settings import ComparedSettings
from ..wording.shell_words import shell_word
from .arm_differences import compared_settings
from .arm_run import federation_of
from .arms import Arm, PlannedArm, plan
from .compared_labels import check_same_labels
from .data_compatibility import read_descriptions, settings_for_data
from .job import Job, JobError
from .like_changes import like_changes
from .own_code import check_no_other_network, own_network_changes
from .setting_origins import named_origins
from .settings_files import SettingsFile
from .shared_rounds import check_shared_rounds


@dataclass(frozen=True)
class CheckedArms:
    """Arms that can be compared.

    Attributes:
        arms: with all their settings.
        of_arms: the settings of each arm, by its name, with the last seed and its data.
        compared: what the arms have alike and what differs.
        own_network: the changes that name a researcher's network.
    """

    arms: Sequence[PlannedArm]
    of_arms: Mapping[str, RunSettings]
    compared: ComparedSettings
    own_network: SettingValues


def check_arms(
    arms: Sequence[Arm],
    *,
    data: str | None,
    seeds: Sequence[int],
    settings: str | None = None,
    overrides: Mapping[str, Any],
    like: str | None = None,
    allow_different: Collection[str] = (),
    network: str | None = None,
) -> CheckedArms:
    """Check that arms can be compared on their data, before anything runs or is written; arguments and errors as for
    :func:`fedannot.apps.runs.compare.compare`.
    """
    check_seeds(seeds)
    own_network = {} if network is None else _network_of_all(network, arms, overrides)
    planned = plan(arms, merged(overrides, own_network))
    federations = [federation_of(data, seed) for seed in seeds]
    if like is not None:
        model = _model_arm(like, planned, merged(overrides, own_network))
        planned = _all_like(planned, model, settings, federations, seeds)
    of_arms = _settings_for_data(planned, settings, federations, seeds, like)
    compared = compared_settings(planned, of_arms, seeds, like, network, allow_different, data_given=data is not None)
    if data is None:
        _check_phantoms(of_arms)
    check_same_labels(of_arms, federations)
    check_shared_rounds(planned, of_arms, data_given=data is not None)
    return CheckedArms(planned, of_arms, compared, own_network)


def check_seeds(seeds: Sequence[int]) -> None:
    """Check that there are seeds, each once.

    Raises:
        JobError: if there is none, or one is named twice: a run does not count twice.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise JobError(f"Expected a seed at least, and each once, but got {list(seeds)}.")


def _network_of_all(network: str, arms: Sequence[Arm], overrides: Mapping[str, Any]) -> SettingValues:
    """Let this process know a researcher's network, and return the changes that name it, which are for all arms."""
    for changes in (overrides, *(arm.overrides for arm in arms)):
        check_no_other_network(changes)
    return own_network_changes(network)


def _model_arm(like: str, planned: Sequence[PlannedArm], overrides: Mapping[str, Any]) -> PlannedArm:
    """The job whose settings all arms take, as an arm that has nothing of its own."""
    job = next((arm.job for arm in planned if arm.name == like), None) or Job.open(like)
    tasks = job.settings().task, planned[0].job.settings().task
    if tasks[0] != tasks[1]:
        raise JobError(
            f"--like {like} is for {tasks[0]}, but the arms are for {tasks[1]}: expected a job of that task."
        )
    changes = job.current_names(overrides)
    known = job.known_names(changes)
    return PlannedArm(like, job, {key: value for key, value in changes.items() if key in known}, 0)


def _all_like(
    arms: Sequence[PlannedArm],
    model: PlannedArm,
    settings: str | None,
    federations: Sequence[Path | None],
    seeds: Sequence[int],
) -> list[PlannedArm]:
    """The arms with the settings of another job; what is changed for all arms, or for one, counts more."""
    of_model = _settings_for_data([model], settings, federations, seeds)[model.name]
    result = []
    for arm in arms:
        of_set = {} if settings is None else SettingsFile.read(arm.job, settings, arm.overrides).values
        changes = like_changes(of_model, arm, of_set, name=model.name, data_given=federations[0] is not None)
        result.append(replace(arm, overrides=merged(changes, arm.overrides)))
    return result


def _settings_for_data(
    arms: Sequence[PlannedArm],
    settings: str | None,
    federations: Sequence[Path | None],
    seeds: Sequence[int],
    like: str | None = None,
) -> dict[str, RunSettings]:
    """Check the settings of every run, and that its data are those that they are for, before any run starts.

    Args:
        arms: the arms.
        settings: the set of settings; None for none.
        federations: of each seed; None for generated images.
        seeds: the seeds.
        like: the job whose settings the arms were given, to name in an error.

    Returns:
        The settings of each arm, by its name, with the last seed and its data.
    """
    described = {folder: None if folder is None else read_descriptions(folder) for folder in dict.fromkeys(federations)}
    result: dict[str, RunSettings] = {}
    for arm in arms:
        settings_file = None if settings is None else SettingsFile.read(arm.job, settings, arm.overrides)
        of_set = {} if settings_file is None else settings_file.values
        for federation, seed in zip(federations, seeds, strict=True):
            if settings_file is not None:
                settings_file.check_data(federation)
            try:
                with named_origins(arm.job, settings_file, arm.overrides):
                    changes = merged(of_set, arm.overrides, {"seed": seed})
                    result[arm.name] = arm.job.settings_with(settings_for_data(arm.job, changes, described[federation]))
            except (DataError, SettingsError) as error:
                # An error class need not be made from a text.
                given = "" if like in (None, arm.name) else f", with the settings of --like {like}"
                error.args = (f"{arm.name}{given}: {error}",)
                raise
    return result


def _check_phantoms(of_arms: Mapping[str, RunSettings]) -> None:
    """Refuse arms whose jobs bring phantoms of different kinds: runs are paired on the same data."""
    tasks = {arm: settings.embedded.task for arm, settings in of_arms.items()}
    first, *others = tasks
    for other in others:
        if tasks[other] != tasks[first]:
            raise JobError(
                f"Without --data the phantom of {first} is {tasks[first]} and that of {other} {tasks[other]}: expected "
                "the same data for all. Give a federation that fits both with --data, or all the phantom of one with "
                f"--like {shell_word(first)}."
            )
