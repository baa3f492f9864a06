"""What a person runs: the `fedannot` command, data preparation, in-process simulation, comparison, pictures."""
