"""How the command tells a person what is wrong: one clear text and exit code 1, no traceback."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from ..plain_lines import say_error
from ..runs.interruption import Interrupted, ignore_signals, received_signal, stopping_on_signals


@contextmanager
def reported_errors(how_to_go_on: Callable[[], str] | None = None) -> Iterator[None]:
    """Print an error that is meant for a person and end the command with exit code 1.

    Those are the project's own error classes, whose text says what to do, and the operating system's about files.
    Anything else is a fault of the program and keeps its traceback. SIGINT and SIGTERM end the command with 130 and
    143.

    Args:
        how_to_go_on: gives the sentences that are printed after a signal: what is done, and which command goes on.

    Raises:
        typer.Exit: in place of the reported error, or of a signal.
    """
    try:
        with stopping_on_signals():
            try:
                yield
            except BaseException as error:
                stop = _interruption(error)
                if stop is None:
                    raise
                ignore_signals()
                say_error(f"Stopped by {stop}.{'' if how_to_go_on is None else f' {how_to_go_on()}'}")
                raise typer.Exit(stop.exit_code) from None
    except Exception as error:
        if isinstance(error, typer.Exit) or not (
            isinstance(error, OSError) or type(error).__module__.startswith("fedannot.")
        ):
            raise
        say_error(f"Error: {_text(error)}", colour=typer.colors.RED)
        raise typer.Exit(1) from None


def _interruption(error: BaseException) -> Interrupted | None:
    """The interruption that an error is or follows, if any."""
    if isinstance(error, Interrupted):
        return error
    number = received_signal()
    return None if number is None else Interrupted(number)


def _text(error: Exception) -> str:
    """What an error says; of the operating system's the file and the reason, without its number."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)
