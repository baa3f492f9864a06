"""Volumes in formats that nibabel does not read, NRRD, MHA or a DICOM series, become NIfTI with SimpleITK."""

from pathlib import Path

import nibabel

from ...custom.data.whole_files import private_file, private_folder
from ...transforms.loading.dicom_header import dicom_files
from ...transforms.loading.dicom_kind import is_structure_set
from ...transforms.loading.other_volumes import as_nifti_image, read_other_volume
from ...transforms.loading.volume_files import Volume, is_volume
from .mask_grid import is_on_grid, on_grid

_PATIENT = "0010|0020"


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
    voxels, affine, is_segmentation = read_other_volume(source)
    if onto is not None and is_segmentation and is_on_grid(voxels.shape, affine, onto):
        voxels, affine = on_grid(source, voxels, affine, onto), onto.affine
    private_folder(target.parent)
    nibabel.save(as_nifti_image(voxels, affine), private_file(target))
    return target
