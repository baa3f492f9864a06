"""The commands `fedannot bench …`: the comparisons that the documentation reports."""

from pathlib import Path
from typing import Annotated

import typer

from .errors import reported_errors

bench_app = typer.Typer(help="Make the tables of docs/benchmarks again.", no_args_is_help=True)


@bench_app.command("feda3i", epilog="Example: fedannot bench feda3i --rows ns-d,ne-d --seeds 3")
def feda3i_rows(
    rows: Annotated[str | None, typer.Option(help="Names of rows, separated by commas; default: all.")] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show the rows and what each compares, and run nothing.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    jobs: Annotated[Path, typer.Option(help="The folder that holds the jobs.")] = Path("jobs"),
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/bench/feda3i"),
) -> None:
    """FedA³I and its ablations beside federated averaging, on generated lesions, one row after the other.

    What is finished is kept, so an interrupted table goes on. The table is written after every row and keeps the rows
    of earlier calls.
    """
    with reported_errors():
        from rich.console import Console

        from .benchmarks.feda3i import ROWS
        from .benchmarks.rows import chosen_rows, run_row, write_table

        console = Console()
        chosen = chosen_rows(ROWS, rows)
        if list_:
            for name, row in chosen.items():
                console.print(f"[bold]{name}[/bold]  {row.what}: {', '.join(arm.name for arm in row.arms)}")
            return
        for name, row in chosen.items():
            seed_range = range(first_seed, first_seed + seeds)
            write_table([run_row(name, row, jobs=jobs, seeds=seed_range, out=out, console=console)], out / "table.json")
        typer.echo(f"Table: {out / 'table.md'}, {out / 'table.json'}")
