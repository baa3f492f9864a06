"""`fedannot corrections`: what sites corrected or undid in their annotations; look, take back, write as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..plain_lines import say, say_error
from .errors import reported_errors

if TYPE_CHECKING:
    from ...custom.data.written_annotations import WrittenAnnotations
    from ..reports.corrections import SiteCorrections, SiteUndone

corrections_app = typer.Typer(
    help="The annotations that a site corrected in a run, or in which it undid how it annotates; the given ones are "
    "never changed.",
    no_args_is_help=True,
)

FolderArgument = Annotated[
    Path, typer.Argument(help="A run's output folder, a site's workspace, or the folder of the corrections.")
]
CaseOption = Annotated[
    list[str] | None,
    typer.Option("--case", metavar="LABEL", help="A given annotation, by its path or file name; may repeat."),
]
LesionOption = Annotated[
    list[int] | None,
    typer.Option(min=1, help="An added lesion of the one --case, by its number in the list; may repeat."),
]
SiteOption = Annotated[str | None, typer.Option(help="Only this site.")]


@corrections_app.command("list", epilog="Example: fedannot corrections list runs/simulation")
def list_(folder: FolderArgument, case: CaseOption = None, site: SiteOption = None) -> None:
    """List the annotations that were corrected, or of which something was undone: what, when, by which model.

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
        for found in _chosen(folder, site):
            print_record(found, console, case)


@corrections_app.command("show", epilog="Example: fedannot corrections show runs/simulation --site site-1")
def show(
    folder: FolderArgument,
    case: CaseOption = None,
    site: SiteOption = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the pictures; default: beside the corrections.")] = None,
) -> None:
    """Draw annotations before and after; of what was undone those first that change most."""
    with reported_errors():
        from ..reports.correction_pictures import PICTURE_FOLDER, draw_record

        for found in _chosen(folder, site):
            target = found.folder / PICTURE_FOLDER if out is None else out / found.site
            files = draw_record(found, target, case)
            say(f"{found.site}: {len(files)} pictures in {target}")


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
    """Take a revert back, or let corrections count that wait for a decision, for a site's next training.

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


def _write(found: "SiteCorrections | SiteUndone", folder: Path) -> "WrittenAnnotations":
    from ...custom.data.whole_files import private_folder
    from ...custom.data.written_annotations import write_corrected_annotations, write_undone_annotations
    from ..reports.corrections import SiteCorrections

    private_folder(folder)
    if isinstance(found, SiteCorrections):
        return write_corrected_annotations(folder, found.folder, found.corrections)
    return write_undone_annotations(folder, found.folder, found.undone)


def _let_count(
    found: "SiteCorrections | SiteUndone", names: list[str] | None, lesions: list[int] | None, *, reverted: bool
) -> None:
    """Set which annotations or lesions count, and say it."""
    if lesions:
        _let_lesions_count(found, names or [], lesions, reverted=reverted)
        return
    from ...custom.data.corrections import restore_corrections, revert_corrections
    from ...custom.data.undone import restore_undone, revert_undone
    from ..reports.corrections import SiteCorrections

    if isinstance(found, SiteCorrections):
        corrections = (revert_corrections if reverted else restore_corrections)(found.folder, names)
        others = len(corrections.used)
        given = sum(bool(label.file) for label in corrections.labels) - others
        how = "in corrected form"
    else:
        undone = (revert_undone if reverted else restore_undone)(found.folder, names)
        given = sum(case.reverted for case in undone.cases)
        others, how = len(undone.cases) - given, "with what is undone"
    say(
        f"{found.site}: {given} annotations count as they were given, {others} {how}, from the site's next training on."
    )


def _let_lesions_count(
    found: "SiteCorrections | SiteUndone", names: list[str], lesions: list[int], *, reverted: bool
) -> None:
    from ...custom.data.corrected_lesions import set_lesions
    from ...transforms.errors import DataError
    from ..reports.corrections import SiteCorrections

    if not isinstance(found, SiteCorrections):
        raise DataError(
            f"{found.folder}: no lesion was added in what was undone; revert whole cases, without --lesion."
        )
    if len(names) != 1:
        raise DataError(
            f"--lesion: found {len(names)} times --case; expected the one that these lesions were added to."
        )
    label = set_lesions(found.folder, names[0], lesions, reverted=reverted)
    counting = sum(not one.reverted for one in label.lesions) if label.is_used else 0
    say(
        f"{found.site}: of {label.label} {counting} of {len(label.lesions)} added lesions count, from the site's next "
        "training on."
    )


def _only(folder: Path, site: str | None) -> "SiteCorrections | SiteUndone":
    from ...transforms.errors import DataError

    chosen = _one_of_each_site(folder, _chosen(folder, site))
    if len(chosen) > 1:
        sites = ", ".join(found.site for found in chosen)
        raise DataError(f"{folder}: found corrections of {sites}; say which with --site.")
    return chosen[0]


def _one_of_each_site(
    folder: Path, chosen: "list[SiteCorrections | SiteUndone]"
) -> "list[SiteCorrections | SiteUndone]":
    from ...transforms.errors import DataError

    for one in chosen:
        folders = [str(other.folder) for other in chosen if other.site == one.site]
        if len(folders) > 1:
            raise DataError(
                f"{folder}: found corrections of several runs of {one.site}; name the folder of one of them: "
                f"{', '.join(folders)}."
            )
    return chosen


def _chosen(folder: Path, site: str | None) -> "list[SiteCorrections | SiteUndone]":
    from ...transforms.errors import DataError
    from ..audit.listing import hint_of_audit
    from ..reports.corrections import corrected_nothing, find_records

    if corrected_nothing(folder):
        raise DataError(
            f"{folder}: no annotation was corrected in this run; there is nothing to show or change. "
            f"{hint_of_audit(folder)}"
        )
    found = find_records(folder)
    chosen = [one for one in found if site in (None, one.site)]
    if not chosen:
        sites = ", ".join(one.site for one in found)
        raise DataError(f"{folder}: found no corrections of {site!r}; expected one of: {sites}.")
    return chosen
