"""Two-dimensional DICOM, such as X-rays and mammograms, as pictures that the pipelines read."""

from pathlib import Path

from ...custom.data.whole_files import private_file, private_folder
from ...transforms.loading.dicom_header import DICOM_SUFFIX
from ...transforms.loading.dicom_pictures import dicom_picture


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
    picture = dicom_picture(source)
    private_folder(target.parent)
    file = target.with_name(f"{target.name}.{'tif' if picture.mode == 'F' else 'png'}")
    picture.save(private_file(file))
    return file
