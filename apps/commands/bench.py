"""The commands `fedannot bench …`: the comparisons that the documentation reports, from a checkout."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..plain_lines import say
from ..runs.interruption import KEPT, given_command
from . import comparison_options as option
from .errors import reported_errors

bench_app = typer.Typer(
    help="Make the tables of docs/benchmarks again; from a checkout of the repository.", no_args_is_help=True
)

# Below the root of a checkout. It is research code, which no wheel has.
_BENCHMARKS = Path("tests/benchmarks")
_PACKAGE = "benchmark_tables"


class BenchmarkError(ValueError):
    """A table cannot be made as it is asked for; the text says what to do."""


def benchmarks_folder(package: Path = Path(__file__)) -> Path:
    """Return the folder with the benchmarks, of the checkout that fedannot runs from.

    Args:
        package: a file of fedannot; a link counts as what it leads to, as in an editable installation.

    Raises:
        BenchmarkError: if fedannot does not run from a checkout.
    """
    root = package.resolve().parents[2]
    if not (root / _BENCHMARKS / _PACKAGE).is_dir():
        raise BenchmarkError(
            f"Found no {_BENCHMARKS} in {root}: the benchmarks are in the repository, not in the installed package. "
            "Clone it, install it there with 'make install', and call '.venv/bin/fedannot bench' in it."
        )
    return root / _BENCHMARKS


def _tables(folder: Path, module: str = "making") -> Any:
    """The module that makes the tables; its folder can be imported from as by the scripts that lie in it."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module(f"{_PACKAGE}.{module}")


def _add_benchmark(name: str, what: str, *, example: str) -> None:
    """Add the command of a benchmark.

    Args:
        name: the command's name, and the folder of its output.
        what: what is compared, for the help.
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
        seeds: option.Seeds = 3,
        first_seed: option.FirstSeed = 0,
        jobs: option.JobsFolder = None,
        engine: option.Engine = "processes",
        cpus_per_run: option.CpusPerRun = None,
        gpus_per_run: option.GpusPerRun = None,
        ray_address: option.RayAddress = None,
        out: Annotated[Path, typer.Option(help="Output folder.")] = default_out,
    ) -> None:
        with reported_errors(lambda: f"{KEPT} Go on with: {given_command(context)}"):
            from ..runs.progress import Progress
            from ..runs.ray_engine import chosen_engine

            placed = chosen_engine(engine, cpus_per_run, gpus_per_run, ray_address)
            folder = benchmarks_folder()
            # The rows' imports take seconds.
            Progress().tell("Reading the rows.")
            tables = _tables(folder)
            if list_:
                tables.list_rows(name, rows)
                return
            wanted = range(first_seed, first_seed + seeds)
            table = tables.make_table(name, rows, jobs=jobs, seeds=wanted, out=out, engine=placed)
            say(f"Table: {table.with_suffix('.md')}, {table}")


_add_benchmark(
    "auto",
    "`auto` compared with federated averaging and the published methods, on generated lesions",
    example="ns-d,clean",
)
_add_benchmark(
    "auto-labels",
    "`auto` for classification compared with federated averaging and FedGSCA, on generated cells",
    example="s40,clean",
)
_add_benchmark(
    "feda3i",
    "FedA³I and its ablations compared with federated averaging, on generated lesions",
    example="ns-d,ne-d",
)
_add_benchmark(
    "fedia",
    "FedIA and its ablations compared with federated averaging, on generated volumes",
    example="ms-0,ms-1,ms-2,ms-3",
)
_add_benchmark(
    "fedgsca",
    "FedGSCA and its ablations compared with federated averaging, on generated cells",
    example="s40,types",
)
_add_benchmark(
    "decoupled",
    "Decoupled predictions and their ablations compared with federated averaging and its rivals, on generated chambers",
    example="protocols",
)


@bench_app.command(
    epilog="Example: fedannot bench league --plan\n\n"
    "Example: fedannot bench league --rows lesions-clean,lesions-shrink --methods auto,feda3i --only 1/4\n\n"
    "Example: fedannot bench league --table docs/benchmarks"
)
def league(
    context: typer.Context,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Names of rows, separated by commas; default: all whose data are there. With --choose: of its rows."
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the rows, and run nothing.")] = False,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Show methods and hours of each row by a few measured steps, and run nothing."),
    ] = False,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose", help="Try the methods' settings on seeds from 100 and other rows, and record the best of each."
        ),
    ] = False,
    table: Annotated[
        Path | None, typer.Option(help="Write the pages of the finished runs into this folder, and run nothing.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Names of methods to compare with fedavg, separated by commas; default: all.")
    ] = None,
    seeds: option.Seeds = 3,
    first_seed: option.FirstSeed = 0,
    only: option.Only = None,
    processes: option.Processes = None,
    engine: option.Engine = "processes",
    cpus_per_run: option.CpusPerRun = None,
    gpus_per_run: option.GpusPerRun = None,
    ray_address: option.RayAddress = None,
    data: Annotated[Path | None, typer.Option(help="The folder of the packs of real images.")] = None,
    jobs: option.JobsFolder = None,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/bench/league"),
) -> None:
    """Compare all methods on all rows, with the network, training and rounds of federated averaging.

    Finished runs are kept. The league is written after every row.
    """
    with reported_errors(lambda: f"{KEPT} Go on with: {given_command(context)}"):
        from ..runs.progress import Progress
        from ..runs.ray_engine import chosen_engine
        from ..runs.run_share import RunShare

        if sum((list_, plan, choose, table is not None)) > 1:
            raise BenchmarkError("Expected one of --list, --plan, --choose and --table, but got several.")
        placed = chosen_engine(engine, cpus_per_run, gpus_per_run, ray_address)
        share, folder = None if only is None else RunShare.parse(only), benchmarks_folder()
        with Progress() as progress:
            progress.tell("Reading the rows.")
            known, made = _tables(folder, "league.rows"), _tables(folder, "league.making")
            asked = _tables(folder, "league.request")
            chosen = _tables(folder, "rows").chosen_rows(known.TUNING_ROWS if choose else known.ROWS, rows)
            if list_:
                lines = [f"{name}  {row.what}" for name, row in chosen.items()]
            else:
                if table is None:
                    chosen = asked.use_packs(chosen, data, chosen=rows is not None)
                wanted = range(first_seed, first_seed + seeds)
                request = asked.LeagueRequest(
                    chosen, asked.chosen_methods(methods), wanted, out, jobs, share, processes, placed
                )
                lines = made.done(request, progress, plan=plan, choose=choose, table=table)
        for line in lines:
            say(line)
