"""`python -m fedannot.apps` is the `fedannot` command."""

from .commands.cli import main

main()
