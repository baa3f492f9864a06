"""What is compared: jobs, or one job with several settings."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...custom.components.merging import merged
from ...custom.settings import SettingValues
from ...transforms.errors import did_you_mean
from .job import Job, JobError, check_runs_in_process
from .overrides import parse_override

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Arm:
    """One of the things that are compared: a job, with settings of its own where they differ from the job's.

    Attributes:
        name: how it is called in the comparison.
        job: the job's folder.
        overrides: settings that this arm alone changes.
        shared_rounds: rounds at the start that are those of the reference, from whose run the arm branches after them.

    >>> from fedannot.apps import Arm
    >>> Arm("short warm-up", Path("fedaaai"), {"warmup_rounds": 2}).overrides
    {'warmup_rounds': 2}
    """

    name: str
    job: Path
    overrides: Mapping[str, Any] = field(default_factory=dict)
    shared_rounds: int = 0


@dataclass(frozen=True)
class PlannedArm:
    """An arm whose job is open.

    Attributes:
        name: how it is called in the comparison.
        job: the job.
        overrides: all settings that differ from the job's own.
        shared_rounds: rounds at the start that are those of the reference.
        own_keys: settings that this arm alone changes, with those that a recipe among them gives.
    """

    name: str
    job: Job
    overrides: Mapping[str, Any]
    shared_rounds: int
    own_keys: frozenset[str] = frozenset()


def parse_arms(jobs: Sequence[str], settings: Sequence[str]) -> tuple[list[Arm], SettingValues]:
    """Read what a person wants to compare; return the arms, and the settings that are for all.

    Args:
        jobs: job folders, each an arm with the folder's name, or ``NAME=FOLDER`` for another name.
        settings: ``KEY=VALUE`` for all arms, ``NAME:KEY=VALUE`` for one.

    Raises:
        JobError: if a setting is for an arm that there is not, or a name is none.
        SettingsError: if a setting cannot be read.

    >>> arms, common = parse_arms(["fedavg", "short=fedaaai"], ["rounds=12", "short:warmup_rounds=2"])
    >>> [arm.name for arm in arms], arms[1].overrides, common
    (['fedavg', 'short'], {'warmup_rounds': 2}, {'rounds': 12})
    """
    folders = dict(_named_folder(text) for text in jobs)
    if len(folders) < len(jobs):
        raise JobError(
            f"Expected jobs of different names, but got {', '.join(jobs)}; NAME=JOB gives a job another name."
        )
    common: SettingValues = {}
    own: dict[str, SettingValues] = {name: {} for name in folders}
    for text in settings:
        key, value = parse_override(text)
        # Keys of settings have no colon; values may.
        name, colon, own_key = (part.strip() for part in key.rpartition(":"))
        if not colon:
            common[key] = value
        elif not own_key:
            raise JobError(f"--set {text}: expected the name of a setting after {name}:, but found none.")
        elif name in own:
            own[name][own_key] = value
        else:
            raise JobError(
                f"--set {text}: there is no arm {name!r}{did_you_mean(name, list(own))} Arms: {', '.join(own)}; "
                "expected KEY=VALUE for all of them, or ARM:KEY=VALUE for one."
            )
    return [Arm(name, folder, own[name]) for name, folder in folders.items()], common


def _named_folder(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals or Path(text).is_dir():
        return (Path(text).name or Path(text).resolve().name), Path(text)
    if not _NAME.fullmatch(name) or not folder:
        raise JobError(
            f"Expected a job's folder, or NAME=FOLDER with a name of letters, digits, '.', '_' and '-': {text}."
        )
    return name, Path(folder)


def plan(arms: Sequence[Arm], overrides: Mapping[str, Any]) -> list[PlannedArm]:
    """Open the jobs; common overrides reach the jobs that have the setting, an arm's own must be known to its job.

    Args:
        arms: what is compared; the first is the reference.
        overrides: settings to change in every arm whose job has them.

    Raises:
        JobError: if there is no arm or two have one name, a job cannot be opened or run in one process, the jobs are
            for different tasks, no job has a setting, or the reference branches.
        SettingsError: if a job's settings cannot be used.
    """
    names = [arm.name for arm in arms]
    if not names or len(set(names)) < len(names):
        raise JobError(f"Expected arms (jobs, or one job with several settings) of different names, but got {names}.")
    opened = {folder: Job.open(folder) for folder in dict.fromkeys(arm.job for arm in arms)}
    _check_tasks(list(opened.values()))
    for job in opened.values():
        check_runs_in_process(job)
    jobs = [opened[arm.job] for arm in arms]
    arms = [
        replace(arm, overrides=job.current_names(merged(arm.overrides))) for arm, job in zip(arms, jobs, strict=True)
    ]
    for job in jobs:
        overrides = job.current_names(merged(overrides))
    known = [job.known_names(merged(overrides, arm.overrides)) for arm, job in zip(arms, jobs, strict=True)]
    _check_known(arms, known, overrides)
    if arms[0].shared_rounds:
        raise JobError(f"{arms[0].name} is the reference and has no run to branch from, but {arms[0].shared_rounds=}.")
    planned = [
        PlannedArm(
            arm.name,
            job,
            merged({key: value for key, value in overrides.items() if key in keys}, arm.overrides),
            arm.shared_rounds,
            frozenset({*arm.overrides, *job.recipe_changes(arm.overrides)}),
        )
        for arm, job, keys in zip(arms, jobs, known, strict=True)
    ]
    if kept := {arm.shared_rounds for arm in arms} - {0}:
        # Of its own it may keep those of arms that are added later.
        every = sorted(kept | set(planned[0].overrides.get("keep_rounds", ())))
        planned[0] = replace(planned[0], overrides={**planned[0].overrides, "keep_rounds": every})
    return planned


def _check_tasks(jobs: Sequence[Job]) -> None:
    """Scores of different tasks are not to be compared."""
    first = jobs[0]
    for other in jobs[1:]:
        tasks = first.settings().task, other.settings().task
        if tasks[0] != tasks[1]:
            raise JobError(
                f"{first.folder} is for {tasks[0]} and {other.folder} for {tasks[1]}: expected jobs of one task, since "
                "scores of different tasks cannot be compared."
            )


def _check_known(arms: Sequence[Arm], known: Sequence[Collection[str]], overrides: Mapping[str, Any]) -> None:
    every = sorted({key for keys in known for key in keys})
    if unknown := sorted(set(overrides) - set(every)):
        raise JobError(f"No job has the settings {unknown}{did_you_mean(unknown[0], every)}")
    for arm, keys in zip(arms, known, strict=True):
        if unknown := sorted(set(arm.overrides) - set(keys)):
            raise JobError(
                f"{arm.name}: the job {arm.job} has no settings {unknown}{did_you_mean(unknown[0], list(keys))}"
            )
