"""What the commands of `fedannot data` share: options, how their values are read, and the table of what was made."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ...transforms.errors import DataError

Number = TypeVar("Number", int, float)

OutOption = Annotated[Path, typer.Option(help="The new federation's folder; must be absent or empty.")]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]


def refuse_options(what: str, given: Mapping[str, bool]) -> None:
    """Refuse options that something does not have, rather than pass over them."""
    if names := [name for name, is_given in given.items() if is_given]:
        raise DataError(f"{', '.join(names)}: {what} does not have it.")


def parse_label_map(text: str) -> dict[int, int]:
    """Read ``85:1,170:2``.

    Raises:
        DataError: if the text has another form.
    """
    try:
        entries = [entry.split(":") for entry in text.split(",")]
        return {int(value): int(label) for value, label in entries}
    except ValueError:
        raise DataError(f"--label-map: found {text!r}, expected VALUE:CLASS,…, for example 85:1,170:2.") from None


def parse_numbers(
    option: str, text: str, kind: Callable[[str], Number], *, count: int | None = None
) -> tuple[Number, ...]:
    """Read numbers with commas between them, ``128,128``.

    Args:
        option: the option to name in an error.
        text: what was given.
        kind: int or float.
        count: how many there must be, None for any number.

    Raises:
        DataError: if the text has another form.
    """
    try:
        numbers = tuple(kind(part) for part in text.split(","))
        if not all(map(math.isfinite, numbers)) or (count is not None and len(numbers) != count):
            raise ValueError
    except ValueError:
        kinds = "whole numbers" if kind is int else "numbers"
        wanted = kinds if count is None else f"{count} {kinds}"
        raise DataError(f"{option}: found {text!r}, expected {wanted} with commas between them.") from None
    return numbers


def print_federation(folder: Path) -> None:
    """Print what a federation holds; for the person who has the data."""
    from rich.table import Table

    from ...custom.data.overview import federation_overview
    from ..reports.data_columns import federation_columns
    from ..terminal import Terminal

    columns = federation_columns(federation_overview(folder))
    table = Table(title=str(folder))
    for heading in columns:
        table.add_column(heading, justify="left" if heading == "site" else "right")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    Terminal().print(table)
