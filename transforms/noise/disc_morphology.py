"""Erosion, dilation, opening and closing of a mask with a disc of any radius, by distances."""

import math
from collections.abc import Callable

import numpy as np
from scipy import ndimage

from ..array_types import Booleans


def eroded(mask: Booleans, radius: float) -> Booleans:
    """Keep the pixels ``(H, W)`` whose nearest background pixel is farther than the radius.

    Objects that the image border cuts are taken to go on outside. A radius below one pixel changes nothing.
    """
    return _within(mask, radius, lambda padded: _erode(padded, radius))


def dilated(mask: Booleans, radius: float) -> Booleans:
    """Add the pixels ``(H, W)`` whose nearest object pixel is no farther than the radius."""
    return _within(mask, radius, lambda padded: ~_erode(~padded, radius))


def opened(mask: Booleans, radius: float) -> Booleans:
    """Keep the pixels ``(H, W)`` that some disc of the radius inside the object covers: thinner parts go."""
    return _within(mask, radius, lambda padded: ~_erode(~_erode(padded, radius), radius))


def closed(mask: Booleans, radius: float) -> Booleans:
    """Add the pixels ``(H, W)`` that no disc of the radius outside the object covers: narrower gaps are filled."""
    return _within(mask, radius, lambda padded: _erode(~_erode(~padded, radius), radius))


def _within(mask: Booleans, radius: float, change: Callable[[Booleans], Booleans]) -> Booleans:
    """Change a mask whose border goes on as far as two discs reach."""
    margin = 2 * math.ceil(radius)
    if radius < 1 or not mask.any():
        return mask.copy()
    changed = change(np.pad(mask, margin, mode="edge"))
    return changed[margin : margin + mask.shape[0], margin : margin + mask.shape[1]]


def _erode(mask: Booleans, radius: float) -> Booleans:
    # Without any background there is no distance to it.
    return mask.copy() if mask.all() else np.asarray(ndimage.distance_transform_edt(mask) > radius)
