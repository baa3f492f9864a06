"""The command `fedannot paper`: a published table made again, with the paper's own figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..plain_lines import say
from ..runs.interruption import KEPT, given_command
from .errors import reported_errors
from .simulation import SettingOption

if TYPE_CHECKING:
    from ..papers.reading import NamedTable

PAPER_EXAMPLE = (
    "Example: fedannot paper feda3i-table2 --small\n\n"
    "Example: fedannot paper feda3i-table2 --data DOWNLOADS --only FedA3I,skin-ns --seeds 5"
)


def paper(
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name of a table: feda3i-table2; without it all tables are listed."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List all tables, or rows and conditions of one, and run nothing.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with a folder for each published data set, by its name in docs/datasets.md: DIR/isic2017.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder; default: runs/papers/NAME, or NAME-small.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; default: the paper's repetitions.")] = None,
    small: Annotated[
        bool, typer.Option("--small", help="The same rows on generated images, with tiny networks and few rounds.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Run these rows and conditions alone; the reference is run in any case."),
    ] = None,
    set_: SettingOption = None,
    processes: Annotated[int | None, typer.Option(help="Runs at a time; default: one per GPU or core.")] = None,
) -> None:
    """Make a published table again: import, noise, every method with every seed, with the paper's own figures.

    What is finished is kept: the same command goes on after an interruption. Rows, conditions and seeds may be added.
    Methods that are not implemented here have the paper's figures alone.
    """
    with reported_errors(lambda: f"{KEPT} Go on with: {given_command(context)}"):
        from ..papers.reading import find_table, known_tables, restricted

        if table is None:
            for named in known_tables().values():
                say(f"{named.name}: {named.paper.title}, {named.table.title} ({named.table.section})")
            return
        named = find_table(table)
        if list_:
            _describe(named)
            return
        from ..papers.output import MARKDOWN_FILE, print_table
        from ..papers.running import TableRequest, make_table
        from ..runs.overrides import parse_override
        from ..runs.progress import Progress
        from ..terminal import Terminal

        folder = out or Path("runs") / "papers" / f"{named.name}{'-small' * small}"
        request = TableRequest(
            restricted(named, [name.strip() for name in (only or "").split(",") if name.strip()]),
            folder,
            data,
            small,
            seeds,
            dict(parse_override(text) for text in set_ or []),
            processes,
        )
        with Progress() as progress:
            result = make_table(request, progress)
        print_table(result, Terminal())
        say(f"Table: {folder / MARKDOWN_FILE}, and as JSON and CSV in the same folder.")


def _describe(named: "NamedTable") -> None:
    """Print what a table needs, its rows and its conditions."""
    say(f"{named.name}: {named.paper.title}, {named.table.title}")
    say(named.paper.citation)
    for key, data in named.paper.data.items():
        if any(named.condition(name).data == key for name in named.conditions):
            say(f"Data {key}: {data.what}; below --data DIR: {', '.join(data.sources)}")
    for key in named.conditions:
        condition = named.condition(key)
        say(f"Condition {key}: {condition.title}; {condition.noise or 'no noise is added'}")
    for group in named.table.groups:
        for row in group.rows:
            how = "not implemented here" if row.arm is None else f"job {row.arm.job}"
            say(f"Row {row.name}{f' ({group.title})' * bool(group.title)}: {how}")
    for key, reason in named.table.expected_changes.items():
        say(f"Needs --set {key}=…: {reason}")
    for text in named.differences:
        say(f"Differs: {text}")
