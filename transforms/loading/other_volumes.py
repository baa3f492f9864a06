"""Volumes in formats that nibabel does not read, NRRD, MHA, DICOM, as NIfTI in memory: same voxels, same places."""

import math
from pathlib import Path

import numpy as np
from nibabel.nifti1 import Nifti1Image

from ..array_types import Array, Floats
from ..data_error import DataError, MissingFileError
from .dicom_header import DICOM_SUFFIX
from .dicom_volumes import check_extents, read_frames, read_series
from .image_files import check_intensities
from .slicer_segments import SEGMENTATION_SUFFIX, segments_of, united_layers
from .volume_files import Volume, is_volume, read_volume
from .volume_geometry import is_usable, millimetres, placement_of, voxel_spacing

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
    try:
        voxels, columns, is_segmentation = read_series(source) if source.is_dir() else _read_file(source)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise DataError(f"{source}: cannot be read as a volume ({reason}).") from error
    affine = np.eye(4)
    affine[:3] = _TO_RAS @ columns
    if not is_usable(affine):
        raise DataError(
            f"{source}: found voxels of {millimetres(voxel_spacing(affine))} from {affine[:3, 3]}; expected axes "
            "with a length, in different directions, and a place. Export the volume again."
        )
    return voxels, affine, is_segmentation


def _read_file(file: Path) -> tuple[Array, Floats, bool]:
    """As :func:`read_series`."""
    import SimpleITK  # noqa: PLC0415

    if file.name.lower().endswith(DICOM_SUFFIX):
        return read_frames(file)
    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(file))
    reader.ReadImageInformation()
    is_segmentation = file.name.lower().endswith(SEGMENTATION_SUFFIX)
    layers = reader.GetNumberOfComponents() if is_segmentation else 1
    check_extents(file, reader, layers * math.prod(reader.GetSize()), values=layers)
    image = reader.Execute()
    columns = np.column_stack([np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing(), image.GetOrigin()])
    voxels = SimpleITK.GetArrayFromImage(image).transpose(2, 1, 0, *(() if layers == 1 else (3,)))
    if layers > 1:
        tags = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
        try:
            segments = segments_of(tags)
        except ValueError as error:
            raise DataError(
                f"{file}: found a segment whose value or layer is no number ({error}); expected whole numbers. Save "
                "the segmentation again."
            ) from error
        voxels = united_layers(file, voxels, segments)
    return voxels, columns, is_segmentation
