"""`fedannot jobs`: which jobs there are, what can be set in one, and a copy of one to change."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import say
from ..wording.shell_words import shell_word
from .errors import reported_errors
from .job_names import JobArgument
from .simulation import SettingOption, SettingsOption

jobs_app = typer.Typer(invoke_without_command=True)


@jobs_app.callback(epilog="Example: fedannot jobs\n\nExample: fedannot simulate fedaaai")
def jobs(context: typer.Context) -> None:
    """List the jobs: the method of each, and for which annotations it is. A job's name works wherever a path does."""
    if context.invoked_subcommand is not None:
        return
    with reported_errors():
        from rich.table import Table

        from ..runs.installed import installed_jobs
        from ..terminal import Terminal

        table = Table(box=None, pad_edge=False)
        for heading in ("job", "method", "for"):
            table.add_column(heading, no_wrap=heading == "job")
        for job in installed_jobs().values():
            table.add_row(job.name, job.title, job.purpose)
        Terminal().print(table)
        say("Run one: fedannot simulate NAME. Copy one to change it: fedannot jobs copy NAME DIR")


@jobs_app.command(epilog="Example: fedannot jobs copy fedaaai mine")
def copy(
    job: JobArgument,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The job becomes a folder of its name in this one.")],
) -> None:
    """Copy a job, with its sets of settings, to change it."""
    with reported_errors():
        from ..runs.installed import copy_job

        folder = copy_job(job, out)
        say(f"{folder}: its settings are in {folder / 'app' / 'config' / 'settings.conf'}")
        say(f"Run it: fedannot simulate {shell_word(folder)}")


@jobs_app.command(
    "settings",
    epilog="Example: fedannot jobs settings fedaaai --like learning\n\n"
    "Example: fedannot jobs settings fedaaai --effective --set rounds=20",
)
def list_settings(
    job: JobArgument,
    like: Annotated[str, typer.Option(metavar="TEXT", help="Only settings whose names contain this.")] = "",
    effective: Annotated[
        bool, typer.Option("--effective", help="Show the value that counts, where it comes from, and the default.")
    ] = False,
    settings: SettingsOption = None,
    set_: SettingOption = None,
) -> None:
    """List everything that can be set in a job: the job's value, what is allowed, and what it does."""
    with reported_errors():
        if effective or settings is not None or set_:
            _show_effective(job, like, settings, set_ or [])
            return
        from ..runs.job import Job
        from ..runs.known_settings import known_settings
        from ..terminal import Terminal

        console = Terminal()
        result = [item for item in known_settings(Job.open(job)) if like in item.name]
        for one in result:
            console.print_named(one.name, f" = {one.value}   ({one.allowed})")
            if one.meaning:
                console.print(f"    {one.meaning}", soft_wrap=True)
        say(
            f"{len(result)} settings. Change one with --set NAME=VALUE." if result else f"No setting contains {like!r}."
        )


def _show_effective(job: Path, like: str, settings: str | None, changes: Sequence[str]) -> None:
    """Print a row for each setting: the value that counts, its origin, and the default that it is in place of."""
    from rich import box
    from rich.table import Table

    from ..runs.job import Job
    from ..runs.overrides import parse_override
    from ..runs.setting_origins import effective_settings
    from ..terminal import Terminal

    overrides = dict(parse_override(text) for text in changes)
    rows = [item for item in effective_settings(Job.open(job), settings, overrides) if like in item.name]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("setting", "value", "from", "default"):
        table.add_column(heading, overflow="fold")
    for item in rows:
        default = as_json(item.default) if item.overrides_default else ""
        table.add_row(item.name, as_json(item.value), Path(item.origin).name, default)
    Terminal().print(table)
    for origin in dict.fromkeys(item.origin for item in rows):
        if (name := Path(origin).name) != origin:
            say(f"{name}: {origin}")
    count = sum(item.overrides_default for item in rows)
    say(f"{len(rows)} settings; {count} of them differ from the method's default, which the last column shows.")


def as_json(value: object) -> str:
    """Return a value as a settings file has it."""
    return json.dumps(value, ensure_ascii=False)


@jobs_app.command(epilog="Example: fedannot jobs fields auto")
def fields(job: JobArgument) -> None:
    """List what may leave a site in a job, by task: each field, the patients that it is counted over, and its reason.

    A filter at the site rejects everything else.
    """
    with reported_errors():
        from ...custom.methods.lookup import method_of
        from ...custom.outbound.registry import OutboundRegistry
        from ..runs.job import Job
        from ..terminal import Terminal
        from ..wording.outbound_fields import described_field

        console = Terminal()
        settings = Job.open(job).settings()
        registry = OutboundRegistry(method_of(settings).outbound_fields)
        for task in sorted(registry.tasks):
            console.print(task, style="bold")
            for field in registry.of_task(task).values():
                name, what, reason = described_field(field, task, settings.update_precision)
                console.print_named(f"  {name}", f" ({what})", style="")
                if reason:
                    console.print(f"    {reason}", soft_wrap=True)
