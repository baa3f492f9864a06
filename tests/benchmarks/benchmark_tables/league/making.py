"""`fedannot bench league`: every method of a task on every row, by comparisons whose finished runs are kept."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedannot.apps.commands.bench import BenchmarkError
from fedannot.apps.planning.plan import plan as measured_plan
from fedannot.apps.reports.comparison_page import REQUEST_FILE
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.compare import RunsMissingError
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.output_request import folder_locked
from fedannot.apps.runs.progress import Progress
from fedannot.custom.data.whole_files import private_folder, write_text
from fedannot.custom.methods import METHODS
from fedannot.transforms.errors import DataError
from fedannot.transforms.strict_files import read_json

from .arms import known_settings, league_arms
from .choosing import choose_settings
from .figures import LEAGUE_FILE, REFERENCE, AbsentMethod, League, LeagueFigures, read_league, write_league
from .page import league_page
from .request import LeagueRequest
from .rows import ROWS, LeagueRow
from .running import RUNS_FOLDER, check_data, compare_row, data_of, is_finished, make_data
from .runs import finished_comparison, row_figures
from .settings import Choice, merged_choices, read_choices, usable_choices
from .tables import figures_page

PAGE_FILE, FIGURES_FILE = "league.md", "league_figures.md"


def done(
    request: LeagueRequest,
    progress: Progress,
    *,
    plan: bool = False,
    choose: bool = False,
    table: Path | None = None,
) -> list[str]:
    """Do what the command is asked for, and return what it says at the end.

    Args:
        request: rows, methods, seeds and folders; the rows of :data:`.TUNING_ROWS` to choose settings.
        progress: is told.
        plan: say what would run, and run nothing.
        choose: choose settings, and make no row.
        table: write the league of the finished runs there, and run nothing.

    Raises:
        BenchmarkError, JobError, RunError, DataError: as the function for it.
    """
    if plan:
        return planned_lines(request, progress)
    if choose:
        record = choose_settings(request, progress)
        return ["Nothing is chosen yet." if record is None else f"Chosen settings: {record}"]
    page = make_league(request, progress) if table is None else write_finished(request, table, progress)
    return [f"League: {page}, {page.with_suffix('.json')}"] if page.is_file() else ["No row is finished yet."]


def make_league(request: LeagueRequest, progress: Progress) -> Path:
    """Run what is missing row by row, write the league after each of them, and return its page.

    What the output folder has of other rows, or more of the same, stays. A row some of whose runs are another share's,
    or of another process, is left for whoever finishes it.

    Raises:
        BenchmarkError: as :func:`.usable_choices`.
        JobError, RunError: as :func:`fedannot.apps.runs.compare.compare`, of federated averaging.
    """
    private_folder(request.out)
    choices = usable_choices(request.out, request.seeds)
    for name, row in request.rows.items():
        progress.tell(f"{name}: {row.what}")
        try:
            figures = _run_row(name, row, request, choices, progress)
        except RunsMissingError as missing:
            progress.tell(str(missing))
            continue
        with folder_locked(request.out):
            write_pages(_with_rows(request.out, [figures], read_choices(request.out), progress), request.out)
    return request.out / PAGE_FILE


def _with_rows(folder: Path, rows: Sequence[LeagueFigures], choices: Sequence[Choice], progress: Progress) -> League:
    """A folder's league with further rows, in the order of :data:`.ROWS`, and further choices.

    A row takes the place of one with the same name, unless that one has a method or a seed on the same data that the
    row lacks: then it stays. Methods that there are no more may be lacking.
    """
    earlier, places = read_league(folder / LEAGUE_FILE), list(ROWS)
    by_name = {row.row: row for row in earlier.rows}
    for row in rows:
        known = by_name.setdefault(row.row, row)
        if row.what == known.what and (lost := _known_results(known) - row.results):
            progress.tell(
                f"{row.row}: stays as {folder / LEAGUE_FILE} has it. These runs lack "
                f"{_listed(method for method, _ in lost)} of seed {_listed(seed for _, seed in lost)}. To replace the "
                "row, run these as well, or choose another folder."
            )
        else:
            by_name[row.row] = row
    ordered = sorted(by_name, key=lambda name: places.index(name) if name in places else len(places))
    return League(rows=tuple(by_name[name] for name in ordered), choices=merged_choices(earlier.choices, choices))


def _known_results(row: LeagueFigures) -> frozenset[tuple[str, int]]:
    known = {method.name for method in METHODS}
    return frozenset(result for result in row.results if result[0] in known)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(set(values), key=str)))


def write_pages(league: League, folder: Path) -> None:
    """Write the figures, the page, and the page with the tables."""
    write_league(league, folder / LEAGUE_FILE)
    write_text(folder / PAGE_FILE, league_page(league), shared=True)
    write_text(folder / FIGURES_FILE, figures_page(league), shared=True)


def write_finished(request: LeagueRequest, folder: Path, progress: Progress) -> Path:
    """Write the league of the runs that are finished, and return its page; nothing is run or changed where they are.

    The seeds of a row are those that all methods have finished; where there is none, those of federated averaging. A
    method that has not finished them is named. What the folder has of other rows, or more of the same, stays.

    Args:
        request: rows, methods, seeds, and the folder of the runs.
        folder: where the league is written.
        progress: names each row and seed that does not count.

    Raises:
        BenchmarkError: if there is no such row.
        DataError: if a run cannot be read, or is of other data or settings than the row has now.
    """
    rows = []
    for name, row in request.rows.items():
        if (figures := _finished_row(name, row, request, progress)) is None:
            progress.tell(f"{name}: {REFERENCE} is not finished.")
        else:
            rows.append(figures)
    if not rows:
        raise BenchmarkError(f"{request.out}: found no finished run of {REFERENCE}; expected that of any row and seed.")
    folder.mkdir(parents=True, exist_ok=True)
    write_pages(_with_rows(folder, rows, read_choices(request.out), progress), folder)
    return folder / PAGE_FILE


def planned_lines(request: LeagueRequest, progress: Progress) -> list[str]:
    """Return what would run, a line for each row with its hours, by measured steps of federated averaging.

    The data of the first seed are written into the output folder.
    """
    lines, hours = [], 0.0
    seeds = request.seeds
    choices = usable_choices(request.out, seeds)
    for name, row in request.rows.items():
        data = make_data(request.out / name, row, seeds[:1], progress)
        defined = league_arms(row, data, seeds[:1], request, choices)
        reference = defined.arms[0].job
        settings = known_settings(reference, row.settings)
        measured = measured_plan(reference, data=data.replace("{seed}", str(seeds[0])), changes=settings)
        steps = sum(_step_factor(arm, defined.common) for arm in defined.arms)
        of_row = measured.seconds * steps * len(seeds) / 3600
        hours += of_row
        lines.append(
            f"{name}: {len(defined.arms)} methods × {len(seeds)} seeds, about {of_row:.2f} core hours: "
            f"{', '.join(arm.name for arm in defined.arms)}"
        )
        lines += [f"  not defined: {method.method}: {method.reason}" for method in defined.absent]
    return [*lines, f"All rows: about {hours:.2f} core hours. What methods ask of sites beside training takes longer."]


def _step_factor(arm: Arm, common: Mapping[str, Any]) -> float:
    return Job.open(arm.job).settings_with(known_settings(arm.job, common) | arm.overrides).step_factor


def _run_row(
    name: str,
    row: LeagueRow,
    request: LeagueRequest,
    choices: Sequence[Choice],
    progress: Progress,
) -> LeagueFigures:
    folder = request.out / name
    data = make_data(folder, row, request.seeds, progress)
    defined = league_arms(row, data, request.seeds, request, choices)
    comparison, failed = compare_row(folder, defined.arms, defined.common, request.seeds, request, progress)
    absent = [AbsentMethod(method=arm, status="failed", reason=text) for arm, text in failed.items()]
    return row_figures(name, row, comparison, folder / RUNS_FOLDER, [*defined.absent, *absent])


def _finished_row(name: str, row: LeagueRow, request: LeagueRequest, progress: Progress) -> LeagueFigures | None:
    """A row's figures as far as its runs are finished; None without federated averaging."""
    folder = request.out / name
    runs, data = folder / RUNS_FOLDER, data_of(folder)
    of_reference = [seed for seed in request.seeds if is_finished(runs, REFERENCE, seed)]
    if not (runs / REQUEST_FILE).is_file() or not of_reference:
        return None
    check_data(folder, row)
    for seed in of_reference:
        if not (federation := Path(data.replace("{seed}", str(seed)))).is_dir():
            raise DataError(f"{federation}: found no folder; expected the data of the row's finished runs.")
    defined = league_arms(row, data, of_reference, request, ())
    _check_settings(runs / REQUEST_FILE, defined.common)
    whole = [seed for seed in of_reference if all(is_finished(runs, arm.name, seed) for arm in defined.arms)]
    seeds = whole or of_reference
    for seed in of_reference:
        if seed not in seeds:
            lacking = [arm.name for arm in defined.arms if not is_finished(runs, arm.name, seed)]
            progress.tell(f"{name}: seed {seed} is left out; it is not finished by {', '.join(lacking)}.")
    finished = [arm.name for arm in defined.arms if all(is_finished(runs, arm.name, seed) for seed in seeds)]
    absent = [*defined.absent, *(_unfinished(runs, arm, seeds) for arm in defined.arms if arm.name not in finished)]
    return row_figures(name, row, finished_comparison(runs, finished, data, seeds), runs, absent)


def _check_settings(file: Path, common: Mapping[str, Any]) -> None:
    """Check that finished runs have the settings that a row has now."""
    given = read_json(file, "what was compared")["overrides"]
    if given != dict(common):
        raise DataError(f"{file}: found runs with {given}; expected the row's settings {dict(common)}.")


def _unfinished(runs: Path, arm: Arm, seeds: Sequence[int]) -> AbsentMethod:
    count = sum(is_finished(runs, arm.name, seed) for seed in seeds)
    return AbsentMethod(method=arm.name, status="unfinished", reason=f"{count} of {len(seeds)} seeds are finished.")
