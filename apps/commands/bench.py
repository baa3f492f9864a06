"""The commands `fedannot bench …`: the comparisons that the documentation reports."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..plain_lines import say
from ..runs.interruption import KEPT, given_command
from .errors import reported_errors

if TYPE_CHECKING:
    from ..benchmarks.rows import Row

bench_app = typer.Typer(help="Make the tables of docs/benchmarks again.", no_args_is_help=True)


def _add_benchmark(name: str, what: str, known_rows: Callable[[], Mapping[str, "Row"]], *, example: str) -> None:
    """Add the command of a benchmark.

    Args:
        name: the command's name, and the folder of its output.
        what: what is compared, for the help.
        known_rows: gives the rows; called when the command runs, as their imports take a while.
        example: names of rows.
    """
    default_out = Path("runs/bench") / name

    @bench_app.command(
        name,
        help=f"""{what}, one row after the other.

        What is finished is kept, so an interrupted table goes on. The table is written after every row and keeps the
        rows of earlier calls.""",
        epilog=f"Example: fedannot bench {name} --rows {example} --seeds 3",
    )
    def make_table(
        context: typer.Context,
        rows: Annotated[str | None, typer.Option(help="Names of rows, separated by commas; default: all.")] = None,
        list_: Annotated[
            bool, typer.Option("--list", help="Show the rows and what each compares, and run nothing.")
        ] = False,
        seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
        first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
        jobs: Annotated[
            Path | None, typer.Option(help="A folder that holds the jobs; default: those that are installed.")
        ] = None,
        out: Annotated[Path, typer.Option(help="Output folder.")] = default_out,
    ) -> None:
        with reported_errors(lambda: f"{KEPT} Go on with: {given_command(context)}"):
            from ..runs.progress import Progress

            # The rows' imports take seconds.
            Progress().tell("Reading the rows.")
            _make_table(
                known_rows(), rows, list_only=list_, seeds=range(first_seed, first_seed + seeds), jobs=jobs, out=out
            )


def _auto_rows() -> Mapping[str, "Row"]:
    from ..benchmarks.auto import ROWS

    return ROWS


def _auto_labels_rows() -> Mapping[str, "Row"]:
    from ..benchmarks.auto_classification import ROWS

    return ROWS


def _feda3i_rows() -> Mapping[str, "Row"]:
    from ..benchmarks.feda3i import ROWS

    return ROWS


def _fedia_rows() -> Mapping[str, "Row"]:
    from ..benchmarks.fedia import ROWS

    return ROWS


def _fedgsca_rows() -> Mapping[str, "Row"]:
    from ..benchmarks.fedgsca import ROWS

    return ROWS


def _decoupled_rows() -> Mapping[str, "Row"]:
    from ..benchmarks.decoupled import ROWS

    return ROWS


_add_benchmark(
    "auto",
    "`auto` beside federated averaging and the published methods, on generated lesions",
    _auto_rows,
    example="ns-d,clean",
)
_add_benchmark(
    "auto-labels",
    "`auto` for classification beside federated averaging and FedGSCA, on generated cells",
    _auto_labels_rows,
    example="s40,clean",
)
_add_benchmark(
    "feda3i",
    "FedA³I and its ablations beside federated averaging, on generated lesions",
    _feda3i_rows,
    example="ns-d,ne-d",
)
_add_benchmark(
    "fedia",
    "FedIA and its ablations beside federated averaging, on generated volumes",
    _fedia_rows,
    example="ms-0,ms-1,ms-2,ms-3",
)
_add_benchmark(
    "fedgsca",
    "FedGSCA and its ablations beside federated averaging, on generated cells",
    _fedgsca_rows,
    example="s40,types",
)
_add_benchmark(
    "decoupled",
    "Decoupled predictions and their ablations beside federated averaging and its rivals, on generated chambers",
    _decoupled_rows,
    example="protocols",
)


def _make_table(
    known: Mapping[str, "Row"], names: str | None, *, list_only: bool, seeds: range, jobs: Path | None, out: Path
) -> None:
    from ..benchmarks.rows import chosen_rows, run_row
    from ..benchmarks.tables import write_table
    from ..terminal import Terminal

    console = Terminal()
    chosen = chosen_rows(known, names)
    if list_only:
        for name, row in chosen.items():
            console.print_named(name, f"  {row.what}: {', '.join(arm.name for arm in row.arms)}")
        return
    for name, row in chosen.items():
        write_table([run_row(name, row, jobs=jobs, seeds=seeds, out=out, console=console)], out / "table.json")
    say(f"Table: {out / 'table.md'}, {out / 'table.json'}")
