"""A command line that can be run in a process of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """What a process needs in order to run a command line; nothing is imported for it.

    Attributes:
        name: what it is called in a shell.
        module: what ``python -m`` runs in a new process.
        entry: takes the arguments in a forked process and ends it; a function of a module, found there by its name.
        preloaded: name of the module with what the entry imports, for the process that others are forked from.
    """

    name: str
    module: str
    entry: Callable[[Sequence[str]], None]
    preloaded: str
