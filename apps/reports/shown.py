"""A finished run or comparison, shown: collected where NVFlare made it, printed, and as a report."""

from contextlib import nullcontext
from pathlib import Path

from ..terminal import Terminal
from .compared_runs import read_comparison
from .comparison import print_comparison
from .comparison_page import write_comparison_page
from .output import collect_output, find_run_folder, has_server_summary, is_output, read_summary
from .pictures import draw_run
from .run_page import write_run_page
from .summary_text import print_difference, print_summary
from .swarm_output import collect_from_sites, embedded_federation, print_from_sites

_OUT = Path("runs/shown")


def show_comparison(folder: Path, console: Terminal) -> Path:
    """Print a comparison, write its report again, and return the report.

    Args:
        folder: the comparison's output folder.
        console: where it is printed.

    Raises:
        DataError: if the comparison, or the summary of a run, cannot be read.
    """
    comparison = read_comparison(folder)
    print_comparison(comparison, console)
    return write_comparison_page(folder, comparison)


def show_run(
    folder: Path, console: Terminal, *, data: Path | None = None, against: Path | None = None, out: Path | None = None
) -> Path:
    """Print a run, draw its pictures and write its report; return the report.

    Args:
        folder: its output folder, which stays what it is unless there is another one; or a workspace of NVFlare, of
            which the model, the summary and the metrics are collected.
        console: where it is printed.
        data: the federation's folder, for pictures of cases; None for where the run had its data, as far as that is
            known.
        against: output folder of another run on the same data.
        out: output folder; None for the run's own, or ``runs/shown``.

    Raises:
        OutputError: if there is no run, or there are several.
        DataError: if a summary cannot be read.
    """
    other = None if against is None else read_summary(against)
    if out is None and is_output(folder):
        out, summary = folder, read_summary(folder)
        known = data or _data_of(summary.data_folder)
        pictures = draw_run(out, known, against=other, workspace=folder)
        print_summary(summary, console)
    elif has_server_summary(folder):
        out = out or _OUT
        summary = collect_output(find_run_folder(folder), out)
        pictures = draw_run(out, data, against=other, workspace=folder)
        print_summary(summary, console)
    else:
        out = out or _OUT
        summary = collect_from_sites(folder, out)
        with embedded_federation(folder) if data is None else nullcontext(data) as result:
            pictures = draw_run(out, result, against=other, workspace=folder)
        print_from_sites(summary, console)
    if other is not None:
        print_difference(summary, other, console)
    return write_run_page(out, summary, pictures)


def _data_of(folder: Path | None) -> Path | None:
    """The run's data, if they are still there."""
    return folder if folder is not None and folder.is_dir() else None
