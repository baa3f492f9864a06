"""The choice of settings: each method has the same number of trials, on rows and seeds that are not reported."""

import math
import statistics
from collections.abc import Mapping
from pathlib import Path

from fedannot.apps.reports.compared_runs import ComparedRun, Comparison
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.checked_arms import check_arms
from fedannot.apps.runs.compare import RunsMissingError
from fedannot.apps.runs.installed import jobs_folder
from fedannot.apps.runs.job import JobError
from fedannot.apps.runs.output_request import folder_locked
from fedannot.apps.runs.progress import Progress
from fedannot.custom.methods import METHODS
from fedannot.custom.methods.lookup import find_method
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

from .arms import check_defined, jobs_by_method, known_settings, own_settings
from .figures import REFERENCE
from .request import LeagueRequest
from .rows import LeagueRow
from .running import compare_row, make_data
from .settings import CHOICES_FILE, FIRST_SEED_OF_CHOICE, Choice, tried_settings, write_choices

NUM_SEEDS = 2
SEEDS = range(FIRST_SEED_OF_CHOICE, FIRST_SEED_OF_CHOICE + NUM_SEEDS)
# Below the output folder.
_FOLDER = "settings"

# By method and number of its settings, in percent.
Scores = Mapping[tuple[str, int], float]


def choose_settings(request: LeagueRequest, progress: Progress) -> Path | None:
    """Try the settings of every method that has several, and record the best of each in the output folder.

    Rows of each kind have a choice of their own.

    Returns:
        The record; None if all rows have runs that are another share's or process's, so that nothing can be chosen yet.

    Raises:
        JobError, RunError: as :func:`fedannot.apps.runs.compare.compare`, of federated averaging.
        DataError: if the file of settings cannot be used.
    """
    chosen: list[Choice] = []
    is_open = False
    for name, row in request.rows.items():
        progress.tell(f"{name}: {row.what}")
        folder = request.out / _FOLDER / name
        data = make_data(folder, row, SEEDS, progress)
        arms, common = _tried_arms(row, data, request)
        if len(arms) == 1:
            continue
        try:
            comparison, failed = compare_row(folder, arms, common, SEEDS, request, progress)
        except RunsMissingError as missing:
            progress.tell(str(missing))
            is_open = True
            continue
        chosen += best_settings(name, row.task, _scores(comparison))
        for arm, why in failed.items():
            progress.tell(f"{name}: {arm}: {why}")
    if is_open and not chosen:
        return None
    with folder_locked(request.out):
        write_choices(request.out, chosen)
    return request.out / CHOICES_FILE


def best_settings(row: str, task: str, scores: Scores) -> list[Choice]:
    """Return of each method the settings with the highest score; of equal ones the first.

    Settings of which a run failed are not chosen, but the published ones where all did.

    Args:
        row: where they were tried.
        task: what is learnt there.
        scores: of all settings.
    """
    choices = []
    for method in dict.fromkeys(method for method, _ in scores):
        tried = tried_settings(method)
        of_settings = [scores.get((method, number)) for number in range(len(tried))]
        ranked = [-math.inf if score is None else score for score in of_settings]
        choices.append(
            Choice.model_validate(
                {
                    "task": task,
                    "method": method,
                    "tried": tried,
                    "rows": (row,),
                    "seeds": tuple(SEEDS),
                    "scores": [(score,) for score in of_settings],
                    "chosen": ranked.index(max(ranked)),
                }
            )
        )
    return choices


def _tried_arms(row: LeagueRow, data: str, request: LeagueRequest) -> tuple[list[Arm], dict[str, object]]:
    """Federated averaging, and every method that has several settings with each of them; what all have alike."""
    jobs = jobs_by_method(jobs_folder(request.jobs))
    reference = Arm(REFERENCE, jobs[row.task, REFERENCE])
    common = known_settings(reference.job, row.settings)
    arms = [reference]
    for method in METHODS:
        tried = tried_settings(method.name)
        asked = request.methods is None or method.name in request.methods
        if method.task != row.task or len(tried) == 1 or not asked:
            continue
        try:
            check_defined(method, row, jobs, data, SEEDS)
            job = jobs[method.task, method.name]
            given = own_settings(job, row, common)
            of_method = [Arm(_name(method.name, number), job, given | one) for number, one in enumerate(tried)]
            # As in the league: a method whose published form a row's settings do not allow is not defined there.
            check_arms([reference, of_method[0]], data=data, seeds=SEEDS, overrides=common, like=REFERENCE)
        except (JobError, SettingsError, DataError):
            continue
        arms += of_method
    # What the file of settings has wrong is said before anything runs.
    check_arms(arms, data=data, seeds=SEEDS, overrides=common, like=REFERENCE)
    return arms, common


def _name(method: str, number: int) -> str:
    return f"{method}.{number}"


def _scores(comparison: Comparison) -> dict[tuple[str, int], float]:
    """The mean score of each method with each of its settings, without federated averaging."""
    result = {}
    for arm in comparison.arms:
        if arm != comparison.reference:
            method, _, number = arm.rpartition(".")
            result[method, int(number)] = statistics.fmean(map(_score, comparison.of_arm(arm)))
    return result


def _score(run: ComparedRun) -> float:
    """What a method is chosen by: its models of the sites on their own cases, where it has such; else the global one.

    In percent.
    """
    if issubclass(find_method(run.task, run.method).settings, PersonalSettings) and run.centres and run.centres.own:
        return 100 * statistics.fmean(run.centres.own.values())
    return 100 * (run.main_score or 0.0)
