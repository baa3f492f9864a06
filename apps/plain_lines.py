"""Lines that the command prints: what names in them would make a terminal do is escaped."""

import typer

from ..transforms.printable import printable, printable_lines

# On the first and the last line of a command, since --data is easily forgotten.
GENERATED = "The images were generated, since no data were given (--data)."


def say(text: str) -> None:
    """Print one line."""
    typer.echo(printable(text))


def say_error(text: str, *, colour: str | None = None) -> None:
    """Print an error, of one or several lines, to the standard error."""
    typer.secho(printable_lines(text), fg=colour, err=True)
