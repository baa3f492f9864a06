"""Annotations as DICOM segmentations of the series that the volumes were made of, and back (extra ``dicom``)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...custom.data.whole_files import private_file
from ...transforms.array_types import Array, Classes, Floats
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.dicom_header import DicomHeader
from ...transforms.loading.other_volumes import read_other_volume
from ...transforms.printable import printable
from .named_segments import IGNORED_NAME, NamedSegment, identity_of

_FEWEST_SLICES = 2
# DICOM's axes grow to the left and back, NIfTI's to the right and front.
_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
# Fraction of a voxel by which its place may differ in the two files.
_TOLERANCE = 0.1
_LONGEST_NAME = 64
_SCHEME = "99FEDANNOT"


@dataclass(frozen=True)
class NumberedSegments:
    """A DICOM segmentation.

    Attributes:
        numbers: of its segments ``(I, J, K)``, 0 where none is; it may cover a part of its series.
        affine: ``(4, 4)`` to millimetres, axes to the right, front and top.
        segments: what it says of each number: label, and the code of an export.
    """

    numbers: Array
    affine: Floats
    segments: dict[int, NamedSegment]


def read_dicom_seg(file: Path, series: Path) -> NumberedSegments:
    """Read a DICOM segmentation of a series; each frame lies where it says.

    Args:
        file: the segmentation.
        series: the folder of the series.

    Raises:
        DataError: if highdicom is not installed, a file cannot be read, segments overlap, or the segmentation refers to
            another series or frame of reference.
    """
    _highdicom()
    header = _segmentation_header(file)
    _check_refers_to(file, header, series)
    numbers, affine, is_segmentation = read_other_volume(file)
    if not is_segmentation:
        raise DataError(f"{file}: found DICOM that is no segmentation; expected one.")
    segments = {}
    for item in header.SegmentSequence:
        code: Any = next(iter(item.get("SegmentedPropertyTypeCodeSequence", [])), {})
        if "SegmentNumber" not in item:
            raise DataError(f"{file}: found a segment without a number; expected one for each.")
        is_own = code.get("CodingSchemeDesignator") == _SCHEME
        identity = str(code.get("CodeValue", "")) if is_own else ""
        segments[int(item.SegmentNumber)] = NamedSegment(str(item.get("SegmentLabel", "")), identity)
    return NumberedSegments(numbers, affine, segments)


def _segmentation_header(file: Path) -> Any:
    import pydicom  # noqa: PLC0415
    from pydicom.errors import InvalidDicomError  # noqa: PLC0415

    try:
        header = pydicom.dcmread(file, stop_before_pixels=True)
    except (InvalidDicomError, OSError) as error:
        raise DataError(f"{file}: cannot be read as DICOM ({error}).") from error
    if "SegmentSequence" not in header or "FrameOfReferenceUID" not in header:
        raise DataError(f"{file}: found DICOM without segments or frame of reference; expected a segmentation.")
    return header


def _check_refers_to(file: Path, header: Any, series: Path) -> None:
    if not series.is_dir():
        raise DataError(f"{series}: found no such folder; expected the DICOM series that {file} refers to.")
    try:
        identity = DicomHeader(next(_files(series))).identity
    except (StopIteration, RuntimeError) as error:
        raise DataError(f"{series}: found no DICOM series; expected the one that {file} refers to.") from error
    named = {str(item.get("SeriesInstanceUID", "")) for item in header.get("ReferencedSeriesSequence", [])}
    if identity.series not in named:
        shown = ", ".join(sorted(named)) or "none"
        raise DataError(f"{file}: refers to the series {shown}; expected that of {series}, {identity.series}.")
    if str(header.FrameOfReferenceUID) != identity.frame_of_reference:
        raise DataError(
            f"{file}: is in the frame of reference {header.FrameOfReferenceUID}; expected that of {series}, "
            f"{identity.frame_of_reference}."
        )


def write_dicom_seg(
    file: Path,
    classes: Classes,
    affine: Floats,
    series: Path,
    names: Sequence[str],
) -> None:
    """Write a volume's classes as a DICOM segmentation, a segment for each class that is there.

    Args:
        file: ends with ``.dcm``.
        classes: ``(I, J, K)``, 0 for background.
        affine: of the volume, ``(4, 4)`` to millimetres, axes to the right, front and top.
        series: the folder of the DICOM series that the volume shows.
        names: of the classes, from 1.

    Raises:
        DataError: if highdicom is not installed, the series cannot be read, it has another grid than the volume, or
            nothing is annotated.
    """
    highdicom = _highdicom()
    slices = _slices(series)
    frames = np.stack([_frame(item, classes, affine, series) for item in slices])
    present = [int(label) for label in np.unique(frames) if label]
    if not present:
        raise DataError(f"{series}: nothing is annotated; DICOM knows no empty segmentation.")
    numbered = np.zeros_like(frames)
    for number, label in enumerate(present, start=1):
        numbered[frames == label] = number
    segmentation = highdicom.seg.Segmentation(
        source_images=slices,
        pixel_array=numbered,
        segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=[
            _description(highdicom, number, label, names) for number, label in enumerate(present, start=1)
        ],
        series_instance_uid=highdicom.UID(),
        series_number=1000,
        sop_instance_uid=highdicom.UID(),
        instance_number=1,
        manufacturer="fedannot",
        manufacturer_model_name="fedannot audit",
        software_versions="1",
        device_serial_number="1",
        series_description="Annotations of an audit",
    )
    segmentation.save_as(private_file(file))


def check_highdicom() -> None:
    """Check that what writes DICOM is installed.

    Raises:
        DataError: if it is not.
    """
    _highdicom()


def _highdicom() -> Any:
    try:
        # An extra: few sites need it.
        import highdicom  # noqa: PLC0415
    except ImportError as error:
        raise DataError("DICOM segmentations need highdicom: pip install 'highdicom>=0.24'") from error
    return highdicom


def _slices(series: Path) -> list[Any]:
    """The slices of the only series of a folder, in the order of their places."""
    import pydicom  # noqa: PLC0415
    from pydicom.errors import InvalidDicomError  # noqa: PLC0415

    slices = []
    for file in _files(series):
        try:
            slices.append(pydicom.dcmread(file))
        except (InvalidDicomError, OSError) as error:
            raise DataError(f"{file}: cannot be read as DICOM ({error}).") from error
    if len({item.get("SeriesInstanceUID") for item in slices}) != 1 or len(slices) < _FEWEST_SLICES:
        raise DataError(f"{series}: found {len(slices)} files; expected the slices of one DICOM series.")
    if missing := [key for key in ("ImageOrientationPatient", "ImagePositionPatient") if key not in slices[0]]:
        raise DataError(f"{series}: found no {missing[0]}; expected slices with their places.")
    row, column = np.reshape(np.array(slices[0].ImageOrientationPatient, dtype=np.float64), (2, 3))
    normal = np.cross(row, column)
    return sorted(slices, key=lambda one: float(normal @ np.array(one.ImagePositionPatient, dtype=np.float64)))


def _files(series: Path) -> Iterator[Path]:
    return iter(sorted(path for path in series.iterdir() if path.is_file() and not path.name.startswith(".")))


def _frame(one: Any, classes: Classes, affine: Floats, series: Path) -> Classes:
    """The classes at the pixels of a slice, ``(rows, columns)``."""
    row, column = np.reshape(np.array(one.ImageOrientationPatient, dtype=np.float64), (2, 3))
    between_rows, between_columns = (float(step) for step in one.PixelSpacing)
    # From row and column to millimetres.
    place = np.eye(4)
    place[:3, 0] = column * between_rows
    place[:3, 1] = row * between_columns
    place[:3, 3] = np.array(one.ImagePositionPatient, dtype=np.float64)
    to_voxels = np.linalg.inv(affine) @ _TO_RAS @ place
    grid = np.stack(np.meshgrid(np.arange(one.Rows), np.arange(one.Columns), indexing="ij"), axis=-1)
    voxels = grid @ to_voxels[:3, :2].T + to_voxels[:3, 3]
    indices = np.rint(voxels).astype(np.intp)
    is_inside = ((indices >= 0) & (indices < classes.shape)).all()
    if not is_inside or np.abs(voxels - indices).max() > _TOLERANCE:
        raise DataError(
            f"{series}: found slices on another grid than the volume's; expected the series that it was made of."
        )
    return np.asarray(classes[tuple(np.moveaxis(indices, -1, 0))])


def _description(highdicom: Any, number: int, label: int, names: Sequence[str]) -> Any:
    """What a segment is called; classes have no codes, so that the name is one of this project's own."""
    from pydicom.sr.codedict import codes  # noqa: PLC0415

    text = printable(IGNORED_NAME if label == IGNORED_LABEL else names[label - 1])[:_LONGEST_NAME]
    return highdicom.seg.SegmentDescription(
        segment_number=number,
        segment_label=text,
        segmented_property_category=codes.SCT.AnatomicalStructure,
        segmented_property_type=highdicom.sr.CodedConcept(identity_of(label), _SCHEME, text),
        algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.SEMIAUTOMATIC,
        algorithm_identification=highdicom.AlgorithmIdentificationSequence(
            name="fedannot audit", version="1", family=codes.DCM.ArtificialIntelligence
        ),
    )
