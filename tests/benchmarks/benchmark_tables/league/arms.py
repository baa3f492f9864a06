"""The arms of a row: the methods that are defined on its data, each with its job and settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.checked_arms import check_arms
from fedannot.apps.runs.installed import META_FILE, jobs_folder
from fedannot.apps.runs.job import Job, JobError, check_runs_in_process
from fedannot.custom.data.datalist import VALIDATION
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import count_cases
from fedannot.custom.interface.declaration import Method
from fedannot.custom.methods import METHODS
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

from .figures import REFERENCE, AbsentMethod
from .request import LeagueRequest
from .rows import LeagueRow
from .settings import Choice, MethodKey, choice_for, published

NO_MODEL = frozenset({"audit", "audit_classification", "fingerprint"})


@dataclass(frozen=True)
class LeagueArms:
    """What is compared on a row.

    Attributes:
        arms: federated averaging first, each called as its method.
        absent: the methods that are not defined on the row's data.
        common: settings of all arms that have them.
    """

    arms: Sequence[Arm]
    absent: Sequence[AbsentMethod]
    common: Mapping[str, Any]


def league_arms(
    row: LeagueRow,
    data: str,
    seeds: Sequence[int],
    request: LeagueRequest,
    choices: Sequence[Choice],
) -> LeagueArms:
    """Return the arms of a row.

    Args:
        row: the row.
        data: its federations, with ``{seed}`` for the seed; they exist.
        seeds: of the row.
        request: which methods, and where jobs are.
        choices: of settings of methods that have others than the published ones.
    """
    jobs = jobs_by_method(jobs_folder(request.jobs))
    reference = Arm(REFERENCE, jobs[row.task, REFERENCE])
    common = known_settings(reference.job, row.settings)
    arms, absent = [reference], []
    # The same name may be a method of both tasks.
    of_task = {method.name: method for method in sorted(METHODS, key=lambda method: method.task == row.task)}
    for name, method in of_task.items():
        if name == REFERENCE or (request.methods is not None and name not in request.methods):
            continue
        try:
            check_defined(method, row, jobs, data, seeds)
            job = jobs[method.task, name]
            choice = choice_for(row.task, name, row.tuning_row, choices)
            given = published(name) if choice is None else choice.best
            arm = Arm(name, job, own_settings(job, row, common) | given)
            check_arms([reference, arm], data=data, seeds=seeds, overrides=common, like=REFERENCE)
            arms.append(arm)
        except (JobError, SettingsError, DataError) as error:
            absent.append(AbsentMethod(method=name, status="not defined", reason=str(error)))
    return LeagueArms(arms, absent, common)


def check_defined(
    method: Method, row: LeagueRow, jobs: Mapping[MethodKey, Path], data: str, seeds: Sequence[int]
) -> None:
    """Check that a method has a model that is scored on a row's data.

    Raises:
        JobError: if it has none.
    """
    if method.task != row.task:
        raise JobError(f"It is for {method.task}.")
    if method.name in NO_MODEL:
        raise JobError("It makes no model to compare.")
    if (method.task, method.name) not in jobs:
        raise JobError("No job of it runs in one process.")
    if issubclass(method.settings, PersonalSettings) and not _has_own_cases(data, seeds):
        raise JobError("Sites of this row keep no cases on which a model of their own is scored.")


def own_settings(job: Path, row: LeagueRow, common: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's settings for what federated averaging has none for, such as the length of a warm-up."""
    return known_settings(job, {key: value for key, value in row.settings.items() if key not in common})


def known_settings(job: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the settings that a job has."""
    known = Job.open(job).known_names(dict(settings))
    return {key: value for key, value in settings.items() if key in known}


def jobs_by_method(folder: Path) -> dict[MethodKey, Path]:
    """Return the folders of the jobs that run in one process, by task and method."""
    result: dict[MethodKey, Path] = {}
    for path in sorted(folder.iterdir()):
        if not (path / META_FILE).is_file():
            continue
        job = Job.open(path)
        try:
            check_runs_in_process(job)
        except JobError:
            continue
        settings = job.settings()
        result.setdefault((settings.task, settings.method), path)
    return result


def _has_own_cases(data: str, seeds: Sequence[int]) -> bool:
    folder = Path(data.replace("{seed}", str(seeds[0])))
    return any(count_cases(folder / site, VALIDATION) for site in read_federation(folder).sites)
