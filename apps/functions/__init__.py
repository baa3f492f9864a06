"""What a notebook or a script calls: what the commands do, as functions with typed results."""
