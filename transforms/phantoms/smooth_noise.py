"""Smooth noise, the texture of the phantoms."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from ..array_types import Floats


def smooth_noise(generator: np.random.Generator, shape: Sequence[int], scale: float | Floats) -> Floats:
    """Draw white noise, blur it and bring it to mean zero and unit standard deviation.

    Args:
        generator: gives everything random.
        shape: of the result.
        scale: standard deviation of the blur in pixels, one for all axes or one for each; the noise is periodic.
    """
    smooth = ndimage.gaussian_filter(generator.standard_normal(shape), scale, mode="wrap")
    return np.asarray((smooth - smooth.mean()) / smooth.std())
