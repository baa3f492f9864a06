"""`fedannot bundle`: a run's model as a MONAI Bundle, for those who use it elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import say
from .errors import reported_errors

bundle_app = typer.Typer(help="A run's model as a MONAI Bundle, which runs without fedannot.", no_args_is_help=True)


@bundle_app.command(epilog="Example: fedannot bundle export runs/simulation --out runs/bundle")
def export(
    run: Annotated[Path, typer.Argument(help="A run's output folder, or an NVFlare workspace, of a site alone too.")],
    out: Annotated[Path, typer.Option(help="The bundle's folder.")],
    data: Annotated[
        Path | None,
        typer.Option(help="The federation's folder, or one with a data.yaml; default: where the run had its data."),
    ] = None,
    site: Annotated[
        str | None, typer.Option(help="Export this site's own model, where the method has such; default: the global.")
    ] = None,
    version: Annotated[str, typer.Option(help="Version of the bundle.")] = "0.1.0",
    intended_use: Annotated[str, typer.Option(help="What the model is for, and what not.")] = "",
    authors: Annotated[str, typer.Option(help="Who made the model and holds the rights.")] = "",
    licence: Annotated[Path | None, typer.Option(help="File with the terms of use; default: Apache-2.0.")] = None,
) -> None:
    """Export a model with its metadata, weights, model card and a configuration that segments a folder of images."""
    with reported_errors():
        from ..runs.progress import Progress

        with Progress(states_in_log=False) as progress:
            progress.tell(f"Exporting the model of {run}.")
            from ..functions.bundles import export_bundle

            made = export_bundle(
                run,
                out,
                data=data,
                site=site,
                version=version,
                intended_use=intended_use,
                authors=authors,
                licence=licence,
            )
        say(f"Bundle: {out}")
        say(f"Run it: {made.command}")
