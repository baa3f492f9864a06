"""An audit for the tools that people have: a table, and images and masks for ITK-SNAP and 3D Slicer."""

import csv
import io
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...custom.audit.case_list import question
from ...custom.audit.decisions import Decisions, read_decisions
from ...custom.audit.findings import QUESTIONS, AuditedCase, Finding
from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask, plain_name, read_classes
from ...custom.data.whole_files import new_folder, private_file, private_folder, write_text
from ...transforms.array_types import Labels
from ...transforms.errors import DataError
from ...transforms.printable import printable, spreadsheet_safe
from ..wording.findings import finding_in_words
from .case_files import CaseReader
from .dicom_seg import check_highdicom, write_dicom_seg
from .exported_files import EXPORT_FILE, GIVEN_FOLDER, name_of_copy, write_exported_files
from .named_segments import segments_of_site
from .suggested_files import SuggestedFiles

FINDINGS_TABLE = "findings.csv"
LABELS_FILE = "itksnap_labels.txt"
README_FILE = "README.txt"
_MASKS, _SLICER, _DICOM = "suggested", "slicer", "dicom-seg"

_COLUMNS = (
    *("image", "annotation", "patient", "annotator", "finding", "kind", "classes", "probability", "score"),
    *(
        "disagreement",
        "uncertainty",
        "amount",
        "amount_unit",
        "size",
        "size_unit",
        "sample",
        "samples",
        "start",
        "stop",
    ),
    *("suggestion", "sentence", "decision", "reviewer", "time", "comment"),
)
# Colours of classes in turn, as red, green and blue: those that colour-blind readers tell apart.
_COLOURS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167))


@dataclass(frozen=True)
class Exported:
    """How much was written, and which annotations could not be.

    Attributes:
        findings: what looks wrong; rows of the table that only ask for a reference are none.
        cases: whose images and given masks were written.
        suggestions: suggested masks among them.
        failed: annotations of other cases, and why.
    """

    findings: int
    cases: int
    suggestions: int
    failed: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ExportOptions:
    """What an export writes next to the table.

    Attributes:
        dicom: folder of DICOM series, each a folder with its volume's name; masks are written for these, too.
        all_cases: those without a finding, too.
        links: images as links to the given files in place of copies.
    """

    dicom: Path | None = None
    all_cases: bool = False
    links: bool = False


def export_audit(reader: CaseReader, out: Path, options: ExportOptions = ExportOptions()) -> Exported:
    """Write an audit's findings as a table, and the cases to review with the folders and names of the given files.

    To review are the cases with a finding, those that are asked for as a reference among them. Given files never
    change: masks are copies, whatever the options say. All files are private.

    Args:
        reader: of the audit.
        out: folder of the files, absent or empty.
        options: what is written.

    Raises:
        DataError: if the folder holds files, the decisions cannot be read, or DICOM is asked for where it cannot be
            written.
    """
    if options.dicom is not None:
        check_highdicom()
    decisions = read_decisions(reader.folder, reader.audit.site)
    description = reader.description
    with new_folder(out) as folder:
        rows = _rows(reader, decisions)
        write_text(folder / FINDINGS_TABLE, _as_csv(rows))
        written = _Written(0, 0)
        failed: list[tuple[str, str]] = []
        if isinstance(description, SegmentationDescription):
            write_text(folder / LABELS_FILE, itksnap_labels(description))
            write_text(folder / README_FILE, _README)
            written, failed = _write_cases(folder, reader, description, options)
            write_exported_files(folder, reader.audit.site, reader.audit.made)
    findings = sum(finding.kind not in QUESTIONS for case in reader.audit.cases for finding in case.findings)
    return Exported(findings, written.cases, written.suggestions, tuple(failed))


@dataclass
class _Written:
    cases: int
    suggestions: int


def itksnap_labels(description: SegmentationDescription) -> str:
    """Return ITK-SNAP's label descriptions of a site's label values."""
    lines = ["# ITK-SNAP label description file", "# index red green blue opacity visible mesh name"]
    segments = segments_of_site(description)
    for value, label in sorted(description.labels_of_values.items()):
        name = "Clear Label" if label == 0 else segments[label].name
        red, green, blue = (0, 0, 0) if label == 0 else _colour(label)
        shown = 0 if label == 0 else 1
        lines.append(f'{value:5d} {red:5d} {green:4d} {blue:4d} {shown:8d} {shown:2d} {shown:2d}    "{name}"')
    return "\n".join(lines) + "\n"


