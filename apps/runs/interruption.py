"""SIGINT and SIGTERM: a command stops at once, clears up behind itself and says how to go on."""

import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from ..wording.shell_words import path_word

# Of commands that make many runs.
KEPT = "Runs that are finished, and the finished rounds of the others, are kept."

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """The process was asked to end; no error that anything on the way may take for its own.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """The exit code that shells give a process that ends by the signal."""
        return 128 + self.number


class _Received:
    """The signal that this process got while it listened, if any."""

    number: int | None = None


@contextmanager
def stopping_on_signals() -> Iterator[None]:
    """Raise :class:`Interrupted` where the main thread is when a signal to end comes, while the block runs.

    A further SIGTERM does not disturb what clears up. A further SIGINT, from an impatient person, is raised again, so
    that clearing up need not be waited for. In another thread than the main one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        _Received.number = number
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _Received.number = None


def ignore_signals() -> None:
    """Ignore signals to end from now on, for the last words of a process that ends anyway."""
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def received_signal() -> int | None:
    """Return the signal to end that came while the process listened, if any.

    A library may turn the :class:`Interrupted` that is raised inside it into an error of its own, as PyTorch does
    while it writes a file; every error after a signal is its consequence.
    """
    return _Received.number


def check_interruption() -> None:
    """Raise again where something on the way has swallowed an interruption, as a bare ``except`` does.

    Raises:
        Interrupted: if a signal to end has come.
    """
    if _Received.number is not None:
        raise Interrupted(_Received.number)


def given_command(context: typer.Context, *, resume: bool = False) -> str:
    """Return the command line that a command was given, as a shell takes it; options with their default are left out.

    Args:
        context: the command's.
        resume: add ``--resume``.
    """
    words = context.command_path.split(" ")
    options: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        values = [str(entry) for entry in value] if isinstance(value, list | tuple) else [str(value)]
        if parameter.param_type_name == "argument":
            # A job is named by its folder, too; an option takes any word as its value.
            words += map(path_word, values)
        elif value is None or value == parameter.get_default(context) or "--resume" in parameter.opts:
            continue
        elif value is True:
            options.append(parameter.opts[0])
        else:
            options += [word for entry in values for word in (parameter.opts[0], entry)]
    return shlex.join([*words, *options, *(["--resume"] if resume else [])])
