"""`fedannot bench league`: every method of a task on every row, by comparisons whose finished runs are kept."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedannot.apps.commands.bench import BenchmarkError
from fedannot.apps.planning.plan import plan
from fedannot.apps.reports.compared_runs import Comparison
from fedannot.apps.reports.comparison_page import run_folder
from fedannot.apps.runs.arm_run import is_run_elsewhere
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.checked_arms import check_arms
from fedannot.apps.runs.compare import RunsMissingError, compare
from fedannot.apps.runs.in_process import RunError
from fedannot.apps.runs.installed import META_FILE, jobs_folder
from fedannot.apps.runs.job import Job, JobError, check_runs_in_process
from fedannot.apps.runs.output_request import folder_locked
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.run_share import RunShare
from fedannot.custom.data.datalist import VALIDATION
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import count_cases
from fedannot.custom.data.whole_files import private_folder, write_text
from fedannot.custom.interface.declaration import Method
from fedannot.custom.methods import METHODS
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.run.state import SUMMARY_FILE
from fedannot.custom.settings import SettingsError
from fedannot.transforms.errors import DataError

from . import fedgsca, fedia
from .league_figures import (
    LEAGUE_FILE,
    AbsentMethod,
    League,
    LeagueFigures,
    method_figures,
    read_league,
    write_league,
)
from .league_rows import LeagueRow
from .league_tables import REFERENCE, league_page

# Published values, where a job has a form of its own.
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "feda3i": {"group_test_level": 1.0, "min_predicted_fraction": 0.0, "max_extra_warmup_rounds": 0},
    "fedia": fedia.PUBLISHED,
    "fedgsca": fedgsca.PUBLISHED,
}
NO_MODEL = frozenset({"audit", "audit_classification", "fingerprint"})


@dataclass(frozen=True)
class LeagueRequest:
    """What is to be made.

    Attributes:
        rows: by name.
        methods: names of methods; None for all.
        seeds: of each row.
        out: output folder.
        jobs: a folder of jobs; None for those that are installed.
        only: the share of each row's runs that is made here.
        processes: runs at a time; None for one per core.
    """

    rows: Mapping[str, LeagueRow]
    methods: Sequence[str] | None
    seeds: Sequence[int]
    out: Path
    jobs: Path | None = None
    only: RunShare | None = None
    processes: int | None = None


def chosen_methods(names: str | None) -> list[str] | None:
    """Return the methods named in a list with commas, None for all.

    Raises:
        BenchmarkError: if there is no such method.
    """
    if names is None:
        return None
    asked, known = [name.strip() for name in names.split(",")], {method.name for method in METHODS}
    if unknown := [name for name in asked if name not in known]:
        raise BenchmarkError(f"There are no methods {unknown}; the methods are: {', '.join(sorted(known))}.")
    return asked


def use_packs(rows: Mapping[str, LeagueRow], data: Path | None, *, chosen: bool) -> dict[str, LeagueRow]:
    """Return the rows that can be made, and let their writers find the packs of real images.

    Args:
        rows: by name.
        data: the folder of the packs; None for that of the environment variable FEDANNOT_REAL_DATA.
        chosen: whether a person has named the rows; else rows whose packs are absent are left out.

    Raises:
        BenchmarkError: if a named row needs packs that are absent.
    """
    if data is not None:
        if not data.is_dir():
            raise BenchmarkError(f"--data: found no folder {data}; expected that of the packs of real images.")
        os.environ["FEDANNOT_REAL_DATA"] = str(data)
    if "FEDANNOT_REAL_DATA" in os.environ:
        return dict(rows)
    if chosen and (absent := [name for name, row in rows.items() if row.needs_data]):
        raise BenchmarkError(
            f"The rows {', '.join(absent)} are made of packs of real images; name their folder: --data."
        )
    return {name: row for name, row in rows.items() if not row.needs_data}


def make_league(request: LeagueRequest, progress: Progress) -> Path:
    """Run what is missing row by row, write the league after each of them, and return its page.

    Rows that the output folder has from earlier calls stay. A row some of whose runs are another share's, or of another
    process, is left for whoever finishes it.

    Raises:
        JobError, RunError: as :func:`fedannot.apps.runs.compare.compare`, of federated averaging.
    """
    private_folder(request.out)
    page = request.out / "league.md"
    for name, row in request.rows.items():
        progress.tell(f"{name}: {row.what}")
        try:
            figures = _run_row(name, row, request, progress)
        except RunsMissingError as missing:
            progress.tell(str(missing))
            continue
        with folder_locked(request.out):
            earlier = read_league(request.out / LEAGUE_FILE)
            rows = {known.row: known for known in earlier.rows} | {name: figures}
            league = League(rows=tuple(rows.values()))
            write_league(league, request.out / LEAGUE_FILE)
            write_text(page, league_page(league), shared=True)
    return page


def planned_lines(request: LeagueRequest, progress: Progress) -> list[str]:
    """Return what would run, a line for each row with its hours, by measured steps of federated averaging.

    The data of the first seed are written into the output folder.
    """
    lines, hours = [], 0.0
    seeds = request.seeds
    for name, row in request.rows.items():
        data = _make_data(name, row, request, seeds[:1], progress)
        arms, absent = league_arms(row, data, seeds[:1], request)
        reference = arms[0].job
        settings = _known_settings(reference, row.settings)
        measured = plan(reference, data=data.replace("{seed}", str(seeds[0])), changes=settings)
        of_row = measured.seconds * len(arms) * len(seeds) / 3600
        hours += of_row
        lines.append(
            f"{name}: {len(arms)} methods × {len(seeds)} seeds, about {of_row:.2f} core hours: "
            f"{', '.join(arm.name for arm in arms)}"
        )
        lines += [f"  not defined: {method.method}: {method.reason}" for method in absent]
    return [*lines, f"All rows: about {hours:.2f} core hours. Methods that train more than FedAvg take longer."]


def league_arms(
    row: LeagueRow, data: str, seeds: Sequence[int], request: LeagueRequest
) -> tuple[list[Arm], list[AbsentMethod]]:
    """Return the arms of a row, federated averaging first, and the methods that are not defined on its data.

    Args:
        row: the row.
        data: its federations, with ``{seed}`` for the seed; they exist.
        seeds: of the row.
        request: which methods, and where jobs are.
    """
    jobs = _jobs_by_method(jobs_folder(request.jobs))
    reference = Arm(REFERENCE, jobs[row.task, REFERENCE])
    arms, absent = [reference], []
    # The same name may be a method of both tasks.
    of_task = {method.name: method for method in sorted(METHODS, key=lambda method: method.task == row.task)}
    for name, method in of_task.items():
        if name == REFERENCE or (request.methods is not None and name not in request.methods):
            continue
        try:
            arms.append(_arm(method, row, jobs, data, seeds, reference))
        except (JobError, SettingsError, DataError) as error:
            absent.append(AbsentMethod(method=name, status="not defined", reason=str(error)))
    return arms, absent


def _arm(
    method: Method,
    row: LeagueRow,
    jobs: Mapping[tuple[str, str], Path],
    data: str,
    seeds: Sequence[int],
    reference: Arm,
) -> Arm:
    """The arm of a method; any of the errors that are caught above where the method is not defined on the row."""
    if method.task != row.task:
        raise JobError(f"It is for {method.task}.")
    if method.name in NO_MODEL:
        raise JobError("It makes no model to compare.")
    if (method.task, method.name) not in jobs:
        raise JobError("No job of it runs in one process.")
    if issubclass(method.settings, PersonalSettings) and not _has_own_cases(data, seeds):
        raise JobError("Sites of this row keep no cases on which a model of their own is scored.")
    job, common = jobs[method.task, method.name], _known_settings(reference.job, row.settings)
    # What federated averaging has no setting for is the method's own, such as the length of a warm-up.
    of_methods = {key: value for key, value in row.settings.items() if key not in common}
    arm = Arm(method.name, job, _known_settings(job, of_methods) | PUBLISHED.get(method.name, {}))
    check_arms([reference, arm], data=data, seeds=seeds, overrides=common, like=REFERENCE)
    return arm


def _jobs_by_method(folder: Path) -> dict[tuple[str, str], Path]:
    """Folders of the jobs that run in one process, by task and method."""
    result: dict[tuple[str, str], Path] = {}
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


def _known_settings(job: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    known = Job.open(job).known_names(dict(settings))
    return {key: value for key, value in settings.items() if key in known}


def _make_data(name: str, row: LeagueRow, request: LeagueRequest, seeds: Sequence[int], progress: Progress) -> str:
    """Make a row's federations where they are absent; one process makes them, and others wait."""
    folder = request.out / name / "data"
    private_folder(folder)
    with folder_locked(folder):
        for seed in seeds:
            data = folder / f"seed{seed}"
            if not data.exists():
                progress.state(f"{name}: making the data of seed {seed}.")
                row.make(data, seed)
    return str(folder / "seed{seed}")


