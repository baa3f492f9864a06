"""The objects and holes of a mask, their contours traced, and a contour moved along its normal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.measure import find_contours

from .array_types import Booleans, Floats

_EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=bool)
_FOUR_NEIGHBOURS = ndimage.generate_binary_structure(2, 1)

# The contour runs half a pixel from the pixels next to it where it follows the grid; on a slanted edge the nearest of
# them are up to a whole pixel off. Averaging this many points shows where it runs, and corners stay within the limits.
# With these values discs of 8 to 80 px move by the length asked for to 0.4 px (0.13 px root mean square).
_SMOOTHED_POINTS = 5
_OFFSET_LIMITS = (0.3, 0.7)

# Side in pixels of the square over which the displacement is averaged off the contour.
_SMOOTHED_PIXELS = 5


@dataclass(frozen=True)
class Region:
    """A part of a plane with one closed contour: an object with its holes filled, or a hole.

    Attributes:
        pixels: the region in its bounding box, boolean ``(h, w)``.
        corner: row and column of the box in the plane.
        area: number of pixels; for an object without its holes.
        is_hole: a hole is one piece by four neighbours, an object by eight.
    """

    pixels: Booleans
    corner: tuple[int, int]
    area: int
    is_hole: bool


@dataclass(frozen=True)
class PlaneObject:
    """One object of a plane: its outer region and its holes."""

    outer: Region
    holes: tuple[Region, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        """Every region whose contour belongs to the object, the outer one first."""
        return (self.outer, *self.holes)


@dataclass(frozen=True)
class MovedRegion:
    """A region after its contour moved: ``pixels`` boolean, and the window of the plane in which they lie."""

    pixels: Booleans
    window: tuple[slice, slice]


def plane_objects(foreground: Booleans) -> Iterator[PlaneObject]:
    """Yield the eight-connected objects of a boolean plane ``(H, W)`` in scan order, each with its holes."""
    labelled, _ = ndimage.label(foreground, structure=_EIGHT_NEIGHBOURS)
    for number, box in enumerate(ndimage.find_objects(labelled), start=1):
        corner = (box[0].start, box[1].start)
        pixels = labelled[box] == number
        background, count = ndimage.label(~np.pad(pixels, 1), structure=_FOUR_NEIGHBOURS)
        # The margin makes everything around the object one background region, the first in scan order.
        holes = background[1:-1, 1:-1]
        filled = holes != 1 if count > 1 else pixels
        yield PlaneObject(
            outer=Region(filled, corner, int(pixels.sum()), is_hole=False),
            holes=tuple(_holes(holes, corner)) if count > 1 else (),
        )


def trace(region: Region) -> Floats:
    """Contour of a region, ``(l, 2)`` rows and columns in the plane, in order, the first point not repeated.

    Every point lies halfway between a pixel of the region and a neighbour outside it, which may lie outside the plane.
    """
    padded = np.pad(region.pixels, 1).astype(np.float64)
    contours = find_contours(padded, 0.5, fully_connected="low" if region.is_hole else "high")
    return np.asarray(contours[0][:-1], dtype=np.float64) + np.asarray(region.corner, dtype=np.float64) - 1.0


def move(region: Region, points: Floats, displacements: Floats, plane_shape: tuple[int, int]) -> MovedRegion:
    """Move a region's contour along its outward normal.

    Every pixel takes the displacement of the contour point nearest to it, and the pixels are kept whose signed distance
    to the contour (negative inside) is at most that displacement. So a region shrunk past its inner radius vanishes,
    and a contour that crosses itself leaves nothing behind. Where the plane's border cuts the region the cut is no
    contour and does not move: the object is taken to go on outside.

    Args:
        region: what to move.
        points: its contour, ``(l, 2)``, from :func:`trace`.
        displacements: pixels, positive outward, ``(l,)``.
        plane_shape: height and width of the plane.
    """
    lower, upper = np.floor(points).astype(np.intp), np.ceil(points).astype(np.intp)
    drawn = np.all((lower >= 0) & (upper < np.asarray(plane_shape)), axis=1)
    lower, upper, displacements = lower[drawn], upper[drawn], displacements[drawn]
    # One pixel more than the contour grows: the pixels outside the contour must lie in the window.
    margin = 1 + max(0, math.floor(displacements.max(initial=0.0)))
    window = _window(region, margin, plane_shape)
    corner = np.array([side.start for side in window])
    inside = _placed(region, window)
    if not drawn.any():
        return MovedRegion(inside, window)

    along, offset = np.zeros(inside.shape), np.zeros(inside.shape)
    away = np.ones(inside.shape, dtype=bool)
    for pixels, offsets in zip((lower, upper), _pixel_offsets(points, drawn), strict=True):
        place = tuple((pixels - corner).T)
        along[place], offset[place], away[place] = displacements, offsets, False
    rows, columns = ndimage.distance_transform_edt(away, return_distances=False, return_indices=True)
    squared = (rows - np.arange(rows.shape[0])[:, None]) ** 2 + (columns - np.arange(rows.shape[1])) ** 2
    distance = np.sqrt(squared) + offset[rows, columns]
    # A pixel far from a strongly bent contour shares its nearest point with many others; averaging removes the steps.
    smooth = ndimage.uniform_filter(along[rows, columns], _SMOOTHED_PIXELS, mode="nearest")
    return MovedRegion(np.where(inside, -distance, distance) <= smooth, window)


def _pixel_offsets(points: Floats, drawn: Booleans | np.bool_) -> Floats:
    """Distance to the contour of the two pixels next to every drawn contour point, ``(2, drawn points)``."""
    smoothed = ndimage.uniform_filter1d(points, _SMOOTHED_POINTS, axis=0, mode="wrap")
    tangent = np.roll(smoothed, -1, axis=0) - np.roll(smoothed, 1, axis=0)
    length = np.hypot(tangent[:, 0], tangent[:, 1])
    normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1) / np.maximum(length, 1e-9)[:, None]
    beside = np.stack([np.floor(points), np.ceil(points)])
    offsets = np.abs(((beside - smoothed) * normal).sum(axis=2))
    return np.asarray(np.clip(offsets, *_OFFSET_LIMITS)[:, drawn])


def _holes(background: NDArray[np.signedinteger[Any]], corner: tuple[int, int]) -> Iterator[Region]:
    """The regions numbered 2 and up of an object's labelled background, which begins at ``corner`` of the plane."""
    for number, box in enumerate(ndimage.find_objects(background)[1:], start=2):
        pixels = background[box] == number
        yield Region(pixels, (corner[0] + box[0].start, corner[1] + box[1].start), int(pixels.sum()), is_hole=True)


def _window(region: Region, margin: int, plane_shape: tuple[int, int]) -> tuple[slice, slice]:
    """The region's box with a margin, as far as the plane goes."""
    rows, columns = (
        slice(max(start - margin, 0), min(start + size + margin, length))
        for start, size, length in zip(region.corner, region.pixels.shape, plane_shape, strict=True)
    )
    return rows, columns


def _placed(region: Region, window: tuple[slice, slice]) -> Booleans:
    """The region's pixels in a window of the plane that contains its box."""
    inside = np.zeros([side.stop - side.start for side in window], dtype=bool)
    row, column = (start - side.start for start, side in zip(region.corner, window, strict=True))
    inside[row : row + region.pixels.shape[0], column : column + region.pixels.shape[1]] = region.pixels
    return inside
