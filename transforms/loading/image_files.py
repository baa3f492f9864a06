"""Reading PNG, JPEG and other pictures with Pillow: intensities of an image, values of a mask; rows stay rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from PIL import Image

from ..array_types import Array, Classes, Labels, SingleFloats
from ..data_error import DataError, MissingFileError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
# Pillow's names of pictures with more than eight bits, which it would cut off at 255.
HIGH_DEPTH_MODES = ("I", "F", "I;16", "I;16L", "I;16B")

_SHOWN_VALUES = 8
# Beyond it the squares that a z-score adds up could leave the range of float32; no scanner gives it.
_MAX_INTENSITY = 1e12
# 0.75 GiB as float32 with three channels, and several images are decoded at a time. Pillow warns of larger ones.
MAX_PIXELS = 2**26
# Label values that lie closer than this are counted in a table rather than sorted.
_TABLE_LENGTH = 2**16
# No compression gives more, not even of a blank fax; Pillow makes black pixels of what a damaged file lacks.
_MAX_PIXELS_PER_BYTE = 2**16
# What Pillow raises on damaged files.
_UNREADABLE = (OSError, SyntaxError, ValueError, TypeError, OverflowError, Image.DecompressionBombError)
# EPS and others would start a program or read further files.
_FORMATS = ("PNG", "JPEG", "BMP", "TIFF")


class ColouredMaskError(DataError):
    """A mask has colours where one grey value per pixel is expected."""


def read_image(file: Path, channels: int) -> SingleFloats:
    """Read an image's intensities, converting between grey and RGB where needed.

    Args:
        file: the image.
        channels: 1 for grey, 3 for RGB; transparency is left out.

    Returns:
        Intensities as they are in the file, float32 ``(C, H, W)``.

    Raises:
        DataError: if the file is missing, cannot be read as an image, or has intensities that are not finite or beyond
            what can be z-scored.

    Example:
        >>> Image.fromarray(np.full((2, 3), 7, np.uint8)).save("grey.png")
        >>> read_image(Path("grey.png"), channels=3).shape
        (3, 2, 3)
    """

    def convert(picture: Image.Image) -> Array:
        # Pillow cuts 16-bit and floating point intensities off at 255 when it converts them.
        if picture.mode in HIGH_DEPTH_MODES:
            return np.repeat(np.asarray(picture)[..., None], channels, axis=-1)
        return np.asarray(picture.convert("L" if channels == 1 else "RGB")).reshape(*picture.size[::-1], channels)

    # Bytes are moved before they become four times as many.
    values = np.ascontiguousarray(np.moveaxis(_open(file, convert), -1, 0))
    image = values.astype(np.float32, copy=False)
    if values.dtype != np.uint8:
        check_intensities(image, file)
    return image


def read_mask(file: Path) -> Labels:
    """Read the values of a mask ``(H, W)`` as they are in the file; of a palette picture the indices.

    Raises:
        DataError: if the file is missing, cannot be read as an image, is coloured or holds no whole numbers.

    Example:
        >>> Image.fromarray(np.eye(3, dtype=np.uint8) * 255).save("mask.png")
        >>> read_mask(Path("mask.png")).tolist()
        [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    """
    values = _open(file, np.asarray)
    if values.ndim == 3:
        # An alpha channel says nothing about the class.
        colours = values[..., : 3 if values.shape[-1] >= 3 else 1]
        if (colours != colours[..., :1]).any():
            raise ColouredMaskError(f"{file}: found a mask in colours; expected one grey value per pixel, its label.")
        values = colours[..., 0]
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.rint(values)).all()):
        raise DataError(f"{file}: found a mask with fractions; expected whole numbers, the labels.")
    return values.astype(np.int64)


def read_colours(file: Path) -> Labels:
    """Read the colours of a mask ``(H, W)``: red · 65536 + green · 256 + blue; transparency is left out.

    Raises:
        DataError: if the file is missing or cannot be read as an image.
    """
    rgb = _open(file, lambda picture: np.asarray(picture.convert("RGB"), dtype=np.int64))
    colours: Labels = rgb @ np.array([2**16, 2**8, 1], dtype=np.int64)
    return colours


def map_mask(values: Labels, labels: Mapping[int, int], file: Path) -> Classes:
    """Turn the values of a mask into classes, same shape.

    Args:
        values: the mask as it is in the file.
        labels: value in the file → class, 0 for background.
        file: the file to name in an error.

    Raises:
        DataError: if the mask has a value that is not mapped; the text says what was found and what to write.
    """
    result = distinct_values(values)
    unknown = [int(value) for value in result if int(value) not in labels]
    if unknown:
        _refuse_unmapped(file, show_values(result), unknown, labels)
    if not _fits_table(result):
        classes = np.zeros(values.shape, dtype=np.uint8)
        for value in result:
            classes[values == value] = labels[int(value)]
        return classes
    table = np.zeros(result[-1] - result[0] + 1, dtype=np.uint8)
    table[result - result[0]] = [labels[int(value)] for value in result]
    mapped: Classes = table[values - result[0] if result[0] else values]
    return mapped


def distinct_values(values: Labels) -> Labels:
    """Return the values that an array of any shape has, each once, sorted; without sorting the array where it can."""
    if not values.size:
        return np.empty(0, dtype=np.int64)
    ends = np.array([values.min(), values.max()], dtype=np.int64)
    if not _fits_table(ends):
        return np.unique(values)
    # In the order of the memory, or a volume's axes would be turned around.
    counts = np.bincount((values - ends[0] if ends[0] else values).ravel(order="K"))
    result: Labels = np.flatnonzero(counts) + ends[0]
    return result


def value_counts(values: Labels) -> dict[int, int]:
    """Return how often an array of any shape has each of its values, sorted; without sorting the array where it can."""
    if not values.size:
        return {}
    ends = np.array([values.min(), values.max()], dtype=np.int64)
    if not _fits_table(ends):
        result, counts = np.unique(values, return_counts=True)
        return dict(zip(result.tolist(), counts.tolist(), strict=True))
    table = np.bincount((values - ends[0] if ends[0] else values).ravel(order="K"))
    return {int(place + ends[0]): int(table[place]) for place in np.flatnonzero(table)}


def _fits_table(ends: Labels) -> bool:
    return len(ends) > 0 and int(ends[-1]) - int(ends[0]) < _TABLE_LENGTH


def check_same_size(file: Path, found: Sequence[int], expected: Sequence[int]) -> None:
    """Check that a mask has the size of its image.

    Raises:
        DataError: with both sizes if it has not.
    """
    if tuple(found) != tuple(expected):
        raise DataError(
            f"{file}: found a mask of {found[0]} × {found[1]} pixels (rows × columns), expected the size of its image, "
            f"{expected[0]} × {expected[1]}."
        )


def check_intensities(values: SingleFloats, file: Path) -> None:
    """Check that intensities can be computed with.

    Raises:
        DataError: with their number if some are not finite or very large.
    """
    # Comparing the ends needs no copy; they are NaN where any value is.
    if not (values.min() >= -_MAX_INTENSITY and values.max() <= _MAX_INTENSITY):
        unusable = int(np.count_nonzero(~(np.abs(values) <= _MAX_INTENSITY)))
        raise DataError(
            f"{file}: found {unusable} intensities that are not finite or beyond ±{_MAX_INTENSITY:.0e}; expected "
            "smaller numbers. Export the file again."
        )


def file_exists(file: Path) -> bool:
    """Return whether there is a regular file; not for a folder, a pipe or a name that the disk cannot have."""
    try:
        return file.is_file()
    except OSError:
        return False


def show_values(values: Any) -> str:
    """Write label values as a list, shortened where there are many."""
    numbers = [int(value) for value in values]
    text = ", ".join(str(number) for number in numbers[:_SHOWN_VALUES])
    return text if len(numbers) <= _SHOWN_VALUES else f"{text}, … ({len(numbers)} values)"


def _check_header(file: Path, picture: Image.Image) -> None:
    """Check what a picture claims to hold before any pixel is read."""
    pixels, held = picture.width * picture.height, file.stat().st_size
    if pixels > _MAX_PIXELS_PER_BYTE * held:
        raise DataError(
            f"{file}: its header claims {picture.height} × {picture.width} pixels (rows × columns) in {held} bytes; "
            "expected a complete file. Copy or export it again."
        )
    if pixels > MAX_PIXELS:
        raise DataError(
            f"{file}: its header claims {picture.height} × {picture.width} pixels (rows × columns); expected at most "
            f"{MAX_PIXELS} in all, 8192 × 8192. Make the image and its mask smaller, or cut them into parts."
        )
    # A second picture in a JPEG is a preview or a depth map.
    pictures = getattr(picture, "n_frames", 1) if picture.format != "MPO" else 1
    if pictures > 1:
        raise DataError(f"{file}: found {pictures} pictures in the file; expected one. Save each by itself.")


def _refuse_unmapped(file: Path, values: str, unknown: list[int], labels: Mapping[int, int]) -> NoReturn:
    if unknown == [255] and 1 in labels:
        raise _unmapped(file, values, labels, "If 255 marks the lesion, write in data.yaml: labels: {0: 0, 255: 1}.")
    if unknown == [1] and 255 in labels:
        raise _unmapped(file, values, labels, "If 1 marks the lesion, write in data.yaml: labels: {0: 0, 1: 1}.")
    if file.suffix.lower() in (".jpg", ".jpeg"):
        raise _unmapped(
            file,
            values,
            labels,
            "JPEG compression changes the values of a mask: save masks as PNG, or write ranges into data.yaml, for "
            "example labels: {0-127: 0, 128-255: 1}.",
        )
    entries = ", ".join(f"{value}: CLASS" for value in unknown[:_SHOWN_VALUES])
    raise _unmapped(file, values, labels, f"Add to 'labels' in data.yaml: {entries}; or correct the mask.")


def _unmapped(file: Path, values: str, labels: Mapping[int, int], remedy: str) -> DataError:
    expected = show_values(sorted(labels))
    return DataError(f"{file}: found the label values {values}, expected only {expected}. {remedy}")


def _open(file: Path, convert: Any) -> Array:
    """Open a picture and convert it while it is open."""
    if not file_exists(file):
        raise MissingFileError(f"{file}: found no such file; expected an image.")
    try:
        with Image.open(file, formats=_FORMATS) as picture:
            _check_header(file, picture)
            array: Array = convert(picture)
    except DataError:
        raise
    except _UNREADABLE as error:
        reason = str(error).replace(f"{str(file)!r}", "the file")
        raise DataError(f"{file}: cannot be read as an image ({reason}); expected PNG, JPEG, BMP or TIFF.") from error
    return array
