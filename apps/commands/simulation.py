"""The command `fedannot simulate`, apart from all others because comparisons run it in processes of their own."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..plain_lines import GENERATED, say
from ..runs.interruption import given_command
from ..runs.program import Program
from .errors import reported_errors
from .job_names import JobArgument
from .single_options import refuse_repeated_options

if TYPE_CHECKING:
    from ..functions.runs import Run
    from ..runs.progress import Progress

SIMULATE_EXAMPLE = (
    "Example: fedannot simulate fedaaai --data runs/lesions --set rounds=12 --seed 1 --out runs/a\n\n"
    "Example: fedannot simulate auto --data runs/mine --hours 2 --out runs/planned"
)

# Eleven years; beyond it a time is a mistake.
MOST_HOURS = 100_000
_GOES_ON_PLANNED = "The run was begun with a plan and goes on with it: --no-plan is for new runs, in another --out."

SettingOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the job; may repeat.")
]
SettingsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME_OR_FILE",
        help="A set of settings: a name in the job's folder 'settings', or a .conf file; --set changes it further.",
    ),
]


TrackOption = Annotated[
    str | None,
    typer.Option(
        metavar="mlflow=URI|wandb=PROJECT", help="Give numbers, settings and figures to a tracking server, too."
    ),
]


NetworkOption = Annotated[
    str | None,
    typer.Option(metavar="PACKAGE.MODULE:FUNCTION", help="Build the network by your own code; not for deployed jobs."),
]


def import_from_here() -> None:
    """Let this process import what lies in the folder that the command is given in, such as a network of one's own.

    Python looks next to the command's file.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")


def simulate(
    context: typer.Context,
    job: JobArgument,
    data: Annotated[Path | None, typer.Option(help="A federation's folder; default: the embedded phantom.")] = None,
    settings: SettingsOption = None,
    set_: SettingOption = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run; default: the job's.")] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=MOST_HOURS,
            metavar="HOURS",
            help="That a run on your own data may take; its settings follow. Default: 1.",
        ),
    ] = None,
    no_plan: Annotated[
        bool, typer.Option("--no-plan", help="Take the job's settings as they are on your own data, too.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/simulation"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the output folder.")] = False,
    track: TrackOption = None,
    network: NetworkOption = None,
    sites_at_once: Annotated[
        int | None,
        typer.Option(min=1, help="Sites that work at a time; default: as many as cores and memory allow. Same result."),
    ] = None,
) -> None:
    """Run a job in one process; the result is the same as NVFlare's, bit for bit on the CPU.

    On your own images with masks it takes nnU-Net's recipe, with as many steps and rounds as fit the time (--hours).
    """
    if no_plan and hours is not None:
        raise typer.BadParameter("--hours plans the settings, and --no-plan does not; expected one of them.")

    with reported_errors(lambda: _how_to_go_on(context, out)):
        from ..runs.progress import Progress

        with Progress() as progress:
            progress.tell(f"Reading {job}.{'' if data or resume else f' {GENERATED}'}")
            from ..functions.runs import simulate as run
            from ..runs.overrides import parse_override
            from ..runs.resuming import has_begun, is_planned

            changes = dict(parse_override(text) for text in set_ or [])
            if not no_plan and hours is None and data is not None and not (resume and has_begun(out)):
                hours = _hours_by_default(job, data, settings, changes, progress)
            if no_plan and resume and is_planned(out):
                progress.tell(_GOES_ON_PLANNED)
            if network is not None:
                import_from_here()
            made = run(
                job,
                out,
                data=data,
                settings=settings,
                changes=changes,
                seed=seed,
                hours=hours,
                resume=resume,
                track=track,
                network=network,
                sites_at_once=sites_at_once,
                on_progress=progress,
            )
        _print_run(made)


def _how_to_go_on(context: typer.Context, out: Path) -> str:
    try:
        from ..runs.resuming import progress
    except Exception:
        # Stopped in the middle of an import, of which nothing can be imported any more.
        said = ""
    else:
        said = f"{progress(out)} "
    return f"{said}Go on with: {given_command(context, resume=out.is_dir())}"


def _print_run(made: "Run") -> None:
    from ..reports.summary_text import print_summary
    from ..terminal import Terminal

    print_summary(made.summary, Terminal())
    say(f"Model, summary and figures: {made.folder}")
    say(f"Report: {made.report}")
    if made.uses_generated_images:
        say(GENERATED)
    if made.plan:
        say(made.plan)


def _hours_by_default(
    job: Path, data: Path, settings: str | None, changes: Mapping[str, Any], progress: "Progress"
) -> float | None:
    """The time of a run on own data, None where it takes the job's settings; says which."""
    from ..planning.planned_run import DEFAULT_HOURS, why_not_planned
    from ..runs.job import Job

    obstacle = why_not_planned(Job.open(job), data, settings, changes)
    if obstacle is None:
        progress.tell(
            f"Settings are planned for {DEFAULT_HOURS:g} h on this machine (--hours); --no-plan takes the job's own."
        )
        return DEFAULT_HOURS
    if not obstacle.is_chosen:
        progress.tell(f"The job's own settings are taken: {obstacle.reason}.")
    return None


_alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_alone.command(epilog=SIMULATE_EXAMPLE)(simulate)
refuse_repeated_options(_alone)


@_alone.callback()
def _keep_the_commands_name() -> None:
    """Of a single command the name would be none of the arguments."""


def run_simulation(arguments: Sequence[str]) -> None:
    """Run `fedannot simulate …` in this process and end it.

    Args:
        arguments: what follows `fedannot`.

    Raises:
        SystemExit: with the command's exit code.
    """
    _alone(arguments, prog_name="fedannot")


SIMULATION = Program("fedannot", "fedannot.apps", run_simulation, "fedannot.apps.commands.preloaded")
