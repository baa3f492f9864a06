"""The change of images in every direction, and the normals of a contour: what the flags of a site are made of."""

import numpy as np
from scipy import ndimage

from ....transforms.array_types import Floats

# Axes with a spacing of so many units are coarse: images do not change along them.
_COARSE = 1.5
_IMAGE_SMOOTHING, _DISTANCE_SMOOTHING = 0.7, 1.0

GradientTensor = dict[tuple[int, int], Floats]


def scaled_channels(images: Floats) -> Floats:
    """Return images ``(N, C, H, W[, D])`` with each channel of each at mean 0 and standard deviation 1.

    Raises:
        ValueError: when one is not finite.
    """
    if not np.isfinite(images).all():
        raise ValueError("Expected an image of finite values, but found NaN or infinite ones.")
    axes = tuple(range(2, images.ndim))
    centred = images - images.mean(axis=axes, keepdims=True)
    return np.asarray(centred / (images.std(axis=axes, keepdims=True) + 1e-6))


def gradient_tensor(images: Floats, steps: Floats) -> GradientTensor:
    """Return Σ_channels ∇I ∇Iᵀ along the fine axes, ``(N, pixels)`` for each pair of axes.

    Args:
        images: ``(N, C, H, W[, D])``.
        steps: size of a pixel along each axis in units of the finest spacing.
    """
    fine = np.flatnonzero(steps < _COARSE).tolist()
    smoothing = [0.0, 0.0, *(_IMAGE_SMOOTHING if axis in fine else 0.0 for axis in range(len(steps)))]
    smooth = ndimage.gaussian_filter(images, smoothing)
    slopes = {axis: np.gradient(smooth, axis=axis + 2) for axis in fine}
    return {
        (first, second): (slopes[first] * slopes[second]).sum(axis=1).reshape(len(images), -1)
        for first in fine
        for second in fine
        if first <= second
    }


def unit_normals(distance: Floats, steps: Floats) -> Floats:
    """Return the unit gradient of a signed distance ``(d, pixels)``; it points outward."""
    smooth = ndimage.gaussian_filter(distance, _DISTANCE_SMOOTHING / steps)
    normals = np.array([np.gradient(smooth, axis=axis) / step for axis, step in enumerate(steps)])
    return np.asarray(normals / (np.sqrt((normals**2).sum(axis=0)) + 1e-9)).reshape(len(steps), -1)
