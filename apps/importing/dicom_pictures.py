"""Two-dimensional DICOM, such as X-rays and mammograms, as pictures that the pipelines read."""

from pathlib import Path

import numpy as np
from PIL import Image

from ...custom.data.whole_files import private_file, private_folder
from ...transforms.array_types import Array
from ...transforms.errors import DataError
from ...transforms.loading.picture_display import MAX_PIXELS
from .dicom_volumes import DicomHeader
from .layouts.listing import DICOM_SUFFIX


def is_dicom_picture(file: Path) -> bool:
    """Return whether a file is DICOM, by its suffix, with one frame; one that cannot be read is, too."""
    if not file.name.lower().endswith(DICOM_SUFFIX):
        return False
    try:
        return not DicomHeader(file).has_frames
    except RuntimeError:
        return True


def stands_alone(file: Path) -> bool:
    """Return whether a DICOM file is an image of its own: it has frames, or no place among the slices of a series.

    One that cannot be read is none.
    """
    if not file.name.lower().endswith(DICOM_SUFFIX):
        return False
    try:
        header = DicomHeader(file)
    except RuntimeError:
        return False
    return header.has_frames or header.position is None


def as_picture(source: Path, target: Path) -> Path:
    """Return a picture as PNG or TIFF: itself if it is no DICOM, else converted with its slope and intercept.

    Whole numbers of up to 16 bits become PNG, others TIFF of 32 bits; nothing is cut off. Pixels in which 0 is white
    (MONOCHROME1) become brightness, palettes colours.

    Args:
        source: the picture.
        target: the file to write if need be, without suffix.

    Raises:
        DataError: if the file cannot be read, has several frames, or is too large.
    """
    if not source.name.lower().endswith(DICOM_SUFFIX):
        return source
    pixels = _read(source)
    whole = pixels.dtype.kind in "ui" or bool((np.isfinite(pixels) & (pixels == np.rint(pixels))).all())
    private_folder(target.parent)
    if whole and pixels.min() >= 0 and pixels.max() < 2**16:
        file = target.with_name(f"{target.name}.png")
        kind = np.uint8 if pixels.max() < 2**8 or pixels.ndim == 3 else np.uint16
        Image.fromarray(pixels.astype(kind)).save(private_file(file))
    else:
        file = target.with_name(f"{target.name}.tif")
        Image.fromarray(pixels.astype(np.float32)).save(private_file(file))
    return file


def _read(file: Path) -> Array:
    """Pixels ``(H, W)``, or ``(H, W, 3)`` of colours with 8 bits."""
    import SimpleITK  # noqa: PLC0415

    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    if not file.is_file():
        raise DataError(f"{file}: found no such file; expected an image.")
    try:
        header = DicomHeader(file)
        if header.has_frames:
            raise DataError(f"{file}: found {header.frames} frames; expected a picture of one.")
        if header.voxels > MAX_PIXELS:
            raise DataError(f"{file}: found {header.voxels} pixels; expected at most {MAX_PIXELS}.")
        pixels = SimpleITK.GetArrayFromImage(header.reader.Execute())
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise DataError(f"{file}: cannot be read as a DICOM image ({reason}).") from error
    components = header.reader.GetNumberOfComponents()
    shape = (*pixels.shape[:-1], 3)[-3:] if components == 3 else pixels.shape[-2:]
    if components not in (1, 3) or (components == 3 and pixels.dtype != np.uint8):
        raise DataError(
            f"{file}: found {components} values of {pixels.dtype.itemsize * 8} bits per pixel; expected one, or three "
            "of 8 bits."
        )
    result: Array = pixels.reshape(shape)
    return result
