"""`fedannot corrections`: what was corrected in a site's annotations; look at it, undo it, and take that back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..plain_lines import say
from .errors import reported_errors

if TYPE_CHECKING:
    from ...custom.data.corrections import Corrections
    from ..reports.corrections import SiteCorrections

corrections_app = typer.Typer(
    help="The annotations that a site corrected in a run; the given ones are never changed.", no_args_is_help=True
)

_COLUMNS: dict[str, Literal["left", "right"]] = {
    "annotation": "left",
    "voxels added": "right",
    "new lesions": "right",
    "state": "left",
}

FolderArgument = Annotated[
    Path, typer.Argument(help="A run's output folder, a site's workspace, or the folder of the corrections.")
]
CaseOption = Annotated[
    list[str] | None,
    typer.Option("--case", metavar="LABEL", help="A given annotation, by its path or file name; may repeat."),
]
SiteOption = Annotated[str | None, typer.Option(help="Only this site.")]


@corrections_app.command("list", epilog="Example: fedannot corrections list runs/simulation")
def list_(folder: FolderArgument, site: SiteOption = None) -> None:
    """List the corrected annotations: what was added, when, by which model."""
    with reported_errors():
        from rich.table import Table

        from ..reports.corrections import corrected_nothing
        from ..terminal import Terminal

        console = Terminal()
        if corrected_nothing(folder, site):
            whose = "" if site is None else f" of {site}"
            console.print(f"{folder}: no annotation{whose} was corrected; training uses them as they were given.")
            return
        for found in _chosen(folder, site):
            corrections = found.corrections
            console.print_named(
                corrections.site,
                f": {len(corrections.used)} of {len(corrections.labels)} annotations are used in corrected form",
            )
            facts = (
                f"given annotations: {corrections.data}",
                f"corrected: {found.folder}",
                f"rule: {corrections.method}, background with a probability above {corrections.threshold:g} becomes "
                "foreground",
                f"made: {corrections.made}, before round {corrections.round_number}, by model "
                f"{corrections.model_sha256[:16]}",
            )
            for fact in facts:
                console.print(f"  {fact}", soft_wrap=True)
            table = Table(box=None)
            for name, justify in _COLUMNS.items():
                table.add_column(name, justify=justify)
            for label in corrections.labels:
                state = "unchanged" if not label.file else "reverted" if label.reverted else "corrected"
                table.add_row(label.label, str(label.added_voxels), str(label.new_lesions), state)
            for failed, reason in corrections.failed:
                table.add_row(failed, "-", "-", f"not corrected: {reason}")
            console.print(table)


@corrections_app.command("show", epilog="Example: fedannot corrections show runs/simulation --site site-1")
def show(
    folder: FolderArgument,
    case: CaseOption = None,
    site: SiteOption = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the pictures; default: beside the corrections.")] = None,
) -> None:
    """Draw annotations before and after the correction."""
    with reported_errors():
        from ..reports.corrections import PICTURE_FOLDER, draw_corrections

        for found in _chosen(folder, site):
            target = found.folder / PICTURE_FOLDER if out is None else out / found.corrections.site
            files = draw_corrections(found, target, case)
            say(f"{found.corrections.site}: {len(files)} pictures in {target}")


@corrections_app.command("revert", epilog="Example: fedannot corrections revert runs/simulation --site site-1")
def revert(folder: FolderArgument, case: CaseOption = None, site: SiteOption = None) -> None:
    """Let given annotations count again, for a site's next training; without --case all of them."""
    with reported_errors():
        from ...custom.data.corrections import revert_corrections

        _say_what_counts(revert_corrections(_only(folder, site).folder, case))


@corrections_app.command("restore", epilog="Example: fedannot corrections restore runs/simulation --site site-1")
def restore(folder: FolderArgument, case: CaseOption = None, site: SiteOption = None) -> None:
    """Take a revert back: corrected annotations count again, for a site's next training; without --case all of them."""
    with reported_errors():
        from ...custom.data.corrections import restore_corrections

        _say_what_counts(restore_corrections(_only(folder, site).folder, case))


def _say_what_counts(corrections: "Corrections") -> None:
    reverted = sum(label.reverted for label in corrections.labels)
    say(
        f"{corrections.site}: {reverted} annotations count as they were given, {len(corrections.used)} in "
        "corrected form, from the site's next training on."
    )


def _only(folder: Path, site: str | None) -> "SiteCorrections":
    from ...transforms.errors import DataError

    chosen = _chosen(folder, site)
    if len(chosen) > 1:
        sites = ", ".join(found.corrections.site for found in chosen)
        raise DataError(f"{folder}: found corrections of {sites}; say which with --site.")
    return chosen[0]


def _chosen(folder: Path, site: str | None) -> list["SiteCorrections"]:
    from ...transforms.errors import DataError
    from ..reports.corrections import corrected_nothing, find_corrections

    if corrected_nothing(folder):
        raise DataError(f"{folder}: no annotation was corrected in this run; there is nothing to show or change.")
    found = find_corrections(folder)
    chosen = [one for one in found if site in (None, one.corrections.site)]
    if not chosen:
        sites = ", ".join(one.corrections.site for one in found)
        raise DataError(f"{folder}: found no corrections of {site!r}; expected one of: {sites}.")
    return chosen
