"""The `fedannot` command and its subcommands."""
