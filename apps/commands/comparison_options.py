"""Options of the commands that make many runs: which seeds and share of the runs, and where runs are made."""

from pathlib import Path
from typing import Annotated

import typer

Seeds = Annotated[int, typer.Option(min=1, help="Number of seeds.")]
FirstSeed = Annotated[int, typer.Option(help="The first seed.")]
JobsFolder = Annotated[
    Path | None, typer.Option(help="A folder that holds the jobs; default: those that are installed.")
]
Only = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="Make the I-th of N shares of the runs; others make the rest in this folder."),
]
Processes = Annotated[
    int | None, typer.Option(min=1, help="Runs at a time; default: one per GPU or core, or what Ray has room for.")
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="processes|ray",
        help="What places the runs: processes of this machine, or Ray, on a cluster or on this machine. Same result.",
    ),
]
CpusPerRun = Annotated[
    int | None, typer.Option(metavar="N", help="Cores of each run under Ray; default: as many as its threads.")
]
GpusPerRun = Annotated[
    float | None,
    typer.Option(metavar="N", help="GPUs of each run under Ray, or a part of one; default: one where there are any."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Head of the Ray cluster; default: RAY_ADDRESS, else Ray is started here ('local')."
    ),
]
