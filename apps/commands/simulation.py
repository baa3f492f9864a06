"""The command `fedannot simulate`, apart from all others because comparisons run it in processes of their own."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import GENERATED, say
from ..runs.interruption import given_command
from ..runs.program import Program
from .errors import reported_errors
from .job_names import JobArgument

SIMULATE_EXAMPLE = "Example: fedannot simulate fedaaai --data runs/lesions --set rounds=12 --seed 1 --out runs/a"

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

    Python looks beside the command's file.
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
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/simulation"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the output folder.")] = False,
    track: TrackOption = None,
    network: NetworkOption = None,
) -> None:
    """Run a job in one process; the result is the same as NVFlare's, bit for bit on the CPU."""

    def how_to_go_on() -> str:
        try:
            from ..runs.resuming import progress
        except Exception:
            # Stopped in the middle of an import, of which nothing can be imported any more.
            said = ""
        else:
            said = f"{progress(out)} "
        return f"{said}Go on with: {given_command(context, resume=out.is_dir())}"

    with reported_errors(how_to_go_on):
        from ..runs.progress import Progress
        from ..terminal import Terminal

        with Progress() as progress:
            progress.tell(f"Reading {job}.{'' if data or resume else f' {GENERATED}'}")
            from ..functions.runs import simulate as run
            from ..reports.summary_text import print_summary
            from ..runs.job import parse_override

            changes = dict(parse_override(text) for text in set_ or [])
            if network is not None:
                import_from_here()
            made = run(
                job,
                out,
                data=data,
                settings=settings,
                changes=changes,
                seed=seed,
                resume=resume,
                track=track,
                network=network,
                on_progress=progress,
            )
        print_summary(made.summary, Terminal())
        say(f"Model, summary and figures: {out}")
        say(f"Report: {made.report}")
        if made.uses_generated_images:
            say(GENERATED)


_alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_alone.command(epilog=SIMULATE_EXAMPLE)(simulate)


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
