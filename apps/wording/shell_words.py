"""Words of a command that a reader copies into a shell."""

import shlex


def shell_word(value: object) -> str:
    """Return a path or a name as one word of a shell: quoted where a shell would take it apart or do something with it.

    Example:
        >>> print(shell_word("runs/audit"), shell_word("my data; rm"))
        runs/audit 'my data; rm'
    """
    return shlex.quote(str(value))
