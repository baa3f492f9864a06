"""The command `fedannot plan`: what a run will take before it starts."""

from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import say
from .errors import reported_errors
from .job_names import JobArgument
from .simulation import SettingOption, SettingsOption

PLAN_EXAMPLE = "Example: fedannot plan fedaaai --data runs/lesions --set rounds=12"


def plan(
    job: JobArgument,
    data: Annotated[Path | None, typer.Option(help="A federation's folder; default: generated images.")] = None,
    settings: SettingsOption = None,
    set_: SettingOption = None,
) -> None:
    """Estimate time, memory and traffic of a run before it starts, by a few steps of training; nothing is written."""
    with reported_errors():
        from ..runs.progress import Progress

        with Progress(states_in_log=False) as progress:
            progress.state("Measuring a few steps.")
            from ..planning.plan import plan as make_plan
            from ..runs.job import parse_override

            changes = dict(parse_override(text) for text in set_ or [])
            made = make_plan(job, data=data, settings=settings, changes=changes)
        for sentence in made.sentences:
            say(sentence)