def write_slicer_segmentation(file: Path, values: Labels, mask: Path, description: SegmentationDescription) -> None:
    """Write a volume's label values as a segmentation of 3D Slicer, a segment for each label value.

    Args:
        file: ends with ``.seg.nrrd``.
        values: ``(I, J, K)``, with the site's label values.
        mask: a NIfTI file with the geometry.
        description: the site's.

    Raises:
        DataError: if SimpleITK cannot read the geometry.
    """
    # Only volumes need these.
    import SimpleITK  # noqa: PLC0415

    from ...transforms.loading.volume_geometry import smallest_type  # noqa: PLC0415

    image = SimpleITK.GetImageFromArray(np.ascontiguousarray(values.T).astype(smallest_type(values)))
    try:
        image.CopyInformation(SimpleITK.ReadImage(str(mask)))
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise DataError(f"{mask}: 3D Slicer's library cannot read it ({reason}).") from error
    extent = " ".join(f"0 {length - 1}" for length in values.shape)
    metadata = {
        "Segmentation_MasterRepresentation": "Binary labelmap",
        "Segmentation_ContainedRepresentationNames": "Binary labelmap|",
        "Segmentation_ReferenceImageExtentOffset": "0 0 0",
    }
    segments = segments_of_site(description)
    foreground = [(value, label) for value, label in sorted(description.labels_of_values.items()) if label]
    several = Counter(label for _, label in foreground)
    for number, (value, label) in enumerate(foreground):
        identity = segments[label].identity
        metadata |= {
            # An ID stands once in a file.
            f"Segment{number}_ID": identity if several[label] == 1 else f"{identity}_value_{value}",
            f"Segment{number}_Name": segments[label].name,
            f"Segment{number}_LabelValue": str(value),
            f"Segment{number}_Layer": "0",
            f"Segment{number}_Color": " ".join(f"{part / 255:.4f}" for part in _colour(label)),
            f"Segment{number}_Extent": extent,
        }
    for key, text in metadata.items():
        image.SetMetaData(key, text)
    SimpleITK.WriteImage(image, str(private_file(file)), useCompression=True)


def _write_cases(
    folder: Path, reader: CaseReader, description: SegmentationDescription, options: ExportOptions
) -> tuple[_Written, list[tuple[str, str]]]:
    """Write the cases to review; those that cannot be written are returned with the reason."""
    suggested, written, failed = SuggestedFiles(reader, description), _Written(0, 0), []
    for case in reader.audit.cases:
        names = [finding.id for finding in case.findings if finding.has_suggestion]
        if not (case.findings or options.all_cases):
            continue
        try:
            _write_given(folder / GIVEN_FOLDER, reader, case, options)
            file = _given_file(reader, case)
            if names:
                file, _ = suggested.write(_beside(folder / _MASKS, reader, case), case, names)
            mask = read_classes(file, description)
            if mask.affine is not None:
                _write_for_slicer(_beside(folder / _SLICER, reader, case), file, description)
                # DICOM knows no empty segmentation.
                if options.dicom is not None and mask.classes.any():
                    _write_for_dicom(_beside(folder / _DICOM, reader, case), case, mask, description, options.dicom)
        except (DataError, OSError) as error:
            failed.append((case.label, str(error)))
            continue
        written.cases += 1
        written.suggestions += bool(names)
    return written, failed


def _given_file(reader: CaseReader, case: AuditedCase) -> Path:
    label = reader.files(case).label
    assert isinstance(label, Path)
    return label


def _write_given(folder: Path, reader: CaseReader, case: AuditedCase, options: ExportOptions) -> None:
    """Copy a case's mask, and copy or link the files of its image."""
    files = reader.files(case)
    for image in (file for file in files.channels or (files.image,) if file is not None):
        target = folder / name_of_copy(reader, image)
        private_folder(target.parent)
        # Several cases may have one image.
        if not (target.exists() or target.is_symlink()):
            if options.links:
                target.symlink_to(image.resolve())
            else:
                shutil.copyfile(image, private_file(target))
    mask = _given_file(reader, case)
    target = folder / name_of_copy(reader, mask)
    private_folder(target.parent)
    shutil.copyfile(mask, private_file(target))


def _write_for_slicer(target: Path, mask: Path, description: SegmentationDescription) -> None:
    from ...transforms.loading.volume_files import read_label_volume  # noqa: PLC0415

    file = target.with_name(f"{target.name}.seg.nrrd")
    write_slicer_segmentation(file, read_label_volume(mask).voxels, mask, description)


