"""The `fedannot` command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...custom.run.freed_memory import keep_freed_memory
from ..plain_lines import GENERATED, say
from ..runs.interruption import KEPT, given_command, ignore_signals
from . import comparison_options as option
from .audit import audit_app
from .bench import bench_app
from .bundle import bundle_app
from .corrections import corrections_app
from .data import data_app
from .deploy import deploy_app
from .errors import reported_errors
from .job_names import complete_jobs
from .jobs import jobs_app
from .paper import PAPER_EXAMPLE, paper
from .planned import PLAN_EXAMPLE, plan
from .results import RESULTS_EXAMPLE, results
from .simulation import SIMULATE_EXAMPLE, NetworkOption, SettingsOption, TrackOption, import_from_here, simulate
from .single_options import refuse_repeated_options

if TYPE_CHECKING:
    from ..functions.comparisons import ComparedMethods
    from ..functions.cross_validation import CrossValidated

app = typer.Typer(
    help="Federated training of medical imaging models that bad annotations do not spoil.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"fedannot {version('fedannot')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version


app.command(epilog=SIMULATE_EXAMPLE)(simulate)
app.command(epilog=PLAN_EXAMPLE)(plan)
app.command(epilog=RESULTS_EXAMPLE)(results)
app.command(epilog=PAPER_EXAMPLE)(paper)
app.add_typer(jobs_app, name="jobs")
app.add_typer(data_app, name="data")
app.add_typer(audit_app, name="audit")
app.add_typer(corrections_app, name="corrections")
app.add_typer(deploy_app, name="deploy")
app.add_typer(bundle_app, name="bundle")
app.add_typer(bench_app, name="bench")


@app.command(
    epilog="Example: fedannot show runs/simulation --open\n\n"
    "Example: fedannot show simulator_workspace --data runs/lesions --out runs/a"
)
def show(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Output folder of a run or a comparison; or a workspace of `nvflare simulator` or of a site, or a "
            "downloaded job result."
        ),
    ],
    data: Annotated[Path | None, typer.Option(help="The federation's folder, for figures of cases.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Output folder of a run of another method on the same data.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output folder for what NVFlare made; default: runs/shown. An output folder stays what it is."
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
) -> None:
    """Show a run or a comparison: scores, what was concluded of the sites, and the report.

    Of a run that NVFlare made the model, the summary and the figures are collected first. Of a swarm, and at a site,
    there is no server's summary: what the sites stored is collected.
    """
    with reported_errors():
        from ..runs.progress import Progress

        Progress().tell(f"Reading {folder}.")
        from ..reports.compared_runs import COMPARISON_FILE
        from ..reports.shown import show_comparison, show_run
        from ..terminal import Terminal

        if (folder / COMPARISON_FILE).is_file():
            report = show_comparison(folder, Terminal())
        else:
            report = show_run(folder, Terminal(), data=data, against=against, out=out)
            say(f"Model, summary and figures: {report.parent}")
        say(f"Report: {report}")
        if open_:
            typer.launch(str(report))


@app.command(
    epilog="Example: fedannot compare fedavg fedaaai --data runs/lesions --seeds 3 --out runs/compared\n\n"
    "Example: fedannot compare fedavg fedaaai short=fedaaai --set rounds=12 --set short:warmup_rounds=2\n\n"
    "Example: fedannot compare fedavg fedia --like fedia --shared-rounds 12\n\n"
    "Example: fedannot compare fedavg auto --engine ray --cpus-per-run 2 --gpus-per-run 0.5 --out /shared/compared"
)
def compare(
    context: typer.Context,
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]JOB...",
            help="Names or folders of jobs; the first is the reference. A job may come twice, by another name: "
            "short=JOB.",
            autocompletion=complete_jobs,
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(help="A federation's folder; '{seed}' in it stands for the seed. Default: the phantom."),
    ] = None,
    seeds: option.Seeds = 3,
    first_seed: option.FirstSeed = 0,
    settings: SettingsOption = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[NAME:]KEY=VALUE",
            help="Change a setting of all jobs that have it, or, with a name, of one; may repeat.",
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="Give all jobs the network, loss, optimizer, learning rate, length of training, batches, "
            "augmentation, generated images and scoring of this one.",
            autocompletion=complete_jobs,
        ),
    ] = None,
    allow_different: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Let this setting, or block of settings, differ between jobs; may repeat."),
    ] = None,
    shared_rounds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME:]ROUNDS",
            help="Take the first rounds of all jobs, or of one, from the first job's run; they must be federated "
            "averaging, as a warm-up is. May repeat.",
        ),
    ] = None,
    network: NetworkOption = None,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/comparison"),
    folds: Annotated[
        int | None, typer.Option(min=2, help="Cross-validation by patient: test on each of so many folds; with --data.")
    ] = None,
    leave_site_out: Annotated[
        bool, typer.Option("--leave-site-out", help="Leave out each site once and test on its cases; with --data.")
    ] = False,
    processes: option.Processes = None,
    engine: option.Engine = "processes",
    cpus_per_run: option.CpusPerRun = None,
    gpus_per_run: option.GpusPerRun = None,
    ray_address: option.RayAddress = None,
    only: option.Only = None,
    track: TrackOption = None,
) -> None:
    """Run several methods on the same data from the same start weights and compare them, seed by seed.

    Jobs that differ in more than their methods are refused; --like, --allow-different and --set NAME:KEY=VALUE say
    what is meant. A comparison that was interrupted goes on where it stopped.
    """
    with reported_errors(lambda: f"{KEPT} Go on with: {given_command(context)}"):
        from ..runs.progress import Progress

        with Progress() as progress:
            progress.tell("Reading the jobs and the data." if data else f"Reading the jobs. {GENERATED}")
            from ..functions.cross_validation import over_splits
            from ..runs.arms import parse_arms
            from ..runs.shared_rounds import with_shared_rounds

            arms, changes = parse_arms(jobs, set_ or [])
            if network is not None:
                import_from_here()
            with _missing_runs_are_said(only):
                made = over_splits(folds, leave_site_out)(
                    with_shared_rounds(arms, shared_rounds or []),
                    out,
                    data=data,
                    seeds=range(first_seed, first_seed + seeds),
                    settings=settings,
                    changes=changes,
                    like=like,
                    allow_different=allow_different or [],
                    network=network,
                    processes=processes,
                    engine=engine,
                    cpus_per_run=cpus_per_run,
                    gpus_per_run=gpus_per_run,
                    ray_address=ray_address,
                    track=track,
                    only=only,
                    on_progress=progress,
                )
        _print_compared(made, is_generated=data is None)


@contextmanager
def _missing_runs_are_said(only: str | None) -> Iterator[None]:
    """End the command without an error where it has made its share and other runs are missing."""
    from ..runs.compare import RunsMissingError

    try:
        yield
    except RunsMissingError as missing:
        if only is None:
            raise
        say(str(missing))
        raise typer.Exit from None


def _print_compared(made: "ComparedMethods | CrossValidated", *, is_generated: bool) -> None:
    from ..functions.cross_validation import CrossValidated
    from ..reports.comparison import print_comparison
    from ..terminal import Terminal

    if isinstance(made, CrossValidated):
        for name, compared in made.splits.items():
            say(f"{name}: {compared.report}")
        for line in str(made).splitlines():
            say(line)
        say(f"Table, tests and figures of all splits: {made.folder}")
        return
    print_comparison(made.comparison, Terminal())
    say(f"Comparison, plot and all runs: {made.folder}")
    say(f"Report: {made.report}")
    if is_generated:
        say(GENERATED)


@app.command(epilog="Example: fedannot suspects runs/simulation --site site-2 --pictures runs/suspects")
def suspects(
    folder: Annotated[Path, typer.Argument(help="A run's output folder, or a site's NVFlare workspace.")],
    site: Annotated[str | None, typer.Option(help="Only this site.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Cases of each site, the most confident predictions first.")] = 24,
    pictures: Annotated[
        Path | None, typer.Option(help="Folder for a figure of each site's cases; shows patients' images.")
    ] = None,
) -> None:
    """List the cases that look like another class than their label, for the site's data manager; nothing is changed.

    Where an audit has run, its findings are listed.
    """
    with reported_errors():
        from ..audit.listing import hint_of_audit, print_audits
        from ..reports.corrections import find_doubts, has_doubts
        from ..reports.suspects import draw_suspects, other_class, print_suspects
        from ..terminal import Terminal

        console = Terminal()
        if not has_doubts(folder):
            if print_audits(folder, console, site=site, limit=limit):
                return
            console.print(f"{folder}: this run looked for no suspect label. {hint_of_audit(folder)}", soft_wrap=True)
            raise typer.Exit(1)
        for record in find_doubts(folder, site):
            print_suspects(record, limit, console)
            if pictures is not None and (cases := other_class(record)):
                file = draw_suspects(record, cases[:limit], pictures / f"{record.site}.png")
                say(f"Figure: {file}")


refuse_repeated_options(app)


def main() -> None:
    """Run the command.

    Raises:
        SystemExit: with the command's exit code.
    """
    keep_freed_memory()
    try:
        app()
    finally:
        # What is left to do is to end: informed once more, the process would only lose its exit code.
        ignore_signals()
