"""The inner and the outer band along an annotation's contour, where FedA³I measures annotation noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from .array_types import Booleans, Floats
from .surfaces import checked_spacing, grown_box


def contour_bands(mask: ArrayLike, spacing: Sequence[float] | None = None) -> tuple[Booleans, Booleans]:
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
    sampling = checked_spacing(foreground.shape, spacing)
    inner, outer = np.zeros_like(foreground), np.zeros_like(foreground)
    if not foreground.any() or foreground.all():
        return inner, outer

    box = ndimage.find_objects(foreground.astype(np.uint8))[0]
    # One pixel around the object suffices inside: beyond it no background is nearer.
    near = grown_box(box, (1,) * foreground.ndim, foreground.shape)
    depth = _distance(foreground[near], sampling)
    deepest = float(depth.max())
    # Beyond the deepest pixel's depth the outer distance decides nothing: if the image goes on there, d is d_in.
    margins = [math.floor(deepest / step) + 1 for step in sampling]
    far = grown_box(box, margins, foreground.shape)
    away = _distance(~foreground[far], sampling)
    width = min(deepest, float(away.max()))

    inner[near] = foreground[near] & (depth <= width)
    outer[far] = ~foreground[far] & (away <= width)
    return inner, outer


def _distance(inside: Booleans, sampling: tuple[float, ...]) -> Floats:
    """Distance of every pixel inside to the nearest one outside, 0 outside; same shape."""
    return np.asarray(ndimage.distance_transform_edt(inside, sampling=sampling), dtype=np.float64)
