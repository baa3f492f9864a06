"""`fedannot corrections`: what sites corrected in their annotations; look, revert, restore, write as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..plain_lines import say, say_error
from .errors import reported_errors

if TYPE_CHECKING:
    from ...custom.corrections.export import ExportedAnnotations
    from ...custom.corrections.store import StoredCorrections

corrections_app = typer.Typer(
    help="The annotations that a site corrected in a run; the given ones are never changed.",
    no_args_is_help=True,
)

FolderArgument = Annotated[
    Path, typer.Argument(help="A run's output folder, a site's workspace, or the folder of the corrections.")
]
CaseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--case", metavar="LABEL", help="A case, by the path or name of its annotation (image for classes); may repeat."
    ),
]
LesionOption = Annotated[
    list[int] | None,
    typer.Option(min=1, help="An added lesion of the one --case, by its number in the list; may repeat."),
]
SiteOption = Annotated[str | None, typer.Option(help="Only this site.")]


@corrections_app.command("list", epilog="Example: fedannot corrections list runs/simulation")
def list_(folder: FolderArgument, case: CaseOption = None, site: SiteOption = None) -> None:
    """List the cases that were corrected: what, when, by which model.

    With --case the lesions that were added to it one by one.
    """
    with reported_errors():
        from ..audit.listing import hint_of_audit
        from ..reports.correction_lists import print_record
        from ..reports.corrections import corrected_nothing
        from ..terminal import Terminal

        console = Terminal()
        if corrected_nothing(folder, site):
            who = "no site" if site is None else site
            done = "corrected its annotations" if site is None else "corrected none of its annotations"
            console.print(f"{folder}: {who} {done}; training uses them as they were given.", soft_wrap=True)
            console.print(hint_of_audit(folder), soft_wrap=True)
            return
        for result in _chosen(folder, site):
            print_record(result, console, case)


@corrections_app.command("show", epilog="Example: fedannot corrections show runs/simulation --site site-1")
def show(
    folder: FolderArgument,
    case: CaseOption = None,
    site: SiteOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the figures; default: in the folder of the corrections.")
    ] = None,
) -> None:
    """Draw annotations before and after; those that change most first."""
    with reported_errors():
        from ..reports.correction_pictures import PICTURE_FOLDER, draw_record

        for result in _chosen(folder, site):
            target = result.folder / PICTURE_FOLDER if out is None else out / result.site
            files = draw_record(result, target, case)
            say(f"{result.site}: {len(files)} figures in {target}")


@corrections_app.command("revert", epilog="Example: fedannot corrections revert runs/simulation --site site-1")
def revert(
    folder: FolderArgument, case: CaseOption = None, lesion: LesionOption = None, site: SiteOption = None
) -> None:
    """Let given annotations count again, for a site's next training; without --case all of them.

    With --lesion only those lesions become background again.
    """
    with reported_errors():
        _let_count(_only(folder, site), case, lesion, reverted=True)


@corrections_app.command("restore", epilog="Example: fedannot corrections restore runs/simulation --site site-1")
def restore(
    folder: FolderArgument, case: CaseOption = None, lesion: LesionOption = None, site: SiteOption = None
) -> None:
    """Let corrections count that were reverted or are proposed, for a site's next training.

    Without --case all of them. With --lesion those lesions count; of an annotation that counts as given they alone.
    """
    with reported_errors():
        _let_count(_only(folder, site), case, lesion, reverted=False)


@corrections_app.command("write", epilog="Example: fedannot corrections write runs/simulation --out runs/annotations")
def write(
    folder: FolderArgument,
    out: Annotated[Path, typer.Option(help="Folder of the new files, a folder in it for each site; absent or empty.")],
    site: SiteOption = None,
) -> None:
    """Write the annotations that count otherwise than they were given as new files, with where they come from.

    They have the geometry and the label values of the given files. Objects that training ignores are listed in
    provenance.json, as a mask cannot say so.
    """
    with reported_errors():
        from ...custom.data.whole_files import new_folder

        chosen = _one_of_each_site(folder, _chosen(folder, site))
        with new_folder(out) as unfinished:
            written = [_write(found, unfinished / found.site) for found in chosen]
        for record in written:
            files = sum(bool(annotation.file) for annotation in record.annotations)
            say(f"{record.site}: {files} new annotations in {out / record.site}, {len(record.as_given)} count as given")
        failed = [f"{label}: not written: {reason}" for record in written for label, reason in record.failed]
        if failed:
            say_error("\n".join(failed), colour=typer.colors.RED)
            raise typer.Exit(1)


def _write(found: "StoredCorrections", folder: Path) -> "ExportedAnnotations":
    from ...custom.corrections.export import export_corrections
    from ...custom.data.whole_files import private_folder

    private_folder(folder)
    return export_corrections(folder, found)


def _let_count(
    found: "StoredCorrections", names: list[str] | None, lesions: list[int] | None, *, reverted: bool
) -> None:
    """Set which cases or lesions count, and say it."""
    if lesions:
        _let_lesions_count(found, names or [], lesions, reverted=reverted)
        return
    from ...custom.corrections.case_states import cases_named, restore
    from ...custom.corrections.case_states import revert as revert_cases

    corrections = (revert_cases if reverted else restore)(found.folder, names)
    known = cases_named(corrections, None, found.folder)
    active = sum(case.is_active for case in corrections.cases if case.name in known)
    say(
        f"{found.site}: {len(known) - active} cases count as they were given, {active} in corrected form, from the "
        "site's next training on."
    )


def _let_lesions_count(found: "StoredCorrections", names: list[str], lesions: list[int], *, reverted: bool) -> None:
    from ...custom.corrections.lesions import set_lesions
    from ...transforms.errors import DataError

    if not any(case.mask is not None for case in found.corrections.cases):
        raise DataError(
            f"{found.folder}: no lesion was added by these corrections; revert whole cases, without --lesion."
        )
    if len(names) != 1:
        raise DataError(
            f"--lesion: found {len(names)} times --case; expected the one that these lesions were added to."
        )
    case = set_lesions(found.folder, names[0], lesions, reverted=reverted)
    added = () if case.mask is None else case.mask.lesions
    counting = sum(not item.is_reverted for item in added) if case.is_active else 0
    say(
        f"{found.site}: of {case.name} {counting} of {len(added)} added lesions count, from the site's next training "
        "on."
    )


def _only(folder: Path, site: str | None) -> "StoredCorrections":
    from ...transforms.errors import DataError

    chosen = _one_of_each_site(folder, _chosen(folder, site))
    if len(chosen) > 1:
        sites = ", ".join(found.site for found in chosen)
        raise DataError(f"{folder}: found corrections of {sites}; say which with --site.")
    return chosen[0]


def _one_of_each_site(folder: Path, chosen: "list[StoredCorrections]") -> "list[StoredCorrections]":
    from ...transforms.errors import DataError

    for one in chosen:
        folders = [str(other.folder) for other in chosen if other.site == one.site]
        if len(folders) > 1:
            raise DataError(
                f"{folder}: found corrections of several runs of {one.site}; name the folder of one of them: "
                f"{', '.join(folders)}."
            )
    return chosen


def _chosen(folder: Path, site: str | None) -> "list[StoredCorrections]":
    from ...transforms.errors import DataError
    from ..audit.listing import hint_of_audit
    from ..reports.corrections import corrected_nothing, find_corrections

    if corrected_nothing(folder):
        raise DataError(
            f"{folder}: no annotation was corrected in this run; there is nothing to show or change. "
            f"{hint_of_audit(folder)}"
        )
    result = find_corrections(folder)
    chosen = [item for item in result if site in (None, item.site)]
    if not chosen:
        sites = ", ".join(item.site for item in result)
        raise DataError(f"{folder}: found no corrections of {site!r}; expected one of: {sites}.")
    return chosen
