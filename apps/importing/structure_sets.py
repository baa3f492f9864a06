"""DICOM structure sets (RTSTRUCT): regions of interest as closed contours in millimetres, read with pydicom."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...transforms.array_types import Floats
from ...transforms.errors import DataError
from ...transforms.loading.dicom_kind import is_structure_set
from .class_names import name_key

_CLOSED = frozenset({"CLOSED_PLANAR", "CLOSEDPLANAR_XOR"})
_DEFLATED = "1.2.840.10008.1.2.1.99"
# A deflated file holds at most this many times its own length.
_MAX_COMPRESSION = 1032
_LARGEST_FILE = 2**29
# Of one contour: its time to draw grows with points times voxels.
_MOST_POINTS = 20_000
_FEWEST_POINTS = 3
_TO_RAS = np.array([-1.0, -1.0, 1.0])
_SHOWN_NAMES = 8


@dataclass(frozen=True)
class Region:
    """A region of interest (ROI).

    Attributes:
        number: of the ROI in its file.
        name: as it is written.
        frame_of_reference: UID of the frame that its places are in; empty where the file does not say it.
        contours: closed ones, each ``(n, 3)`` in millimetres to the right, front and top.
        num_ignored: contours that enclose nothing: open ones, points, and those of fewer than three points.
    """

    number: int
    name: str
    frame_of_reference: str
    contours: tuple[Floats, ...]
    num_ignored: int


@dataclass(frozen=True)
class StructureSet:
    """What a structure set holds.

    Attributes:
        series: UIDs of the image series that it was drawn on, empty where it does not say it.
        regions: those that were asked for, with contours.
        names: of all regions, in the order of the file.
    """

    series: frozenset[str]
    regions: tuple[Region, ...]
    names: tuple[str, ...]


def read_structure_set(source: Path, chosen: Collection[str] = ()) -> StructureSet:
    """Read a structure set; contours of the regions that are asked for alone.

    Args:
        source: the file, or a folder whose only DICOM file it is.
        chosen: names of regions; capitals, Unicode form and spaces around them do not matter.

    Raises:
        DataError: if pydicom is not installed; the file is too large, lacks a sequence, or a chosen region shares its
            number with another one or has a contour without usable points.
    """
    try:
        # An extra: few sites need it.
        import pydicom  # noqa: PLC0415
    except ImportError as error:
        raise DataError(
            f"{source}: found a structure set (RTSTRUCT), which needs pydicom: pip install 'highdicom>=0.24'"
        ) from error
    file = _file_of(source)
    _check_length(file)
    try:
        return _structure_set(file, pydicom.dcmread(file), {name_key(name) for name in chosen})
    except DataError:
        raise
    except Exception as error:
        # It raises anything on files that others wrote; one of them is not to end an import.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{file}: cannot be read as a structure set ({reason}); expected RTSTRUCT.") from error


def shown_names(names: Sequence[str]) -> str:
    """Return names of regions for a message."""
    if not names:
        return "none"
    return ", ".join(map(repr, names[:_SHOWN_NAMES])) + (", …" if len(names) > _SHOWN_NAMES else "")


def _file_of(source: Path) -> Path:
    if not source.is_dir():
        return source
    return next(file for file in sorted(source.iterdir()) if file.is_file() and is_structure_set(file))


def _check_length(file: Path) -> None:
    from pydicom.filereader import read_file_meta_info  # noqa: PLC0415

    try:
        length = file.stat().st_size
        syntax = str(read_file_meta_info(file).get("TransferSyntaxUID", ""))
    except Exception as error:
        raise DataError(f"{file}: cannot be read as DICOM ({error}); expected a structure set.") from error
    if length * (_MAX_COMPRESSION if syntax == _DEFLATED else 1) > _LARGEST_FILE:
        raise DataError(
            f"{file}: found {length} bytes{', deflated' if syntax == _DEFLATED else ''}; expected a structure set of "
            f"at most {_LARGEST_FILE} bytes."
        )


def _structure_set(file: Path, dataset: Any, chosen: set[str]) -> StructureSet:
    listed = _sequence(file, dataset, "StructureSetROISequence")
    drawn: dict[int, list[Any]] = {}
    for item in _sequence(file, dataset, "ROIContourSequence"):
        drawn.setdefault(int(item.ReferencedROINumber), []).extend(item.get("ContourSequence") or ())
    numbers = [int(item.ROINumber) for item in listed]
    regions, names = [], []
    for number, item in zip(numbers, listed, strict=True):
        name = str(item.get("ROIName", "")).strip()
        names.append(name)
        if name_key(name) in chosen and numbers.count(number) > 1:
            raise DataError(
                f"{file}: found {numbers.count(number)} regions of the number {number}, one of them {name!r}; expected "
                "a number of its own for each. Export the structure set again."
            )
        if name_key(name) in chosen:
            frame = str(item.get("ReferencedFrameOfReferenceUID", ""))
            contours, num_ignored = _contours(file, name, drawn.get(number, ()))
            regions.append(Region(number, name, frame, contours, num_ignored))
    return StructureSet(_series(dataset), tuple(regions), tuple(names))


def _sequence(file: Path, dataset: Any, keyword: str) -> Sequence[Any]:
    items = dataset.get(keyword)
    if not items:
        raise DataError(f"{file}: found no {keyword}; expected a structure set with regions. Export it again.")
    result: Sequence[Any] = items
    return result


def _series(dataset: Any) -> frozenset[str]:
    """The series that a structure set names, in any of its studies and frames of reference."""
    return frozenset(
        str(series.SeriesInstanceUID)
        for frame in dataset.get("ReferencedFrameOfReferenceSequence") or ()
        for study in frame.get("RTReferencedStudySequence") or ()
        for series in study.get("RTReferencedSeriesSequence") or ()
        if series.get("SeriesInstanceUID")
    )


def _contours(file: Path, name: str, drawn: Sequence[Any]) -> tuple[tuple[Floats, ...], int]:
    """The closed contours of a region, every one once, and how many enclose nothing."""
    closed: dict[bytes, Floats] = {}
    num_ignored = 0
    for contour in drawn:
        if str(contour.get("ContourGeometricType", "")) not in _CLOSED:
            num_ignored += 1
            continue
        points = _points(file, name, contour)
        if len(points) < _FEWEST_POINTS:
            num_ignored += 1
        else:
            closed[points.tobytes()] = points
    return tuple(closed.values()), num_ignored


def _points(file: Path, name: str, contour: Any) -> Floats:
    # As bytes: pydicom makes an object of every number.
    raw = contour.get_item("ContourData").value if "ContourData" in contour else b""
    parts = raw.split(b"\\") if isinstance(raw, bytes) else list(raw or ())
    claimed = contour.get("NumberOfContourPoints")
    if len(parts) % 3 or not any(parts) or (claimed is not None and int(claimed) != len(parts) // 3):
        raise DataError(
            f"{file}: found a contour of {name!r} with {len(parts)} numbers for {claimed} points; expected three for "
            "each. Export the structure set again."
        )
    if len(parts) > 3 * _MOST_POINTS:
        raise DataError(
            f"{file}: found a contour of {name!r} with {len(parts) // 3} points; expected at most {_MOST_POINTS}."
        )
    try:
        points = np.array([float(part) for part in parts], dtype=np.float64).reshape(-1, 3)
    except ValueError as error:
        raise DataError(f"{file}: found a contour of {name!r} whose points are no numbers ({error}).") from error
    if not np.isfinite(points).all():
        raise DataError(f"{file}: found a contour of {name!r} with points that are not finite; expected millimetres.")
    result: Floats = points * _TO_RAS
    return result
