"""Suggested annotations as DICOM segmentations of the series that the volumes were made of (extra ``dicom``)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...custom.data.whole_files import private_file
from ...transforms.array_types import Classes, Floats
from ...transforms.errors import DataError
from ...transforms.printable import printable

_FEWEST_SLICES = 2
# DICOM's axes grow to the left and back, NIfTI's to the right and front.
_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
# Fraction of a voxel by which its place may differ in the two files.
_TOLERANCE = 0.1
_LONGEST_NAME = 64
_SCHEME = "99FEDANNOT"


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
        raise DataError(f"{series}: nothing is annotated in the suggestion; DICOM knows no empty segmentation.")
    numbered = np.zeros_like(frames)
    for number, label in enumerate(present, start=1):
        numbered[frames == label] = number
    segmentation = highdicom.seg.Segmentation(
        source_images=slices,
        pixel_array=numbered,
        segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=[
            _description(highdicom, number, names[label - 1]) for number, label in enumerate(present, start=1)
        ],
        series_instance_uid=highdicom.UID(),
        series_number=1000,
        sop_instance_uid=highdicom.UID(),
        instance_number=1,
        manufacturer="fedannot",
        manufacturer_model_name="fedannot audit",
        software_versions="1",
        device_serial_number="1",
        series_description="Suggested annotations of an audit",
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
    for file in sorted(path for path in series.iterdir() if path.is_file() and not path.name.startswith(".")):
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


def _description(highdicom: Any, number: int, name: str) -> Any:
    """What a segment is called; classes have no codes, so that the name is one of this project's own."""
    from pydicom.sr.codedict import codes  # noqa: PLC0415

    text = printable(name)[:_LONGEST_NAME]
    return highdicom.seg.SegmentDescription(
        segment_number=number,
        segment_label=text,
        segmented_property_category=codes.SCT.AnatomicalStructure,
        segmented_property_type=highdicom.sr.CodedConcept(f"class-{number}", _SCHEME, text),
        algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.SEMIAUTOMATIC,
        algorithm_identification=highdicom.AlgorithmIdentificationSequence(
            name="fedannot audit", version="1", family=codes.DCM.ArtificialIntelligence
        ),
    )
