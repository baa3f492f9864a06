"""Two-dimensional DICOM, such as X-rays and mammograms, as pictures in memory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from ..array_types import Array, SingleFloats
from ..data_error import DataError, MissingFileError
from .dicom_header import DICOM_SUFFIX, DicomHeader
from .image_channels import ImageChannels, files_of
from .image_files import read_image
from .picture_channels import read_picture_channels
from .picture_display import MAX_PIXELS, PictureError, intensities


def read_any_picture(file: Path, channels: int) -> SingleFloats:
    """Read a picture's intensities, of DICOM as an import that makes PNG or TIFF of it would.

    Args:
        file: a picture, or DICOM of one frame.
        channels: 1 for grey, 3 for RGB.

    Returns:
        Intensities, float32 ``(C, H, W)``.

    Raises:
        DataError: as :func:`.image_files.read_image` and :func:`dicom_picture`.
    """
    if not file.name.lower().endswith(DICOM_SUFFIX):
        return read_image(file, channels)
    try:
        result: SingleFloats = intensities(dicom_picture(file), channels)
    except PictureError as error:
        raise DataError(f"{file}: {error}") from error
    return result


def read_grey_channels(image: str | Path | Sequence[str | None], channels: ImageChannels) -> SingleFloats:
    """Read a picture with a grey file for each channel, as training does; constant channels become zeros.

    Args:
        image: see :func:`.image_channels.files_of`.
        channels: that the image must have.

    Returns:
        Intensities, float32 ``(C, H, W)``.

    Raises:
        DataError: as :func:`.picture_channels.read_picture_channels`.
    """
    parts = read_picture_channels(files_of(image, channels), channels, read_any_picture)
    return np.concatenate([np.zeros_like(part) if part.min() == part.max() else part for part in parts])


def dicom_picture(file: Path) -> Image.Image:
    """Read DICOM of one frame with its slope and intercept; nothing is cut off.

    Whole numbers of up to 16 bits keep them, others become floats of 32 bits. Pixels in which 0 is white (MONOCHROME1)
    become brightness, palettes colours.

    Raises:
        DataError: if the file cannot be read, has several frames, or is too large.
    """
    pixels = _read(file)
    whole = pixels.dtype.kind in "ui" or bool((np.isfinite(pixels) & (pixels == np.rint(pixels))).all())
    if not (whole and pixels.min() >= 0 and pixels.max() < 2**16):
        return Image.fromarray(pixels.astype(np.float32))
    return Image.fromarray(pixels.astype(np.uint8 if pixels.max() < 2**8 or pixels.ndim == 3 else np.uint16))


def _read(file: Path) -> Array:
    """Pixels ``(H, W)``, or ``(H, W, 3)`` of colours with 8 bits."""
    import SimpleITK  # noqa: PLC0415

    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    if not file.is_file():
        raise MissingFileError(f"{file}: found no such file; expected an image.")
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
