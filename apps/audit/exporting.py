"""An audit for the tools that people have: a table, and suggested masks for ITK-SNAP and 3D Slicer."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...custom.audit.decisions import Decisions, read_decisions
from ...custom.audit.findings import AuditedCase, Finding
from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask, plain_name
from ...custom.data.whole_files import new_folder, private_file, private_folder, write_text
from ...transforms.array_types import Labels
from ...transforms.errors import DataError
from ...transforms.printable import printable, spreadsheet_safe
from ..wording.findings import finding_in_words
from .case_files import CaseReader
from .dicom_seg import check_highdicom, write_dicom_seg
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
    """How much was written, and which annotations could not be."""

    findings: int
    suggestions: int
    failed: tuple[tuple[str, str], ...]


def export_audit(reader: CaseReader, out: Path, *, dicom: Path | None = None) -> Exported:
    """Write an audit's findings as a table and its suggestions as masks with the names of the given ones.

    Args:
        reader: of the audit.
        out: folder of the files, absent or empty.
        dicom: folder of DICOM series, each a folder with its volume's name; suggestions are written for these, too.

    Raises:
        DataError: if the folder holds files, the decisions cannot be read, or DICOM is asked for where it cannot be
            written.
    """
    if dicom is not None:
        check_highdicom()
    decisions = read_decisions(reader.folder, reader.audit.site)
    description = reader.description
    with new_folder(out) as folder:
        rows = _rows(reader, decisions)
        write_text(folder / FINDINGS_TABLE, _as_csv(rows))
        count: int = 0
        failed: list[tuple[str, str]] = []
        if isinstance(description, SegmentationDescription):
            write_text(folder / LABELS_FILE, itksnap_labels(description))
            write_text(folder / README_FILE, _README)
            count, failed = _write_suggestions(folder, reader, description, dicom)
    return Exported(len(rows), count, tuple(failed))


def itksnap_labels(description: SegmentationDescription) -> str:
    """Return ITK-SNAP's label descriptions of a site's label values."""
    lines = ["# ITK-SNAP label description file", "# index red green blue opacity visible mesh name"]
    for value, label in sorted(description.labels.items()):
        name = "Clear Label" if label == 0 else _plain(description.classes[label - 1])
        red, green, blue = (0, 0, 0) if label == 0 else _colour(label)
        shown = 0 if label == 0 else 1
        lines.append(f'{value:5d} {red:5d} {green:4d} {blue:4d} {shown:8d} {shown:2d} {shown:2d}    "{name}"')
    return "\n".join(lines) + "\n"


def write_slicer_segmentation(file: Path, values: Labels, mask: Path, description: SegmentationDescription) -> None:
    """Write a volume's label values as a segmentation of 3D Slicer, a segment for each class.

    Args:
        file: ends with ``.seg.nrrd``.
        values: ``(I, J, K)``, with the site's label values.
        mask: a NIfTI file with the geometry.
        description: the site's.
    """
    # Only volumes need it.
    import SimpleITK  # noqa: PLC0415

    image = SimpleITK.GetImageFromArray(np.ascontiguousarray(values.T).astype(np.int16))
    image.CopyInformation(SimpleITK.ReadImage(str(mask)))
    extent = " ".join(f"0 {length - 1}" for length in values.shape)
    metadata = {
        "Segmentation_MasterRepresentation": "Binary labelmap",
        "Segmentation_ContainedRepresentationNames": "Binary labelmap|",
        "Segmentation_ReferenceImageExtentOffset": "0 0 0",
    }
    foreground = [(value, label) for value, label in sorted(description.labels.items()) if label]
    for number, (value, label) in enumerate(foreground):
        metadata |= {
            f"Segment{number}_ID": f"Segment_{value}",
            f"Segment{number}_Name": _plain(description.classes[label - 1]),
            f"Segment{number}_LabelValue": str(value),
            f"Segment{number}_Layer": "0",
            f"Segment{number}_Color": " ".join(f"{part / 255:.4f}" for part in _colour(label)),
            f"Segment{number}_Extent": extent,
        }
    for key, text in metadata.items():
        image.SetMetaData(key, text)
    SimpleITK.WriteImage(image, str(private_file(file)), useCompression=True)


def _write_suggestions(
    folder: Path, reader: CaseReader, description: SegmentationDescription, dicom: Path | None
) -> tuple[int, list[tuple[str, str]]]:
    """Write the suggested annotations of all cases; those that cannot be written are returned with the reason."""
    suggested, count, failed = SuggestedFiles(reader, description), 0, []
    for case in reader.audit.cases:
        names = [finding.id for finding in case.findings if finding.has_suggestion]
        if not names:
            continue
        try:
            file, _ = suggested.write(_beside(folder / _MASKS, case), case, names)
            if file.name.endswith(".nii.gz"):
                _write_for_slicer(folder, case, file, description)
                if dicom is not None:
                    given, classes = suggested.classes(case, names)
                    _write_for_dicom(folder, case, Mask(classes, given.affine), description, dicom)
        except (DataError, OSError) as error:
            failed.append((case.label, str(error)))
            continue
        count += 1
    return count, failed


def _write_for_slicer(folder: Path, case: AuditedCase, mask: Path, description: SegmentationDescription) -> None:
    from ...transforms.loading.volume_files import read_label_volume  # noqa: PLC0415

    target = _beside(folder / _SLICER, case)
    write_slicer_segmentation(
        target.with_name(f"{target.name}.seg.nrrd"), read_label_volume(mask).voxels, mask, description
    )


def _write_for_dicom(
    folder: Path, case: AuditedCase, mask: Mask, description: SegmentationDescription, dicom: Path
) -> None:
    name = plain_name(Path(case.image))
    series = dicom / name
    if not series.is_dir():
        raise DataError(f"{series}: found no such folder; expected the DICOM series of {case.image}.")
    if mask.affine is None:
        raise DataError(f"{case.label}: is no volume, for which DICOM segmentations are.")
    target = _beside(folder / _DICOM, case)
    write_dicom_seg(target.with_name(f"{target.name}.dcm"), mask.classes, mask.affine, series, description.classes)


def _beside(folder: Path, case: AuditedCase) -> Path:
    """The place of a case's mask in a folder that is laid out as the site's data are, without suffix."""
    given = Path(case.label)
    if given.is_absolute() or ".." in given.parts:
        given = Path(given.name)
    target = folder / given.parent / plain_name(given)
    private_folder(target.parent)
    return target


def _rows(reader: CaseReader, decisions: Decisions) -> list[dict[str, str]]:
    counting = decisions.counting
    rows = []
    for case in reader.audit.cases:
        for finding in case.findings:
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
        "annotator": case.annotator or "",
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


def _plain(name: str) -> str:
    """A name that stands in a line of its own, and between quotation marks."""
    return printable(name).replace('"', "'")


def _colour(label: int) -> tuple[int, int, int]:
    return _COLOURS[(label - 1) % len(_COLOURS)]


_README = f"""Suggested annotations of an audit, for review in other tools.

{_MASKS}/              masks with the folders and names of the given ones: geometry and label values are theirs
{_SLICER}/                 the same of volumes as segmentations of 3D Slicer (.seg.nrrd)
{_DICOM}/              the same as DICOM segmentations, where series were given (--dicom)
{LABELS_FILE}     label descriptions for ITK-SNAP: Segmentation > Import Label Descriptions
{FINDINGS_TABLE}           what looks wrong in which case

Open an image with its suggested mask, change what is wrong, and save the mask by its name into a folder of its own.
Then this command takes the masks of that folder over:

    fedannot audit apply FOLDER --edited DIR --out NEW

Masks keep the format of the given ones, NIfTI or PNG. From 3D Slicer export the segmentation as a labelmap (NIfTI).
"""
