"""The command `fedannot results`."""

from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import say
from .errors import reported_errors

RESULTS_EXAMPLE = "Example: fedannot results runs/compared --out runs/paper"


def results(
    folder: Annotated[Path, typer.Argument(help="Output folder of a run or a comparison.")],
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/results"),
    data: Annotated[
        Path | None, typer.Option(help="The federation's folder, or a site's, for a run whose cases were not scored.")
    ] = None,
    reference: Annotated[str | None, typer.Option(help="The arm to compare with; default: the first.")] = None,
) -> None:
    """Export results per case: CSV, a LaTeX table, tests with intervals, and figures as PDF and SVG."""
    with reported_errors():
        from ..functions.results import export_results

        exported = export_results(folder, out, data=data, reference=reference)
        for line in str(exported).splitlines():
            say(line)
        say(f"Tables, tests and figures: {out}")
