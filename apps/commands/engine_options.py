"""Options that say where the runs of a comparison are made, alike for all commands that make many."""

from typing import Annotated

import typer

EngineOption = Annotated[
    str,
    typer.Option(
        metavar="processes|ray",
        help="What places the runs: processes of this machine, or Ray, on a cluster or on this machine. Same result.",
    ),
]
CpusOption = Annotated[
    int | None, typer.Option(metavar="N", help="Cores of each run under Ray; default: as many as its threads.")
]
GpusOption = Annotated[
    float | None,
    typer.Option(metavar="N", help="GPUs of each run under Ray, or a part of one; default: one where there are any."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Head of the Ray cluster; default: RAY_ADDRESS, else Ray is started here ('local')."
    ),
]
