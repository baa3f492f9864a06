"""`python -m fedannot` is the `fedannot` command."""

from .apps.commands.cli import main

main()
