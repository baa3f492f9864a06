"""Data and runs of a row: what is finished is kept, and a method that fails keeps no other from being compared."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedannot.apps.reports.compared_runs import Comparison
from fedannot.apps.reports.comparison_page import run_folder
from fedannot.apps.runs.arm_run import is_run_elsewhere
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.compare import RunsMissingError, compare
from fedannot.apps.runs.in_process import RunError
from fedannot.apps.runs.progress import Progress
from fedannot.custom.data.whole_files import private_folder, write_text
from fedannot.custom.run.state import SUMMARY_FILE
from fedannot.transforms.errors import DataError
from fedannot.transforms.strict_files import read_json

from ..rows import make_federations
from .figures import REFERENCE
from .request import LeagueRequest
from .rows import LeagueRow

DATA_FOLDER, RUNS_FOLDER, DATA_FILE = "data", "runs", "data.json"


def data_of(folder: Path) -> str:
    """Return where a row's federations are, with ``{seed}`` for the seed."""
    return str(folder / DATA_FOLDER / "seed{seed}")


def make_data(folder: Path, row: LeagueRow, seeds: Sequence[int], progress: Progress) -> str:
    """Make a row's federations where they are absent; one process makes them, and others wait.

    Args:
        folder: of the row.
        row: the row.
        seeds: the seeds.
        progress: is told.

    Raises:
        DataError: if the folder has other data.
    """
    private_folder(folder)
    check_data(folder, row)
    if not (folder / DATA_FILE).is_file():
        write_text(folder / DATA_FILE, json.dumps({"what": row.what}, ensure_ascii=False) + "\n")
    text = f"{folder.name}: making the data of seed {{}}."
    make_federations(folder / DATA_FOLDER, row.make, seeds, lambda seed: progress.state(text.format(seed)))
    return data_of(folder)


def check_data(folder: Path, row: LeagueRow) -> None:
    """Check that a row's folder has no other data than the row has now, as far as the folder says what it has.

    Raises:
        DataError: if it has.
    """
    file = folder / DATA_FILE
    if not file.is_file():
        return
    if (what := read_json(file, "what a row's data are").get("what")) != row.what:
        raise DataError(f"{file}: found data of {what!r}; expected {row.what!r}. Choose another output folder.")


def compare_row(
    folder: Path,
    arms: Sequence[Arm],
    common: Mapping[str, Any],
    seeds: Sequence[int],
    request: LeagueRequest,
    progress: Progress,
) -> tuple[Comparison, dict[str, str]]:
    """Run what is missing of a row, and return its comparison and why the methods are not in it that failed.

    Args:
        folder: of the row.
        arms: federated averaging first.
        common: settings of all arms.
        seeds: of each arm.
        request: the share, and runs at a time.
        progress: is told.

    Raises:
        RunsMissingError: if runs are another share's, or of another process.
        JobError, RunError: as :func:`fedannot.apps.runs.compare.compare`, of federated averaging.
    """
    runs = folder / RUNS_FOLDER

    def compared(of_arms: Sequence[Arm]) -> Comparison:
        return compare(
            of_arms,
            runs,
            data=data_of(folder),
            seeds=seeds,
            overrides=common,
            like=REFERENCE,
            processes=request.processes,
            engine=request.engine,
            only=request.only,
            root=folder,
            progress=progress,
        )

    try:
        return compared(arms), {}
    except RunsMissingError:
        raise
    except RunError as error:
        progress.tell(f"{folder.name}: {error}")
        failed = {arm.name: text for arm in arms if (text := _failure(runs, arm.name, seeds)) is not None}
        if REFERENCE in failed or not failed:
            raise
        return compared([arm for arm in arms if arm.name not in failed]), failed


def is_finished(runs: Path, arm: str, seed: int) -> bool:
    """Return whether a run is over with a summary, and no process works on it."""
    folder = run_folder(runs, arm, seed)
    return (folder / SUMMARY_FILE).is_file() and not is_run_elsewhere(folder)


def _failure(runs: Path, arm: str, seeds: Sequence[int]) -> str | None:
    """The last line of the log of a method's first run that is over without a summary; None if there is none."""
    for seed in seeds:
        folder = run_folder(runs, arm, seed)
        log = folder.parent / f"{folder.name}.log"
        if not (folder / SUMMARY_FILE).is_file() and log.is_file() and not is_run_elsewhere(folder):
            return (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
    return None
