"""What a review becomes: new annotations, the datalist before them, and files for other tools."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..plain_lines import say, say_error
from ..wording.shell_words import shell_word
from .errors import reported_errors

if TYPE_CHECKING:
    from ..audit.found import FoundAudit

FolderArgument = Annotated[
    Path, typer.Argument(help="A run's output folder, a site's workspace, or the folder of the audit.")
]
SiteOption = Annotated[str | None, typer.Option(help="Only this site.")]


def apply(
    folder: FolderArgument,
    out: Annotated[Path, typer.Option(help="Folder of the new annotations; absent or empty.")],
    site: SiteOption = None,
    decisions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Decisions that a page has exported, in place of the stored ones."),
    ] = None,
    edited: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Masks that were edited in another tool, by the names of the given ones: a folder, such as that of an "
            "export; MONAI Label's studies; or an export of CVAT, also as .zip or .xml.",
        ),
    ] = None,
    dicom: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="DICOM series that edited DICOM segmentations are of, each a folder with its volume's name.",
        ),
    ] = None,
    update_datalist: Annotated[
        bool,
        typer.Option(
            "--update-datalist",
            help="Put a copy of the datalist in force, with the new annotations and the reviewed cases as its "
            "reference: data.yaml names it from then on. OUT must lie in its folder. Back with: fedannot audit revert",
        ),
    ] = False,
    shift: Annotated[
        bool,
        typer.Option(
            "--shift",
            help="Of an audit with --profile image: move all masks of the site back by the shift that it has found, in "
            "place of decisions.",
        ),
    ] = False,
) -> None:
    """Write accepted suggestions as new annotations, and the reviewed cases as a reference; given files stay."""
    if shift:
        _move_masks_back(
            folder, out, site, update_datalist, unused={"--decisions": decisions, "--edited": edited, "--dicom": dicom}
        )
        return
    with reported_errors():
        from ...custom.audit.decisions import read_decisions
        from ..audit.applying import apply_decisions
        from ..audit.case_files import CaseReader
        from ..audit.reference_list import has_new_label
        from ..audit.stored_decisions import read_given_decisions
        from ..checking.finding import plural

        result = only_audit(folder, site)
        if decisions is None:
            chosen = read_decisions(result.folder, result.site)
        else:
            chosen = read_given_decisions(decisions, result.audit)
        applied = apply_decisions(
            CaseReader(result), chosen, out, edited=edited, dicom=dicom, update_datalist=update_datalist
        )
        cases = applied.record.cases
        new = sum(has_new_label(case) for case in cases)
        say(f"{result.site}: {new} new annotations in {out}, {len(cases) - new} count as given")
        reviewed = sum(case.review is not None and case.review.is_reviewed for case in cases)
        if chosen.contested:
            warn(
                f"warning: readers differ on {plural(len(chosen.contested), 'finding')}, which count as open; see: "
                f"fedannot audit agreement {shell_word(folder)}"
            )
        if applied.reference is not None:
            say(f"{reviewed} reviewed cases as a reference: {applied.reference}")
        if applied.datalist is not None:
            _say_update(applied.datalist, result.audit.data)


def _move_masks_back(
    folder: Path, out: Path, site: str | None, update_datalist: bool, *, unused: Mapping[str, object]
) -> None:
    if given := [name for name, value in unused.items() if value]:
        raise typer.BadParameter("expected it without --shift, which asks no reviewer", param_hint=given)
    with reported_errors():
        from ..audit.shift_correction import correct_shift
        from ..wording.phrases import along_axes

        moved = correct_shift(folder, out, site=site, update_datalist=update_datalist)
        record = moved.record
        say(f"{moved.site}: all masks moved by {along_axes(record.moved_as_a_whole, record.unit or '')}")
        say(f"{len(record.annotations)} new annotations in {out}, {len(record.as_given)} stay as given")
        if moved.datalist is not None:
            _say_update(moved.datalist, moved.record.data)


def _say_update(datalist: Path, data: str) -> None:
    say(f"data.yaml names the datalist with them: {datalist}")
    say(f"To use the one before again: fedannot audit revert {shell_word(Path(data))}")


def revert(data: Annotated[Path, typer.Argument(help="The site's data: the folder with data.yaml.")]) -> None:
    """Use the datalist again that was used before apply --update-datalist; no file is removed."""
    with reported_errors():
        from ..audit.datalist_update import revert_update

        reverted = revert_update(data)
        say(f"data.yaml names {reverted.file} again, in place of {reverted.before.name}")


def export(
    folder: FolderArgument,
    out: Annotated[Path, typer.Option(help="Folder of the files; absent or empty.")],
    site: SiteOption = None,
    dicom: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="DICOM series that the volumes were made of, each a folder with its volume's name: write DICOM "
            "segmentations, too (pip install 'highdicom>=0.24').",
        ),
    ] = None,
    all_cases: Annotated[bool, typer.Option("--all", help="Cases without a finding, too.")] = False,
    links: Annotated[
        bool, typer.Option("--link-images", help="Images as links to the given files, in place of copies.")
    ] = False,
) -> None:
    """Write findings as a table, and the cases to review as files for ITK-SNAP, 3D Slicer and spreadsheets.

    The files are private copies: images, given masks, and suggested masks. What was changed there comes back with
    apply --edited.
    """
    with reported_errors():
        from ..audit.case_files import CaseReader
        from ..audit.exporting import ExportOptions, export_audit

        result = only_audit(folder, site)
        exported = export_audit(CaseReader(result), out, ExportOptions(dicom, all_cases, links))
        say(
            f"{result.site}: {exported.findings} findings, {exported.cases} cases to review, {exported.suggestions} "
            f"of them with suggested annotations, in {out}"
        )
        if exported.failed:
            say_error(
                "\n".join(f"{label}: not written: {reason}" for label, reason in exported.failed),
                colour=typer.colors.RED,
            )
            raise typer.Exit(1)


def warn(text: str) -> None:
    """Say a warning on the error stream."""
    say_error(text, colour=typer.colors.YELLOW)


def only_audit(folder: Path, site: str | None) -> "FoundAudit":
    """Return the one audit of a folder, of a site where it is given; errors as :func:`..audit.found.find_audit`."""
    from ..audit.found import find_audit

    return find_audit(folder, site)
