"""What `fedannot bench` does: list the rows of a benchmark, or make its table."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from fedannot.apps.runs.ray_engine import RayEngine
from fedannot.apps.terminal import Terminal

from .rows import Row, chosen_rows, run_row
from .tables import write_table

# The module with the rows, where a benchmark has another name than its module.
_MODULES = {"auto-labels": "auto_classification"}


def rows_of(benchmark: str) -> Mapping[str, Row]:
    """Return all rows of a benchmark, by its name on the command line."""
    rows: Mapping[str, Row] = import_module(f".{_MODULES.get(benchmark, benchmark)}", __package__).ROWS
    return rows


def list_rows(benchmark: str, names: str | None) -> None:
    """Print rows of a benchmark and what each compares.

    Args:
        benchmark: its name on the command line.
        names: those of the rows, separated by commas; None for all.

    Raises:
        BenchmarkError: if there is no such row.
    """
    console = Terminal()
    for name, row in chosen_rows(rows_of(benchmark), names).items():
        console.print_named(name, f"  {row.what}: {', '.join(arm.name for arm in row.arms)}")


def make_table(
    benchmark: str, names: str | None, *, jobs: Path | None, seeds: range, out: Path, engine: RayEngine | None = None
) -> Path:
    """Run rows of a benchmark, write the table after each of them, and return its file.

    Args:
        benchmark: its name on the command line.
        names: those of the rows, separated by commas; None for all.
        jobs: a folder of jobs; None for those that are installed.
        seeds: of each row.
        out: output folder.
        engine: what is asked of Ray; None for processes of this machine.

    Raises:
        BenchmarkError: if there is no such row.
        JobError, RunError: as :func:`fedannot.apps.runs.compare.compare`.
    """
    console, table = Terminal(), out / "table.json"
    for name, row in chosen_rows(rows_of(benchmark), names).items():
        write_table([run_row(name, row, jobs=jobs, seeds=seeds, out=out, console=console, engine=engine)], table)
    return table
