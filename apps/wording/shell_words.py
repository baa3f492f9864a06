"""Words of a command that a reader copies into a shell."""

import shlex
from pathlib import PurePath


def shell_word(value: object) -> str:
    """Return a path or a name as one word of a shell: quoted where a shell would take it apart or do something with it.

    A relative path that starts with a hyphen, which a command would take for an option, starts with ``./``.

    Args:
        value: a path has a path's type; any other value stays as it is.

    Example:
        >>> print(shell_word(PurePath("runs/audit")), shell_word("my data; rm"), shell_word(PurePath("-x")))
        runs/audit 'my data; rm' ./-x
    """
    return shlex.quote(path_word(value) if isinstance(value, PurePath) else str(value))


def path_word(path: object) -> str:
    """Return a path as an argument that no command takes for an option; it is not quoted yet.

    Args:
        path: absolute or relative.
    """
    text = str(path)
    return f"./{text}" if text.startswith("-") else text
