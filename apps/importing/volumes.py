"""Volumes in formats that nibabel does not read, NRRD, MHA or a DICOM series, become NIfTI with SimpleITK."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from ...custom.data.whole_files import private_file, private_folder
from ...transforms.array_types import Array, Floats
from ...transforms.errors import DataError
from ...transforms.loading.volume_files import MAX_VOXELS, VOLUME_SUFFIXES, is_volume

_CONVERTED_SUFFIXES = (".nrrd", ".nhdr", ".mha", ".mhd")
VOLUME_FILE_SUFFIXES = (*VOLUME_SUFFIXES, *_CONVERTED_SUFFIXES)

_DICOM_PREAMBLE = 128
_POSITION = "0020|0032"
_PATIENT = "0010|0020"
# Fraction of the step between slices by which one of them may differ.
_LARGEST_UNEVENNESS = 0.1
# SimpleITK's axes grow to the left and back, NIfTI's to the right and front.
_TO_RAS = np.diag([-1.0, -1.0, 1.0])


def is_dicom_series(folder: Path) -> bool:
    """Return whether a folder holds a DICOM file; a README or the like may lie beside it."""
    return folder.is_dir() and bool(dicom_files([file for file in folder.iterdir() if not file.name.startswith(".")]))


def dicom_files(files: Sequence[Path]) -> set[Path]:
    """Return the DICOM files among others, by their first bytes."""
    return {file for file in files if file.is_file() and _begins_as_dicom(file)}


def _begins_as_dicom(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(_DICOM_PREAMBLE + 4)[_DICOM_PREAMBLE:] == b"DICM"
    except OSError:
        return False


def dicom_patient(folder: Path) -> str | None:
    """Return the ``PatientID`` of a DICOM series, None where its first file has none; no pixel is read."""
    import SimpleITK  # noqa: PLC0415

    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(min(dicom_files([*folder.iterdir()]))))
    try:
        reader.ReadImageInformation()
    except RuntimeError:
        # Who reads its pixels says what is wrong with it.
        return None
    return reader.GetMetaData(_PATIENT).strip() or None if reader.HasMetaDataKey(_PATIENT) else None


def as_nifti(source: Path, target: Path) -> Path:
    """Return a volume as NIfTI: itself if it is one, else converted, with the same voxels at the same places.

    Args:
        source: a volume's file, or the folder of one DICOM series.
        target: the file to write if need be, ``.nii.gz``.

    Raises:
        DataError: if the volume cannot be read, is not three-dimensional, or the folder holds several series or one
            with gaps.
    """
    if is_volume(source):
        return source
    voxels, affine = _read(source)
    private_folder(target.parent)
    # Not by SimpleITK, which cannot write the sheared axes of a tilted gantry.
    image = nibabel.Nifti1Image(voxels, affine, dtype=voxels.dtype)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, private_file(target))
    return target


def _read(source: Path) -> tuple[Array, Floats]:
    """Voxels ``(I, J, K)``, and the affine ``(4, 4)`` to millimetres, axes to the right, front and top."""
    # SimpleITK is for formats that nibabel does not read; also below.
    import SimpleITK  # noqa: PLC0415

    if not source.exists():
        raise DataError(f"{source}: found no such file; expected a volume.")
    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    try:
        image, step = _read_series(source) if source.is_dir() else (_read_file(source), None)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise DataError(f"{source}: cannot be read as a volume ({reason}).") from error
    columns = np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing()
    if step is not None:
        columns[:, 2] = step
    affine = np.eye(4)
    affine[:3] = _TO_RAS @ np.column_stack([columns, image.GetOrigin()])
    return SimpleITK.GetArrayFromImage(image).transpose(2, 1, 0), affine


def _read_file(file: Path) -> Any:
    import SimpleITK  # noqa: PLC0415

    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(file))
    reader.ReadImageInformation()
    _check_extents(file, reader, math.prod(reader.GetSize()))
    return reader.Execute()


def _read_series(folder: Path) -> tuple[Any, Floats | None]:
    """The volume of a DICOM series, and the way from slice to slice where they say their positions."""
    import SimpleITK  # noqa: PLC0415

    series = SimpleITK.ImageSeriesReader.GetGDCMSeriesIDs(str(folder))
    if len(series) != 1:
        raise DataError(f"{folder}: found {len(series)} DICOM series; expected one in each folder.")
    files = SimpleITK.ImageSeriesReader.GetGDCMSeriesFileNames(str(folder), series[0])
    first = SimpleITK.ImageFileReader()
    first.SetFileName(files[0])
    first.ReadImageInformation()
    _check_extents(folder, first, math.prod(first.GetSize()) * len(files))
    reader = SimpleITK.ImageSeriesReader()
    reader.SetFileNames(files)
    reader.MetaDataDictionaryArrayUpdateOn()
    image = reader.Execute()
    if len(files) == 1 or not all(reader.HasMetaDataKey(index, _POSITION) for index in range(len(files))):
        return image, None
    positions = [reader.GetMetaData(index, _POSITION).split("\\") for index in range(len(files))]
    return image, _slice_step(folder, np.array(positions, dtype=np.float64))


def _slice_step(folder: Path, positions: Floats) -> Floats:
    """The way ``(3,)`` from slice to slice, of the positions ``(K, 3)`` of all slices.

    SimpleITK would spread slices evenly over a gap and straighten a tilted stack, so that voxels lie elsewhere.
    """
    steps = np.diff(positions, axis=0)
    step: Floats = steps.mean(axis=0)
    middle = np.median(steps, axis=0)
    length = float(np.linalg.norm(middle))
    worst = int(np.linalg.norm(steps - middle, axis=1).argmax())
    if np.linalg.norm(steps[worst] - middle) > _LARGEST_UNEVENNESS * length:
        raise DataError(
            f"{folder}: found {np.linalg.norm(steps[worst]):.3g} mm between the slices {worst + 1} and {worst + 2}, "
            f"elsewhere {length:.3g} mm; expected even steps. Add the missing slices, or leave the series out."
        )
    return step


def _check_extents(source: Path, reader: Any, voxels: int) -> None:
    """Check what a header says before any voxel is read: it may be wrong by orders of magnitude."""
    axes, values = reader.GetDimension(), reader.GetNumberOfComponents()
    if (axes, values) != (3, 1):
        raise DataError(
            f"{source}: found {axes} axes with {values} values per voxel; expected three axes and one value."
        )
    if voxels > MAX_VOXELS:
        raise DataError(f"{source}: found {voxels} voxels; expected at most {MAX_VOXELS}.")
