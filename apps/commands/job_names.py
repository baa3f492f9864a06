"""How commands take a job: a folder, or the name of an installed job, which a shell completes."""

from pathlib import Path
from typing import Annotated

import typer


def complete_jobs(incomplete: str) -> list[str]:
    """Return the names of installed jobs that begin so; after ``NAME=`` as above."""
    from ..runs.installed import installed_jobs

    before, equals, begun = incomplete.rpartition("=")
    return [f"{before}{equals}{name}" for name in installed_jobs() if name.startswith(begun)]


JobArgument = Annotated[
    Path,
    typer.Argument(
        help="The job's name, as `fedannot jobs` lists it, or its folder.", autocompletion=complete_jobs, metavar="JOB"
    ),
]
