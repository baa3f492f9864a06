"""Contours that an annotator drew on a copy of a picture, as a mask: the regions that the lines enclose."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

from ...transforms.array_types import Booleans, Labels
from ...transforms.errors import DataError

# By how many of 255 grey values a line differs at least from the picture below it; JPEG changes less.
_LEAST_DIFFERENCE = 20
# Pixels of a speck that is no line, and of a hole that is no region.
_SPECK = 20
# Gaps in a line are closed up to twice as many pixels.
_MOST_CLOSING = 6
_AROUND = np.ones((3, 3), dtype=bool)


@dataclass(frozen=True)
class NestedContours:
    """Two closed lines on a copy of a picture, one within the other: 1 between them, 2 within the inner one.

    Attributes:
        file: the copy with the lines.
    """

    file: Path

    def draw(self, image: Path, size: tuple[int, int]) -> Labels:
        """Return the mask ``(H, W)``; the middle of a line is the boundary.

        Args:
            image: the picture without lines.
            size: its rows and columns.

        Raises:
            DataError: if the copy cannot be read, has another size, or its lines do not enclose such regions.
        """
        # The names of data sets are shown without reading an image.
        from ...transforms.loading.image_files import check_same_size, read_picture  # noqa: PLC0415

        plain, copy = (read_picture(file, 3).intensities for file in (image, self.file))
        check_same_size(self.file, copy.shape[1:], size)
        line = _without_specks(np.abs(copy - plain).max(axis=0) > _LEAST_DIFFERENCE)
        for closing in range(_MOST_CLOSING + 1):
            if (regions := _nested(_closed(line, closing))) is not None:
                return regions
        raise DataError(
            f"{self.file}: found no two closed lines, one within the other, where it differs from {image.name}; "
            "expected the contours of the optic disc and cup."
        )


def _closed(line: Booleans, closing: int) -> Booleans:
    """The lines with gaps closed; the picture's edge closes nothing."""
    if closing == 0:
        return line
    padded = np.pad(line, closing)
    inner = slice(closing, -closing)
    return np.asarray(ndimage.binary_closing(padded, _AROUND, iterations=closing)[inner, inner], dtype=bool)


def _nested(line: Booleans) -> Labels | None:
    """The mask of lines that part the picture into an outside, a ring and what the ring surrounds; else None."""
    # The outside is one region, also where a line meets the picture's edge.
    parts, count = ndimage.label(np.pad(~line, 1, constant_values=True))
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    enclosed = [part for part in range(1, count + 1) if sizes[part] >= _SPECK and part != parts[0, 0]]
    if len(enclosed) != 2:
        return None
    for ring, within in (enclosed, enclosed[::-1]):
        if ndimage.binary_fill_holes(parts == ring)[parts == within].all():
            value = np.full(count + 1, -1)
            value[[parts[0, 0], ring, within]] = 0, 1, 2
            return _nearest(value[parts])[1:-1, 1:-1]
    return None


def _nearest(values: Labels) -> Labels:
    """The values with each pixel of no region, -1, taken from the nearest region."""
    places = ndimage.distance_transform_edt(values < 0, return_distances=False, return_indices=True)
    return np.asarray(values[tuple(places)], dtype=np.int64)


def _without_specks(mask: Booleans) -> Booleans:
    parts, count = ndimage.label(mask, _AROUND)
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    sizes[0] = 0
    return np.asarray(sizes[parts] >= _SPECK, dtype=bool)
