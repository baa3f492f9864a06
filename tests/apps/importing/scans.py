"""Volumes that test files share, as SimpleITK writes them, and a DICOM series."""

import locale
from contextlib import contextmanager

import numpy as np
import SimpleITK
from scipy.spatial.transform import Rotation

# Voxels (K, J, I), as SimpleITK's arrays are.
VOXELS = np.arange(6 * 4 * 3, dtype=np.int16).reshape(6, 4, 3)
SPACING = (0.7, 1.5, 2.5)
ORIGIN = (10.0, -20.0, 30.0)
OBLIQUE = Rotation.from_euler("xyz", [20, -15, 30], degrees=True).as_matrix()


def itk_volume(voxels=VOXELS, directions=OBLIQUE):
    image = SimpleITK.GetImageFromArray(voxels)
    image.SetSpacing(SPACING)
    image.SetOrigin(ORIGIN)
    image.SetDirection(directions.ravel())
    return image


def file_number(index):
    """Names are in the order of no axis."""
    return index * 5 % 7


def write_series(
    folder,
    *,
    left_out=(),
    shear=(0.0, 0.0, 0.0),
    uid="1.2.3.4",
    prefix="",
    directions=OBLIQUE,
    patient=None,
    voxels=VOXELS,
):
    """A DICOM series, a file for each slice; each lies further off by the shear, in millimetres."""
    folder.mkdir(exist_ok=True)
    image = itk_volume(voxels, directions)
    writer = SimpleITK.ImageFileWriter()
    writer.KeepOriginalImageUIDOn()
    rows, columns = directions[:, 0], directions[:, 1]
    for index in set(range(len(VOXELS))) - set(left_out):
        position = np.array(image.TransformIndexToPhysicalPoint((0, 0, index))) + index * np.array(shear)
        part = image[:, :, index]
        tags = {
            "0008|0060": "MR",
            "0008|0018": f"{uid}.{index + 1}",
            "0020|000d": "1.2.3",
            "0020|000e": uid,
            "0020|0013": str(index),
            "0020|0032": "\\".join(f"{value:.6f}" for value in position),
            "0020|0037": "\\".join(f"{value:.9f}" for value in (*rows, *columns)),
        }
        if patient is not None:
            tags["0010|0020"] = patient
        for tag, value in tags.items():
            part.SetMetaData(tag, value)
        writer.SetFileName(str(folder / f"{prefix}{file_number(index)}.dcm"))
        with _kept_locale():
            writer.Execute(part)
    return folder


@contextmanager
def _kept_locale():
    """Set the locale back: writing DICOM leaves "C", in which libraries of later tests decode files as ASCII."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        yield
    finally:
        locale.setlocale(locale.LC_ALL, before)
