"""Volumes in formats that nibabel does not read, NRRD, MHA or a DICOM series, become NIfTI with SimpleITK."""

import math
from collections.abc import Sequence
from pathlib import Path

import nibabel
import numpy as np

from ...custom.data.whole_files import private_file, private_folder
from ...transforms.array_types import Array, Floats
from ...transforms.errors import DataError
from ...transforms.loading.dicom_kind import is_structure_set
from ...transforms.loading.volume_files import VOLUME_SUFFIXES, Volume, is_volume
from ...transforms.loading.volume_geometry import is_usable, millimetres, voxel_spacing
from .dicom_volumes import check_extents, read_frames, read_series
from .layouts.listing import DICOM_SUFFIX
from .mask_grid import is_on_grid, on_grid
from .slicer_segments import SEGMENTATION_SUFFIX, segments_of, united_layers

_CONVERTED_SUFFIXES = (".nrrd", ".nhdr", ".mha", ".mhd")
VOLUME_FILE_SUFFIXES = (*VOLUME_SUFFIXES, *_CONVERTED_SUFFIXES)

_DICOM_PREAMBLE = 128
_PATIENT = "0010|0020"
# SimpleITK's axes grow to the left and back, NIfTI's to the right and front.
_TO_RAS = np.diag([-1.0, -1.0, 1.0])


def is_dicom_series(folder: Path) -> bool:
    """Return whether a folder holds a DICOM file; a README or the like may lie beside it."""
    return folder.is_dir() and bool(dicom_files([file for file in folder.iterdir() if not file.name.startswith(".")]))


def is_dicom(source: Path) -> bool:
    """Return whether an image is a DICOM file, by its suffix, or a folder with a series."""
    return source.is_dir() or source.name.lower().endswith(DICOM_SUFFIX)


def dicom_files(files: Sequence[Path]) -> set[Path]:
    """Return the DICOM files among others, by their first bytes."""
    return {file for file in files if file.is_file() and _begins_as_dicom(file)}


def _begins_as_dicom(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(_DICOM_PREAMBLE + 4)[_DICOM_PREAMBLE:] == b"DICM"
    except OSError:
        return False


def dicom_patient(source: Path) -> str | None:
    """Return the ``PatientID`` of a DICOM file, or series in a folder, None where it has none; no pixel is read."""
    import SimpleITK  # noqa: PLC0415

    files = dicom_files([*source.iterdir()]) if source.is_dir() else {source}
    files = {file for file in files if not is_structure_set(file)}
    if not files:
        return None
    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(min(files)))
    try:
        reader.ReadImageInformation()
    except RuntimeError:
        # Who reads its pixels says what is wrong with it.
        return None
    return reader.GetMetaData(_PATIENT).strip() or None if reader.HasMetaDataKey(_PATIENT) else None


def as_nifti(source: Path, target: Path, *, onto: Volume | None = None) -> Path:
    """Return a volume as NIfTI: itself if it is one, else converted, with the same voxels at the same places.

    Args:
        source: a volume's file, or the folder of one DICOM series.
        target: the file to write if need be, ``.nii.gz``.
        onto: of a mask the image; a segmentation of DICOM or 3D Slicer on its voxels, of which it may cover a part,
            gets them all.

    Raises:
        DataError: if the volume cannot be read, is not three-dimensional, or the folder holds several series or one
            with gaps; or a segmentation has annotation outside of its image.
    """
    if is_volume(source):
        return source
    voxels, affine, is_segmentation = _read(source)
    if onto is not None and is_segmentation and is_usable(affine) and is_on_grid(voxels.shape, affine, onto):
        voxels, affine = on_grid(source, voxels, affine, onto), onto.affine
    if not is_usable(affine):
        raise DataError(
            f"{source}: found voxels of {millimetres(voxel_spacing(affine))} from {affine[:3, 3]}; expected axes "
            "with a length, in different directions, and a place. Export the volume again."
        )
    private_folder(target.parent)
    # Not by SimpleITK, which cannot write the sheared axes of a tilted gantry.
    image = nibabel.Nifti1Image(voxels, affine, dtype=voxels.dtype)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, private_file(target))
    return target


def _read(source: Path) -> tuple[Array, Floats, bool]:
    """Voxels ``(I, J, K)``, affine ``(4, 4)`` to the right, front and top, and whether it is a segmentation."""
    # SimpleITK is for formats that nibabel does not read; also below.
    import SimpleITK  # noqa: PLC0415

    if not source.exists():
        raise DataError(f"{source}: found no such file; expected a volume.")
    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    try:
        voxels, columns, is_segmentation = read_series(source) if source.is_dir() else _read_file(source)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise DataError(f"{source}: cannot be read as a volume ({reason}).") from error
    affine = np.eye(4)
    affine[:3] = _TO_RAS @ columns
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