def _run_row(name: str, row: LeagueRow, request: LeagueRequest, progress: Progress) -> LeagueFigures:
    data = _make_data(name, row, request, request.seeds, progress)
    arms, absent = league_arms(row, data, request.seeds, request)
    runs = request.out / name / "runs"

    def compared(of_arms: Sequence[Arm]) -> Comparison:
        return compare(
            of_arms,
            runs,
            data=data,
            seeds=request.seeds,
            overrides=_known_settings(arms[0].job, row.settings),
            like=REFERENCE,
            processes=request.processes,
            only=request.only,
            progress=progress,
        )

    try:
        comparison = compared(arms)
    except RunsMissingError:
        raise
    except RunError as error:
        progress.tell(f"{name}: {error}")
        failed = {arm.name: text for arm in arms if (text := _failure(runs, arm.name, request.seeds)) is not None}
        if REFERENCE in failed or not failed:
            raise
        absent += [AbsentMethod(method=arm, status="failed", reason=text) for arm, text in failed.items()]
        comparison = compared([arm for arm in arms if arm.name not in failed])
    return LeagueFigures(
        row=name,
        what=row.what,
        task=row.task,
        clean=row.clean,
        seeds=tuple(request.seeds),
        methods=tuple(method_figures(comparison, arm, runs) for arm in comparison.arms),
        absent=tuple(absent),
    )


def _failure(runs: Path, arm: str, seeds: Sequence[int]) -> str | None:
    """The last line of the log of a method's first run that is over without a summary; None if there is none."""
    for seed in seeds:
        folder = run_folder(runs, arm, seed)
        log = folder.parent / f"{folder.name}.log"
        if not (folder / SUMMARY_FILE).is_file() and log.is_file() and not is_run_elsewhere(folder):
            return (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
    return None
