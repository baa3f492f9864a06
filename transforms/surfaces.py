"""Contours of objects as points with normals, finer than the pixel, and signed distances to them; in 2D and 3D."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import ndimage, optimize
from scipy.spatial import cKDTree

from .array_types import AnyFloats, Booleans, Floats

# A mask's contour follows the grid in steps; averaged over this many pixels (standard deviation) it runs smoothly.
_SMOOTHING = 0.8
# A field that changes less from pixel to pixel has no contour there.
_SMALLEST_SLOPE = 1e-3
_CONFIDENTLY_OUTSIDE = 0.02
# Pixels around an object that say where its contour runs.
SURFACE_MARGIN = 4
# Probabilities nearer to 0 or 1 than this say nothing more about where the contour runs.
_SMALLEST_PROBABILITY = 1e-6


@dataclass(frozen=True)
class Surface:
    """The contour of one object: points on it, with outward normals.

    Where the image's border cuts the object there is no contour: the object is taken to go on outside.

    Attributes:
        points: ``(n, d)`` in millimetres (pixels without spacing), pixel 0 of every axis at 0.
        normals: ``(n, d)`` of length one, outward.
        areas: how much of the contour each point stands for, ``(n,)``: its length in 2D, its area in 3D.
        inside: the object, boolean ``(H, W[, D])``.
        spacing: size of a pixel along each axis.
        at_border: whether the object touches the image's border.
    """

    points: Floats
    normals: Floats
    areas: Floats
    inside: Booleans
    spacing: tuple[float, ...]
    at_border: bool

    @cached_property
    def _tree(self) -> cKDTree[Any]:
        return cKDTree(self.points)

    def signed_distances(self, places: Floats) -> Floats:
        """Return the distances ``(m,)`` of places ``(m, d)`` in the image to the contour, negative inside the object.

        Between the points the contour is taken as flat. NaN where the object has no contour.
        """
        if not len(self.points):
            return np.full(len(places), np.nan)
        direct, nearest = self._tree.query(places)
        along = ((places - self.points[nearest]) * self.normals[nearest]).sum(axis=1)
        aside = np.sqrt(np.maximum(direct**2 - along**2, 0.0))
        # Points lie on every edge of the grid that the contour crosses, so up to half a pixel's face from any place.
        half_gap = 0.5 * math.hypot(*sorted(self.spacing)[-2:])
        distances = np.hypot(along, np.maximum(aside - half_gap, 0.0))
        pixels = np.rint(places / self.spacing).astype(np.intp)
        pixels = np.clip(pixels, 0, np.array(self.inside.shape) - 1)
        within = self.inside[tuple(pixels.T)]
        is_near = distances <= max(self.spacing)
        outward = np.where(is_near, along >= 0, ~within)
        return np.asarray(np.where(outward, distances, -distances), dtype=np.float64)


def surface_of_mask(inside: Booleans, spacing: Sequence[float] | None = None) -> Surface:
    """Return the contour of an object ``(H, W[, D])``; it encloses as many pixels as the object has.

    The mask is averaged over neighbouring pixels, and the contour is the level that keeps the number of pixels. So
    neither the grid's steps nor an object's curvature move it, and an object of one pixel has a contour.

    Args:
        inside: the object, boolean.
        spacing: size of a pixel along each axis in millimetres; None measures in pixels.

    Raises:
        ValueError: when the mask has neither two nor three axes, or the spacing does not fit it.

    Example:
        >>> rows, columns = np.mgrid[:32, :32]
        >>> disc = surface_of_mask(np.hypot(rows - 15, columns - 15) <= 8)
        >>> disc.signed_distances(np.array([[15.0, 15.0], [15.0, 28.0]])).round().tolist()
        [-8.0, 5.0]
    """
    sampling = checked_spacing(inside.shape, spacing)
    box = bounding_box(inside, margin=SURFACE_MARGIN)
    part = inside[box]
    smooth = ndimage.gaussian_filter(part.astype(np.float64), _SMOOTHING, mode="nearest", truncate=4.0)
    return _surface(smooth - _level(smooth, int(part.sum())), inside, box, sampling)


def surface_of_probabilities(
    probabilities: AnyFloats, label: int, inside: Booleans, spacing: Sequence[float] | None = None
) -> Surface:
    """Return the contour of a predicted object, where its class is as probable as the most probable other one.

    Args:
        probabilities: of every class, ``(C + 1, H, W[, D])``, the background first.
        label: the object's class.
        inside: the object's pixels, all connected pixels in which `label` is the most probable class.
        spacing: see :func:`surface_of_mask`.

    Raises:
        ValueError: as :func:`surface_of_mask`.
    """
    sampling = checked_spacing(inside.shape, spacing)
    box = bounding_box(inside, margin=SURFACE_MARGIN)
    part = np.log(np.maximum(probabilities[(slice(None), *box)].astype(np.float64), _SMALLEST_PROBABILITY))
    others = np.delete(part, label, axis=0).max(axis=0)
    margin = part[label] - others
    # Ties are decided by the prediction, and another object of the class is outside of this one.
    tiny = 1e-9
    margin = np.where(inside[box], np.maximum(margin, tiny), np.minimum(margin, -tiny))
    return _surface(margin, inside, box, sampling)


def checked_spacing(shape: tuple[int, ...], spacing: Sequence[float] | None) -> tuple[float, ...]:
    """Return the pixel's size along each axis, one where none is given.

    Raises:
        ValueError: when the mask has neither two nor three axes, or the spacing does not fit it.
    """
    if len(shape) not in (2, 3):
        raise ValueError(f"Expected a mask of shape (H, W) or (H, W, D), found {shape}.")
    sampling = (1.0,) * len(shape) if spacing is None else tuple(float(step) for step in spacing)
    if len(sampling) != len(shape) or not all(math.isfinite(step) and step > 0 for step in sampling):
        raise ValueError(f"Expected a spacing of {len(shape)} positive numbers for the mask {shape}, found {sampling}.")
    return sampling


def bounding_box(inside: Booleans, margin: int = 0) -> tuple[slice, ...]:
    """Return the box around what is true with a margin, as far as the image goes; everything where nothing is."""
    boxes = ndimage.find_objects(inside.astype(np.uint8))
    if not boxes:
        return tuple(slice(0, length) for length in inside.shape)
    return grown_box(boxes[0], (margin,) * inside.ndim, inside.shape)


def grown_box(box: tuple[slice, ...], margins: Sequence[int], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return a box with a margin along each axis, as far as the image goes."""
    return tuple(
        slice(max(side.start - margin, 0), min(side.stop + margin, length))
        for side, margin, length in zip(box, margins, shape, strict=True)
    )


