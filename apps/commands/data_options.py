"""What the commands of `fedannot data` share: options, how their values are read, and the table of what was made."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ...custom.data.label_ranges import parse_values
from ...transforms.errors import DataError

Number = TypeVar("Number", int, float)

OutOption = Annotated[Path, typer.Option(help="The new federation's folder; must be absent or empty.")]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]


def refuse_options(what: str, given: Mapping[str, bool]) -> None:
    """Refuse options that something does not have, rather than pass over them."""
    if names := [name for name, is_given in given.items() if is_given]:
        raise DataError(f"{', '.join(names)}: {what} does not have it.")


_LABEL_MAP_FORMS = "VALUE:CLASS,…, for example 85:1,170:2, with ranges 128-255:1, or with colours #ff0000:1"


def parse_label_map(text: str) -> dict[int, int]:
    """Read ``85:1,170:2``, or with ranges ``128-255:1``; below the lowest range, what is not named is background.

    Raises:
        DataError: if the text has another form, or has a value twice.
    """
    labels: dict[int, int] = {}
    lowest: int | None = None
    for values, label in _entries(text):
        try:
            named = parse_values(values)
        except ValueError as error:
            raise DataError(f"--label-map: found {text!r}, expected {_LABEL_MAP_FORMS}.") from error
        if len(named) > 1:
            lowest = named[0] if lowest is None else min(lowest, named[0])
        if twice := [value for value in named if value in labels]:
            raise DataError(f"--label-map: found the value {twice[0]} twice in {text!r}; expected one class for it.")
        labels |= dict.fromkeys(named, label)
    below = {value: 0 for value in range(lowest or 0) if value not in labels}
    return below | labels


def is_of_colours(text: str) -> bool:
    """Return whether a label map names colours."""
    return text.lstrip().startswith("#")


def parse_colour_map(text: str) -> dict[int, int]:
    """Read ``#ff0000:1,#00ff00:2``: red · 65536 + green · 256 + blue → class.

    Raises:
        DataError: if the text has another form.
    """
    colours: dict[int, int] = {}
    for colour, label in _entries(text):
        if not re.fullmatch("#[0-9a-fA-F]{6}", colour):
            raise DataError(f"--label-map: found {colour!r} in {text!r}, expected #RRGGBB:CLASS,….")
        colours[int(colour[1:], 16)] = label
    return colours


def _entries(text: str) -> list[tuple[str, int]]:
    """The parts of a label map: what stands before a colon, and the class behind it."""
    try:
        parts = [entry.rsplit(":", 1) for entry in text.split(",")]
        return [(values.strip(), int(label)) for values, label in parts]
    except ValueError:
        raise DataError(f"--label-map: found {text!r}, expected {_LABEL_MAP_FORMS}.") from None


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


def parse_channels(option: str, text: str) -> int | tuple[str, ...]:
    """Read the number of channels, or names of several with commas between them, ``T1,FLAIR``.

    Raises:
        DataError: if it is one name alone.

    >>> parse_channels("--channels", "T1, FLAIR")
    ('T1', 'FLAIR')
    """
    if text.strip().isdecimal():
        return int(text)
    names = tuple(name.strip() for name in text.split(","))
    if len(names) == 1:
        raise DataError(f"{option}: found {text!r}, expected a number, or names of channels with commas between them.")
    return names


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
