"""Rows of a benchmark: data made again for every seed, and what is compared on them."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedannot.apps.commands.bench import BenchmarkError
from fedannot.apps.reports.comparison import print_comparison
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.compare import compare
from fedannot.apps.runs.installed import jobs_folder
from fedannot.apps.runs.output_request import folder_locked
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.ray_engine import RayEngine
from fedannot.apps.terminal import Terminal
from fedannot.custom.data.whole_files import private_folder

from .figures import RowFigures, row_figures

MakeData = Callable[[Path, int], None]

_MAKING = "Making the data of seed {}."
# Where a federation is until it is whole.
_WORKPLACE = ".unfinished"


@dataclass(frozen=True)
class Row:
    """One comparison of a benchmark.

    Attributes:
        what: what the data are, for the table.
        make: writes a federation into a folder that does not exist yet, for a seed.
        arms: what is compared, the first is the reference; their jobs are names in the folder of jobs.
        settings: settings of all arms.
    """

    what: str
    make: MakeData
    arms: Sequence[Arm]
    settings: Mapping[str, Any] = field(default_factory=dict)


def chosen_rows(rows: Mapping[str, Row], names: str | None) -> dict[str, Row]:
    """Return the rows named in a list with commas, in that order; all where there is none.

    Raises:
        BenchmarkError: if there is no such row.
    """
    if names is None:
        return dict(rows)
    asked = [name.strip() for name in names.split(",")]
    if unknown := [name for name in asked if name not in rows]:
        raise BenchmarkError(f"There are no rows {unknown}; the rows are: {', '.join(rows)}.")
    return {name: rows[name] for name in asked}


def make_federations(folder: Path, make: MakeData, seeds: Sequence[int], told: Callable[[int], None]) -> None:
    """Make ``seedN`` for each seed N where it is absent; one process makes them, and others wait.

    Each appears as a whole: what a process that was killed has left is made again.

    Args:
        folder: of the federations.
        make: makes that of a seed.
        seeds: the seeds.
        told: is told each seed that is made.
    """
    private_folder(folder)
    with folder_locked(folder):
        for seed in seeds:
            if (data := folder / f"seed{seed}").exists():
                continue
            told(seed)
            workplace = folder / _WORKPLACE
            shutil.rmtree(workplace, ignore_errors=True)
            private_folder(workplace)
            make(workplace / data.name, seed)
            (workplace / data.name).rename(data)
            shutil.rmtree(workplace)


def run_row(
    name: str,
    row: Row,
    *,
    jobs: Path | None,
    seeds: Sequence[int],
    out: Path,
    console: Terminal,
    engine: RayEngine | None = None,
) -> RowFigures:
    """Make a row's data where they are absent, run what has not been run, and return the row's figures.

    Args:
        name: the row's name, its folder in the output folder.
        row: the row.
        jobs: a folder of jobs; None for those that are installed.
        seeds: a seed decides data, noise, start weights and order of samples.
        out: output folder of the benchmark.
        console: where the runs are shown.
        engine: what is asked of Ray; None for processes of this machine.

    Raises:
        JobError, RunError: as :func:`fedannot.apps.runs.compare.compare`.
    """
    folder = out / name
    # Tables are printed after it: it shares the terminal with them.
    with Progress() as progress:
        progress.tell(f"{name}: {row.what}")
        make_federations(folder / "data", row.make, seeds, lambda seed: progress.state(_MAKING.format(seed)))
        comparison = compare(
            [replace(arm, job=jobs_folder(jobs) / arm.job) for arm in row.arms],
            folder / "runs",
            data=str(folder / "data" / "seed{seed}"),
            seeds=seeds,
            overrides=row.settings,
            engine=engine,
            progress=progress,
        )
    console.print_named(name, f": {row.what}")
    print_comparison(comparison, console)
    return row_figures(name, row.what, comparison)
