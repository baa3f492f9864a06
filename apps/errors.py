"""How the command tells a person what is wrong: one clear text and exit code 1, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def reported_errors() -> Iterator[None]:
    """Print an error that is meant for a person and end the command with exit code 1.

    Those are the project's own error classes, whose text says what to do, and the operating system's about files.
    Anything else is a fault of the program and keeps its traceback.

    Raises:
        typer.Exit: with code 1 in place of the reported error.
    """
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or type(error).__module__.startswith("fedannot.")):
            raise
        typer.secho(f"Error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None