def _write_for_dicom(
    target: Path, case: AuditedCase, mask: Mask, description: SegmentationDescription, dicom: Path
) -> None:
    name = plain_name(Path(case.image))
    series = dicom / name
    if not series.is_dir():
        raise DataError(f"{series}: found no such folder; expected the DICOM series of {case.image}.")
    assert mask.affine is not None
    write_dicom_seg(target.with_name(f"{target.name}.dcm"), mask.classes, mask.affine, series, description.classes)


def _beside(folder: Path, reader: CaseReader, case: AuditedCase) -> Path:
    """The place of a case's mask in a folder that is laid out as the site's data are, without suffix."""
    given = Path(name_of_copy(reader, _given_file(reader, case)))
    target = folder / given.parent / plain_name(given)
    private_folder(target.parent)
    return target


def _rows(reader: CaseReader, decisions: Decisions) -> list[dict[str, str]]:
    """The findings by their cases; of a case without one the question whether it is right, where that was decided."""
    counting = decisions.counting
    rows = []
    for case in reader.audit.cases:
        asked = (question(case),) if question(case).id in counting else ()
        for finding in case.findings or asked:
            row = _case_cells(case) | _finding_cells(finding)
            if (decision := counting.get(finding.id)) is not None:
                row |= {"decision": decision.choice, "reviewer": decision.reviewer, "time": decision.time}
                row["comment"] = decision.reason
            rows.append(row)
    return rows


def _case_cells(case: AuditedCase) -> dict[str, str]:
    return {
        "image": case.image,
        "annotation": case.label,
        "patient": case.unit,
        "annotator": "; ".join(case.annotators),
    }


def _finding_cells(finding: Finding) -> dict[str, str]:
    place = finding.place
    cells = {
        "finding": finding.id,
        "kind": finding.kind,
        "classes": ", ".join(finding.classes),
        "probability": _number(finding.probability),
        "score": _number(finding.score),
        "disagreement": _number(finding.disagreement),
        "uncertainty": _number(finding.uncertainty),
        "amount": _number(finding.amount),
        "amount_unit": finding.amount_unit or "",
        "size": _number(finding.size),
        "size_unit": finding.size_unit or "",
        "suggestion": "yes" if finding.has_suggestion else "no",
        "sentence": finding_in_words(finding),
    }
    if place is not None:
        cells |= {"sample": str(place.sample), "samples": str(place.samples)}
        cells |= {"start": _numbers(place.start), "stop": _numbers(place.stop)}
    return cells


def _as_csv(rows: Sequence[dict[str, str]]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, _COLUMNS, restval="", quoting=csv.QUOTE_ALL)
    table.writeheader()
    numbers = {"amount", "probability", "score", "size", "disagreement", "uncertainty"}
    for row in rows:
        # A negative number is none that a spreadsheet computes with.
        table.writerow(
            {key: cell if key in numbers else spreadsheet_safe(printable(cell)) for key, cell in row.items()}
        )
    return text.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _numbers(values: Sequence[int]) -> str:
    return " ".join(map(str, values))


def _colour(label: int) -> tuple[int, int, int]:
    return _COLOURS[(label - 1) % len(_COLOURS)]


_README = f"""Cases of an audit, to review in other tools.

{GIVEN_FOLDER}/                  images and given masks of the cases to review, by their folders and names
{_MASKS}/              suggested masks by the same names: geometry and label values are those of the given ones
{_SLICER}/                 masks of volumes as segmentations of 3D Slicer (.seg.nrrd): suggested ones, else given ones
{_DICOM}/              the same as DICOM segmentations, where series were given (--dicom)
{LABELS_FILE}     label descriptions for ITK-SNAP
{FINDINGS_TABLE}           what looks wrong in which case
{EXPORT_FILE}  what was written, so that files that nobody has changed do not count as edited

Open an image with its mask, change what is wrong, and save the mask in its place, or by its name in another folder:

    itksnap -g {GIVEN_FOLDER}/IMAGE -s {_MASKS}/MASK -l {LABELS_FILE}
    Slicer {GIVEN_FOLDER}/IMAGE {_SLICER}/MASK.seg.nrrd

Then this command takes the changed masks of that folder over:

    fedannot audit apply FOLDER --edited DIR --out NEW

From 3D Slicer save the segmentation as .seg.nrrd; an exported labelmap renumbers the segments. Segments keep their
names. DICOM segmentations come back with --dicom SERIES.
"""
