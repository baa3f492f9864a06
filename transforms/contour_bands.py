"""The inner and the outer band along an annotation's contour, where FedA³I measures annotation noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage


def contour_bands(
    mask: ArrayLike, spacing: Sequence[float] | None = None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the largest band along the contour of a mask that grows on both sides (FedA³I, Sec. 3.3).

    R_in = {y = 1, D ≥ −d}, R_out = {y = 0, D ≤ d}, d = min(d_in, d_out), where D is the signed Euclidean distance to
    the contour, d_in the depth of the deepest pixel inside and d_out the distance of the farthest pixel outside.
    The distance of a pixel is taken to the nearest pixel of the other side, so that both sides start at one pixel.
    The bands are for the site's own use and do not leave it.

    Args:
        mask: annotation ``(H, W)`` or ``(H, W, D)``; everything but 0 is foreground.
        spacing: size of a pixel along each axis in millimetres; None measures in pixels.

    Returns:
        Inner and outer band, boolean, of the mask's shape. Both are empty where the mask is empty or full:
        it has no contour.

    Raises:
        ValueError: when the mask has neither two nor three axes, or the spacing does not fit it.

    Example:
        >>> inner, outer = contour_bands(np.pad(np.ones((4, 4)), 4))
        >>> int(inner.sum()), int(outer.sum())
        (16, 36)
    """
    foreground = np.asarray(mask) != 0
    sampling = _checked_spacing(foreground.shape, spacing)
    inner, outer = np.zeros_like(foreground), np.zeros_like(foreground)
    if not foreground.any() or foreground.all():
        return inner, outer

    box = ndimage.find_objects(foreground.astype(np.uint8))[0]
    # One pixel around the object suffices inside: beyond it no background is nearer.
    near = _grown(box, [1] * foreground.ndim, foreground.shape)
    depth = _distance(foreground[near], sampling)
    deepest = float(depth.max())
    # Beyond the deepest pixel's depth the outer distance decides nothing: if the image goes on there, d is d_in.
    margins = [math.floor(deepest / step) + 1 for step in sampling]
    far = _grown(box, margins, foreground.shape)
    away = _distance(~foreground[far], sampling)
    width = min(deepest, float(away.max()))

    inner[near] = foreground[near] & (depth <= width)
    outer[far] = ~foreground[far] & (away <= width)
    return inner, outer


def _checked_spacing(shape: tuple[int, ...], spacing: Sequence[float] | None) -> tuple[float, ...]:
    """The pixel's size along each axis, one where none is given."""
    if len(shape) not in (2, 3):
        raise ValueError(f"A mask has the shape (H, W) or (H, W, D), found {shape}.")
    if spacing is None:
        return (1.0,) * len(shape)
    sampling = tuple(float(step) for step in spacing)
    if len(sampling) != len(shape) or not all(math.isfinite(step) and step > 0 for step in sampling):
        raise ValueError(
            f"spacing must be {len(shape)} positive numbers, one for each axis of the mask {shape}, found {sampling}."
        )
    return sampling


def _grown(box: tuple[slice, ...], margins: Sequence[int], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The box with a margin on every side, as far as the image goes."""
    return tuple(
        slice(max(side.start - margin, 0), min(side.stop + margin, length))
        for side, margin, length in zip(box, margins, shape, strict=True)
    )


def _distance(inside: NDArray[np.bool_], sampling: tuple[float, ...]) -> NDArray[np.float64]:
    """Distance of every pixel inside to the nearest one outside, 0 outside; same shape."""
    return np.asarray(ndimage.distance_transform_edt(inside, sampling=sampling), dtype=np.float64)
