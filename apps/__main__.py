"""`python -m fedannot.apps` is the `fedannot` command."""

from .cli import main

main()
