"""Polygons as masks of pictures: a pixel belongs to a polygon if its centre lies inside."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...transforms.array_types import Booleans, Floats, Labels


def pixels_inside(corners: Floats, size: tuple[int, int]) -> tuple[slice, slice, Booleans]:
    """Return the rows and columns that a polygon lies in, and which of their pixels belong to it.

    Args:
        corners: ``(n, 2)`` with n ≥ 3, rows first, in pixels; the upper left corner of the picture is at 0.
        size: rows and columns of the picture.
    """
    # Only polygons need it.
    from skimage.measure import grid_points_in_poly  # noqa: PLC0415

    # The centre of the first pixel is at a half.
    centred = corners - 0.5
    low = np.clip(np.floor(centred.min(axis=0)), 0, size).astype(int)
    high = np.clip(np.ceil(centred.max(axis=0)) + 1, low, size).astype(int)
    rows, columns = (slice(int(start), int(stop)) for start, stop in zip(low, high, strict=True))
    where = grid_points_in_poly((int(high[0] - low[0]), int(high[1] - low[1])), centred - low)
    return rows, columns, np.asarray(where)


@dataclass(frozen=True)
class PolygonMask:
    """A mask that is drawn of polygons.

    Attributes:
        file: the table that holds them.
        polygons: class and corners of each, x before y, as fractions of the picture's width and height; a later one
            covers those before it.
    """

    file: Path
    polygons: Sequence[tuple[int, tuple[tuple[float, float], ...]]]

    def draw(self, image: Path, size: tuple[int, int]) -> Labels:
        """Return the mask ``(H, W)`` of a picture of this size; 0 outside of all polygons."""
        del image  # Fractions of its size say enough.
        result = np.zeros(size, dtype=np.int64)
        for label, corners in self.polygons:
            rows, columns, where = pixels_inside(np.array(corners)[:, ::-1] * size, size)
            result[rows, columns][where] = label
        return result
