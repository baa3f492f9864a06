"""The commands `fedannot bench …`: the comparisons that the documentation reports."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import reported_errors

if TYPE_CHECKING:
    from .benchmarks.rows import Row

bench_app = typer.Typer(help="Make the tables of docs/benchmarks again.", no_args_is_help=True)


RowsOption = Annotated[str | None, typer.Option(help="Names of rows, separated by commas; default: all.")]
ListOption = Annotated[bool, typer.Option("--list", help="Show the rows and what each compares, and run nothing.")]
SeedsOption = Annotated[int, typer.Option(min=1, help="Number of seeds.")]
FirstSeedOption = Annotated[int, typer.Option(help="The first seed.")]
JobsOption = Annotated[Path, typer.Option(help="The folder that holds the jobs.")]
OutOption = Annotated[Path, typer.Option(help="Output folder.")]


@bench_app.command("feda3i", epilog="Example: fedannot bench feda3i --rows ns-d,ne-d --seeds 3")
def feda3i_rows(
    rows: RowsOption = None,
    list_: ListOption = False,
    seeds: SeedsOption = 3,
    first_seed: FirstSeedOption = 0,
    jobs: JobsOption = Path("jobs"),
    out: OutOption = Path("runs/bench/feda3i"),
) -> None:
    """FedA³I and its ablations beside federated averaging, on generated lesions, one row after the other.

    What is finished is kept, so an interrupted table goes on. The table is written after every row and keeps the rows
    of earlier calls.
    """
    with reported_errors():
        from .benchmarks.feda3i import ROWS

        _make_table(ROWS, rows, list_only=list_, seeds=range(first_seed, first_seed + seeds), jobs=jobs, out=out)


@bench_app.command("fedia", epilog="Example: fedannot bench fedia --rows ms-0,ms-1,ms-2,ms-3 --seeds 3")
def fedia_rows(
    rows: RowsOption = None,
    list_: ListOption = False,
    seeds: SeedsOption = 3,
    first_seed: FirstSeedOption = 0,
    jobs: JobsOption = Path("jobs"),
    out: OutOption = Path("runs/bench/fedia"),
) -> None:
    """FedIA and its ablations beside federated averaging, on generated volumes, one row after the other.

    What is finished is kept, so an interrupted table goes on. The table is written after every row and keeps the rows
    of earlier calls.
    """
    with reported_errors():
        from .benchmarks.fedia import ROWS

        _make_table(ROWS, rows, list_only=list_, seeds=range(first_seed, first_seed + seeds), jobs=jobs, out=out)


def _make_table(
    known: Mapping[str, "Row"], names: str | None, *, list_only: bool, seeds: range, jobs: Path, out: Path
) -> None:
    from rich.console import Console

    from .benchmarks.rows import chosen_rows, run_row, write_table

    console = Console()
    chosen = chosen_rows(known, names)
    if list_only:
        for name, row in chosen.items():
            console.print(f"[bold]{name}[/bold]  {row.what}: {', '.join(arm.name for arm in row.arms)}")
        return
    for name, row in chosen.items():
        write_table([run_row(name, row, jobs=jobs, seeds=seeds, out=out, console=console)], out / "table.json")
    typer.echo(f"Table: {out / 'table.md'}, {out / 'table.json'}")
