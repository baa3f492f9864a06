"""The command `fedannot plan`: what a run will take before it starts, or settings that suit a federation's images."""

from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import say
from ..wording.shell_words import shell_word
from .errors import reported_errors
from .job_names import complete_jobs
from .simulation import MOST_HOURS, SettingOption, SettingsOption

PLAN_EXAMPLE = (
    "Example: fedannot plan fedaaai --data runs/lesions --set rounds=12\n\n"
    "Example: fedannot plan runs/lesions --hours 2 --out lesions.conf"
)


def plan(
    planned: Annotated[
        Path,
        typer.Argument(
            metavar="JOB_OR_DIR",
            help="A job's name or folder; or a federation's folder or a run of the method fingerprint, for settings "
            "that suit the images.",
            autocompletion=complete_jobs,
        ),
    ],
    data: Annotated[Path | None, typer.Option(help="A federation's folder; default: generated images.")] = None,
    settings: SettingsOption = None,
    set_: SettingOption = None,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=MOST_HOURS, metavar="HOURS", help="That a run on DIR may take on this machine; default: 1."
        ),
    ] = None,
    memory_gb: Annotated[
        float | None,
        typer.Option(min=0.001, max=1e6, metavar="GB", help="That a step of training on DIR may take; default: 4."),
    ] = None,
    side_by_side: Annotated[
        bool, typer.Option("--side-by-side", help="Every site of DIR has a machine like this one.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the settings for DIR are written; default: shown.")
    ] = None,
) -> None:
    """Estimate what a job's run will take, by a few steps; or plan settings that suit the images of a federation."""
    with reported_errors():
        from ...custom.data.federation import FEDERATION_FILE
        from ..reports.output import is_output

        of_job = {"--data": data, "--settings": settings, "--set": set_}
        of_folder = {"--hours": hours, "--memory-gb": memory_gb, "--side-by-side": side_by_side or None, "--out": out}
        is_folder = (planned / FEDERATION_FILE).is_file() or is_output(planned)
        if unused := [name for name, value in (of_job if is_folder else of_folder).items() if value is not None]:
            what, wanted = (
                ("a federation or a run", "a job")
                if is_folder
                else ("no federation's folder and no run", "one of these")
            )
            raise typer.BadParameter(f"{planned} is {what}, but {unused[0]} goes with {wanted}.")
        if is_folder:
            _suggest(
                planned, 1.0 if hours is None else hours, 4.0 if memory_gb is None else memory_gb, side_by_side, out
            )
        else:
            _estimate(planned, data, settings, set_)


def _estimate(job: Path, data: Path | None, settings: str | None, set_: list[str] | None) -> None:
    from ..runs.progress import Progress

    with Progress(states_in_log=False) as progress:
        progress.state("Measuring a few steps.")
        from ..planning.plan import plan as make_plan
        from ..runs.overrides import parse_override

        changes = dict(parse_override(text) for text in set_ or [])
        made = make_plan(job, data=data, settings=settings, changes=changes)
    for sentence in made.sentences:
        say(sentence)


def _suggest(folder: Path, hours: float, memory_gb: float, side_by_side: bool, out: Path | None) -> None:
    from ..runs.progress import Progress

    with Progress(states_in_log=False) as progress:
        progress.state("Reading the images and measuring a few steps.")
        from ...custom.data.federation import FEDERATION_FILE
        from ..planning.suggested import suggest_from_run, suggest_settings

        suggest = suggest_settings if (folder / FEDERATION_FILE).is_file() else suggest_from_run
        suggested = suggest(folder, hours=hours, memory_gb=memory_gb, side_by_side=side_by_side)
        if out is not None:
            suggested.write(out)
    if out is None:
        for line in suggested.text.splitlines():
            say(line)
        return
    for sentence in suggested.sentences:
        say(sentence)
    data = folder if (folder / FEDERATION_FILE).is_file() else "DIR"
    say(f"Written: {out}. Run it with: fedannot simulate fedavg --data {shell_word(data)} --settings {shell_word(out)}")