def _level(smooth: Floats, num_pixels: int) -> float:
    """The level of a smooth field whose contour encloses as much as so many pixels, cut pixels by their parts."""
    width = np.maximum(sum(_steepness(smooth, axis) for axis in range(smooth.ndim)), _SMALLEST_SLOPE)
    # All others are outside or inside whatever the level.
    near = (smooth > _CONFIDENTLY_OUTSIDE) & (smooth < 1 - _CONFIDENTLY_OUTSIDE)
    values, widths, remaining = (
        smooth[near],
        width[near],
        num_pixels - np.count_nonzero(smooth >= 1 - _CONFIDENTLY_OUTSIDE),
    )

    def excess(level: float) -> float:
        return float(np.clip(0.5 + (values - level) / widths, 0.0, 1.0).sum()) - remaining

    low, high = 0.0, float(smooth.max())
    return float(optimize.brentq(excess, low, high, xtol=1e-3)) if excess(low) > 0 > excess(high) else 0.5 * high


def _surface(field: Floats, inside: Booleans, box: tuple[slice, ...], spacing: tuple[float, ...]) -> Surface:
    """The zero level of a field over a box of the image, which is positive inside."""
    gradient = np.stack([_slope(field, axis) / step for axis, step in enumerate(spacing)], axis=-1)
    result = [_crossings(field, gradient, axis) for axis in range(field.ndim)]
    places = np.concatenate([points for points, _ in result]) + np.array([side.start for side in box])
    slopes = np.concatenate([slopes for _, slopes in result])
    length = np.linalg.norm(slopes, axis=1, keepdims=True)
    normals = -slopes / np.maximum(length, np.finfo(np.float64).tiny)
    # An edge along an axis is crossed once per face of the pixel; seen at a slant, the face covers more of the contour.
    faces = np.concatenate(
        [np.full(len(points), math.prod(spacing) / spacing[axis]) for axis, (points, _) in enumerate(result)]
    )
    crossed = np.concatenate([np.full(len(points), axis) for axis, (points, _) in enumerate(result)])
    areas = faces * np.abs(normals[np.arange(len(normals)), crossed])
    edges = zip(box, inside.shape, strict=True)
    at_border = any(
        (side.start == 0 and inside.take(0, axis).any()) or (side.stop == size and inside.take(-1, axis).any())
        for axis, (side, size) in enumerate(edges)
    )
    return Surface(places * spacing, normals, areas, inside, spacing, at_border)


def _slope(field: Floats, axis: int) -> Floats:
    """Central differences along an axis, 0 along one of length one."""
    return np.asarray(np.gradient(field, axis=axis)) if field.shape[axis] > 1 else np.zeros_like(field)


def _steepness(field: Floats, axis: int) -> Floats:
    """The larger of the two differences from the neighbours along an axis; a peak has a slope, too."""
    before = np.abs(np.diff(field, axis=axis, prepend=field.take([0], axis)))
    after = np.abs(np.diff(field, axis=axis, append=field.take([-1], axis)))
    return np.asarray(np.maximum(before, after))


def _crossings(field: Floats, gradient: Floats, axis: int) -> tuple[Floats, Floats]:
    """Where a field changes its sign between neighbours along an axis, ``(n, d)`` in pixels, and its slope there."""
    last = field.shape[axis] - 1
    first = np.moveaxis(field, axis, 0)[:last]
    second = np.moveaxis(field, axis, 0)[1:]
    crossed = np.nonzero((first > 0) != (second > 0))
    at, then = first[crossed], second[crossed]
    fraction = at / (at - then)
    moved = np.moveaxis(gradient, axis, 0)
    slopes = moved[:last][crossed] * (1 - fraction)[:, None] + moved[1:][crossed] * fraction[:, None]
    # A thin object has no slope in its middle; the edge itself says which way is out.
    along = np.zeros_like(slopes)
    along[:, axis] = then - at
    flat = np.linalg.norm(slopes, axis=1) <= 1e-12
    slopes = np.where(flat[:, None], along, slopes)
    points = np.stack(crossed, axis=1).astype(np.float64)
    points[:, 0] += fraction
    order = [*range(1, axis + 1), 0, *range(axis + 1, field.ndim)]
    return points[:, order], slopes
