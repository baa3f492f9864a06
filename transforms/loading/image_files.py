"""Reading PNG, JPEG and other pictures with Pillow: intensities of an image, values of a mask; rows stay rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from PIL import Image

from ..array_types import Array, Classes, Labels, SingleFloats
from ..data_error import DataError, MissingFileError, NearlyWholeError
from ..ignored_label import IGNORED_LABEL
from .picture_display import (
    MAX_INTENSITY,
    ColouredPictureError,
    PictureError,
    displayed,
    from_open_picture,
    has_colours,
    intensities,
    mask_colours,
    mask_values,
    orientation,
    read_intensities,
    unusable_intensities,
)

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")

Result = TypeVar("Result")

_SHOWN_VALUES = 8
# Label values that lie closer than this are counted in a table rather than sorted.
_TABLE_LENGTH = 2**16
_MOST_LABEL = 2**53
# Values of a mask that resampling has left differ by so much from labels.
_NEARLY_WHOLE = 0.01


class ColouredMaskError(DataError):
    """A mask has colours where one grey value per pixel is expected."""


def read_image(file: Path, channels: int) -> SingleFloats:
    """Read an image's intensities as a viewer shows them, converting between grey and RGB where needed.

    Args:
        file: the image.
        channels: 1 for grey, 3 for RGB; an alpha channel that says nothing is left out.

    Returns:
        Intensities as they are in the file, float32 ``(C, H, W)``, turned upright as EXIF says.

    Raises:
        DataError: if the file is missing, cannot be read as an image, or :func:`.picture_display.displayed` refuses it.

    Example:
        >>> Image.fromarray(np.full((2, 3), 7, np.uint8)).save("grey.png")
        >>> read_image(Path("grey.png"), channels=3).shape
        (3, 2, 3)
    """
    image: SingleFloats = _read(file, lambda: read_intensities(file, channels))
    return image


def read_displayed(file: Path, channels: int) -> Array:
    """Read an image's intensities as a viewer shows them, in the type of its file.

    Args:
        file: the image.
        channels: 1 for grey, 3 for RGB; see :func:`.picture_display.displayed`.

    Returns:
        Intensities ``(H, W)``, or ``(H, W, 3)`` of colours.

    Raises:
        DataError: as :func:`read_image`.
    """
    return _open(file, lambda picture: np.asarray(displayed(picture, channels)))


@dataclass(frozen=True)
class Picture:
    """An image with what its intensities do not say.

    Attributes:
        intensities: as :func:`read_image` gives them.
        has_colours: whether it shows colours.
        orientation: as EXIF gives it, 1 for upright.
        mode: Pillow's name of what its pixels are.
    """

    intensities: SingleFloats
    has_colours: bool
    orientation: int
    mode: str


def read_picture(file: Path, channels: int | None = None) -> Picture:
    """Read an image as :func:`read_image` does; with as many channels as its colours need where none are given.

    Raises:
        DataError: as :func:`read_image`.
    """

    def convert(picture: Image.Image) -> Picture:
        # Reading the pixels of a TIFF takes its orientation away.
        turned, mode = orientation(picture), picture.mode
        coloured = has_colours(picture)
        read = intensities(picture, channels or (3 if coloured else 1))
        return Picture(read, coloured, turned, mode)

    return _open(file, convert)


def read_mask(file: Path, *, rounds: bool = False) -> Labels:
    """Read the values of a mask ``(H, W)``; see :func:`.picture_display.mask_values` for palettes.

    Args:
        file: the mask.
        rounds: see :func:`label_values`.

    Raises:
        NearlyWholeError: as :func:`label_values`.
        DataError: if the file is missing, cannot be read as an image, is coloured, holds no whole numbers, or its
            alpha channel carries what is annotated.

    Example:
        >>> Image.fromarray(np.eye(3, dtype=np.uint8) * 255).save("mask.png")
        >>> read_mask(Path("mask.png")).tolist()
        [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    """
    return label_values(_open(file, mask_values), file, rounds=rounds)


def label_values(values: Array, file: Path, *, rounds: bool = False) -> Labels:
    """Return the values of a mask of any shape as whole numbers.

    Args:
        values: as they are in the file.
        file: the mask, for errors.
        rounds: round values that differ from whole numbers by a hundredth at most, as resampling leaves them.

    Raises:
        NearlyWholeError: if some differ so little, and are not to be rounded.
        DataError: if some are not finite, no whole numbers, or larger than floating point tells apart.
    """
    if values.dtype.kind == "f":
        values = _whole(values, file, rounds=rounds)
    if values.size and not (values.min() > -_MOST_LABEL and values.max() < _MOST_LABEL):
        raise DataError(
            f"{file}: found label values from {values.min():g} to {values.max():g}; expected small whole numbers, the "
            "labels. Export the mask again."
        )
    return values.astype(np.int64)


def _whole(values: Array, file: Path, *, rounds: bool) -> Array:
    if not_finite := int(np.count_nonzero(~np.isfinite(values))):
        raise DataError(
            f"{file}: found {not_finite} of {values.size} values of a mask that are NaN or infinite; expected whole "
            "numbers, the labels, with 0 for background."
        )
    whole = np.rint(values)
    off = np.abs(values - whole)
    if not off.any() or (rounds and off.max() <= _NEARLY_WHOLE):
        return whole
    if off.max() > _NEARLY_WHOLE:
        raise DataError(f"{file}: found a mask with fractions; expected whole numbers, the labels.")
    example = values.ravel()[off.argmax()]
    raise NearlyWholeError(
        f"{file}: found {np.count_nonzero(off)} label values that are not quite whole, such as {example:.6g}; expected "
        "whole numbers, the labels."
    )


def read_colours(file: Path) -> Labels:
    """Read the colours of a mask ``(H, W)``: red · 65536 + green · 256 + blue.

    Raises:
        DataError: if the file is missing, cannot be read as an image, or its alpha channel carries what is annotated.
    """
    colours: Labels = _open(file, mask_colours).astype(np.int64) @ np.array([2**16, 2**8, 1], dtype=np.int64)
    return colours


def map_mask(values: Labels, labels: Mapping[int, int], file: Path) -> Classes:
    """Turn the values of a mask into classes, same shape.

    Args:
        values: the mask as it is in the file.
        labels: value in the file → class, 0 for background, 255 for pixels that are ignored.
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
    if not (values.min() >= -MAX_INTENSITY and values.max() <= MAX_INTENSITY):
        unusable = int(np.count_nonzero(~(np.abs(values) <= MAX_INTENSITY)))
        raise DataError(f"{file}: {unusable_intensities(unusable)}")


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


def _refuse_unmapped(file: Path, values: str, unknown: list[int], labels: Mapping[int, int]) -> NoReturn:
    if unknown == [255] and 1 in labels:
        raise _unmapped(
            file,
            values,
            labels,
            "If 255 marks the lesion, write in data.yaml: labels: {0: 0, 255: 1}. If such pixels count nowhere: "
            "ignore: [255].",
        )
    if unknown == [1] and labels.get(255, IGNORED_LABEL) != IGNORED_LABEL:
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
    raise _unmapped(
        file,
        values,
        labels,
        f"Add to 'labels' in data.yaml: {entries}; or to 'ignore', if such pixels count nowhere; or correct the mask.",
    )


def _unmapped(file: Path, values: str, labels: Mapping[int, int], remedy: str) -> DataError:
    expected = show_values(sorted(labels))
    return DataError(f"{file}: found the label values {values}, expected only {expected}. {remedy}")


def _open(file: Path, convert: Callable[[Image.Image], Result]) -> Result:
    """Open a picture and convert it while it is open."""
    return _read(file, lambda: from_open_picture(file, convert))


def _read(file: Path, read: Callable[[], Result]) -> Result:
    if not file_exists(file):
        raise MissingFileError(f"{file}: found no such file; expected an image.")
    try:
        return read()
    except ColouredPictureError as error:
        raise ColouredMaskError(str(error)) from error
    except PictureError as error:
        raise DataError(str(error)) from error
