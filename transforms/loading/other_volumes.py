"""Volumes in formats that nibabel does not read, NRRD, MHA, DICOM, as NIfTI in memory: same voxels, same places."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from nibabel.nifti1 import Nifti1Image

from ..array_types import Array, Floats
from ..data_error import DataError, MissingFileError
from .detached_voxels import check_voxels_beside
from .dicom_header import DICOM_SUFFIX, is_dicom
from .dicom_volumes import check_extents, dicom_segment_names, read_frames, read_series
from .image_files import check_intensities
from .slicer_segments import SEGMENTATION_SUFFIX, Segment, Segmentation, have_own_values, segments_of, united_layers
from .volume_files import Volume, is_volume, read_volume
from .volume_geometry import LARGEST_VOXEL, is_usable, millimetres, placement_of, voxel_spacing

# SimpleITK's axes grow to the left and back, NIfTI's to the right and front.
_TO_RAS = np.diag([-1.0, -1.0, 1.0])


def read_any_volume(source: Path) -> Volume:
    """Read the intensities of a volume in any format as float32, as an import that makes NIfTI of it would.

    Args:
        source: a volume's file, or the folder of one DICOM series.

    Raises:
        DataError: as :func:`.volume_files.read_volume` and :func:`read_other_volume`.
    """
    if is_volume(source):
        return read_volume(source)
    voxels, affine, _ = read_other_volume(source)
    placement = placement_of(source, as_nifti_image(voxels, affine).header)
    with np.errstate(over="ignore"):
        voxels = voxels.astype(np.float32)
    check_intensities(voxels, source)
    return Volume(voxels, placement.affine, placement)


def as_nifti_image(voxels: Array, affine: Floats) -> Nifti1Image:
    """Return voxels ``(I, J, K)`` of another format as NIfTI.

    Not by SimpleITK, which cannot write the sheared axes of a tilted gantry.

    Args:
        voxels: intensities or label values, in the type to store.
        affine: ``(4, 4)`` to millimetres, axes to the right, front and top.
    """
    image = Nifti1Image(voxels, affine, dtype=voxels.dtype)
    image.header.set_xyzt_units("mm")
    return image


def read_other_volume(source: Path) -> tuple[Array, Floats, bool]:
    """Read a volume that is no NIfTI: NRRD, MHA, or DICOM, as a file of many frames or a folder with one series.

    Returns:
        Voxels ``(I, J, K)``; affine ``(4, 4)`` to millimetres, axes to the right, front and top; and whether it is a
        segmentation, which may cover a part of its image.

    Raises:
        DataError: if the volume cannot be read, is not three-dimensional, its axes have no length or direction, or the
            folder holds several series or one with gaps.
    """
    # SimpleITK is for formats that nibabel does not read; also below.
    import SimpleITK  # noqa: PLC0415

    if not source.exists():
        raise MissingFileError(f"{source}: found no such file; expected a volume.")
    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    with _errors_name(source):
        voxels, columns, is_segmentation = read_series(source) if source.is_dir() else _read_file(source)
    return voxels, _affine(source, columns), is_segmentation


def read_segmentation(file: Path) -> Segmentation:
    """Read a segmentation of 3D Slicer as it is stored, with its layers and the names of its segments.

    Where its voxels lie is what the header's origin and directions say. ``Segmentation_ReferenceImageExtentOffset``
    says no more than these.

    Raises:
        DataError: as :func:`read_other_volume`.
    """
    import SimpleITK  # noqa: PLC0415

    if not file.is_file():
        raise MissingFileError(f"{file}: found no such file; expected a segmentation of 3D Slicer.")
    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    with _errors_name(file):
        layers, columns, tags = _read_layers(file)
    return Segmentation(layers, _affine(file, columns), tuple(_segments(file, tags)))


def segment_names(source: Path) -> dict[int, str]:
    """Return what a segmentation of 3D Slicer or DICOM calls its segments, by their values as a mask; no voxel is read.

    Empty of any other file.

    Raises:
        DataError: if the header cannot be read.
    """
    if source.is_file() and source.name.lower().endswith(SEGMENTATION_SUFFIX):
        with _errors_name(source):
            reader = _information(source)
        segments = _segments(source, {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()})
        uses_values = reader.GetNumberOfComponents() == 1 or have_own_values(segments)
        return {segment.value if uses_values else segment.number: segment.name for segment in segments}
    return dicom_segment_names(source) if is_dicom(source) else {}


def affine_as_itk_reads(file: Path) -> Floats:
    """Return where the voxels of a volume lie for SimpleITK, and so for 3D Slicer and ITK-SNAP.

    Of a header that contradicts itself they may take another part than this project.

    Returns:
        Affine ``(4, 4)`` to millimetres, axes to the right, front and top.

    Raises:
        DataError: if SimpleITK cannot read the header.
    """
    with _errors_name(file):
        reader = _information(file)
    if reader.GetDimension() != 3:
        raise DataError(f"{file}: found {reader.GetDimension()} axes; expected three.")
    return _affine(file, _columns(reader))


@contextmanager
def _errors_name(source: Path) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise DataError(f"{source}: cannot be read as a volume ({reason}).") from error


def _affine(source: Path, columns: Floats) -> Floats:
    """The affine ``(4, 4)``, axes to the right, front and top, of columns and origin of SimpleITK."""
    affine = np.eye(4)
    affine[:3] = _TO_RAS @ columns
    spacing = voxel_spacing(affine)
    if is_usable(affine) and max(spacing) > LARGEST_VOXEL:
        raise DataError(
            f"{source}: found voxels of {millimetres(spacing)}; expected at most {LARGEST_VOXEL:g} mm. Export the "
            "volume in millimetres."
        )
    if not is_usable(affine):
        raise DataError(
            f"{source}: found voxels of {millimetres(spacing)} from {affine[:3, 3]}; expected axes "
            "with a length, in different directions, and a place. Export the volume again."
        )
    return affine


def _read_file(file: Path) -> tuple[Array, Floats, bool]:
    """As :func:`read_series`."""
    import SimpleITK  # noqa: PLC0415

    if file.name.lower().endswith(DICOM_SUFFIX):
        return read_frames(file)
    if file.name.lower().endswith(SEGMENTATION_SUFFIX):
        layers, columns, tags = _read_layers(file)
        if layers.shape[3] == 1:
            return layers[..., 0], columns, True
        return united_layers(file, layers, _segments(file, tags)), columns, True
    check_voxels_beside(file)
    reader = _information(file)
    check_extents(file, reader, math.prod(reader.GetSize()))
    image = reader.Execute()
    return SimpleITK.GetArrayFromImage(image).transpose(2, 1, 0), _columns(image), False


def _read_layers(file: Path) -> tuple[Array, Floats, dict[str, str]]:
    """The layers ``(I, J, K, L)`` of a segmentation of 3D Slicer, columns and origin, and its header's tags."""
    import SimpleITK  # noqa: PLC0415

    check_voxels_beside(file)
    reader = _information(file)
    count = reader.GetNumberOfComponents()
    check_extents(file, reader, count * math.prod(reader.GetSize()), values=count)
    image = reader.Execute()
    layers = SimpleITK.GetArrayFromImage(image)
    layers = layers[..., None] if count == 1 else layers
    tags = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
    return layers.transpose(2, 1, 0, 3), _columns(image), tags


def _segments(file: Path, tags: Mapping[str, str]) -> list[Segment]:
    try:
        return segments_of(tags)
    except ValueError as error:
        raise DataError(
            f"{file}: found a segment whose value or layer is no number ({error}); expected whole numbers. Save "
            "the segmentation again."
        ) from error


def _information(file: Path) -> Any:
    """A reader of SimpleITK that has read a file's header."""
    import SimpleITK  # noqa: PLC0415

    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(file))
    reader.ReadImageInformation()
    return reader


def _columns(image: Any) -> Floats:
    """Columns and origin ``(3, 4)`` of an image of SimpleITK, axes to the left, back and top."""
    columns = np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing()
    return np.column_stack([columns, image.GetOrigin()])
