"""The change of many images in every direction: what the flags of a site are made of."""

import numpy as np
from scipy import ndimage

from ....transforms.array_types import Floats
from .contours import fine_axes, smoothing_along

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
    fine = fine_axes(steps)
    smooth = ndimage.gaussian_filter(images, [0.0, 0.0, *smoothing_along(steps)])
    slopes = {axis: np.gradient(smooth, axis=axis + 2) for axis in fine}
    return {
        (first, second): (slopes[first] * slopes[second]).sum(axis=1).reshape(len(images), -1)
        for first in fine
        for second in fine
        if first <= second
    }
