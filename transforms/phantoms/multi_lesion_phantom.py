"""A phantom of a volume with several lesions in a textured body, with the mask that they were made from."""

import numpy as np
from scipy import ndimage

from ..array_types import Booleans, Floats, SingleFloats
from .smooth_noise import smooth_noise

SHAPE = (64, 64, 12)
SPACING = (1.5, 1.5, 4.5)  # millimetres: thick slices

_BODY_RADII = ((36.0, 44.0), (36.0, 44.0), (28.0, 36.0))
_NUM_LESIONS = (3, 12)
_RADIUS = (3.0, 9.0)
_STRETCH = (0.75, 1.3)
_EDGE_BLUR = (0.5, 1.5)
_CONTRAST = (0.8, 2.0)
_BODY_BRIGHTNESS = 1.0
_TEXTURE_STRENGTH = 0.4
_TEXTURE_SCALE = (4.0, 8.0)
_VOXEL_NOISE = 0.25
_SMALLEST_LESION = 6
_TRIES = 200


def multi_lesion_phantom(generator: np.random.Generator) -> tuple[SingleFloats, Booleans]:
    """Draw one volume with 3 to 12 lesions, and the mask of all of them.

    The body is an ellipsoid with a smooth Gaussian texture; lesions are ellipsoids inside it with a mean radius of 3 to
    9 mm, drawn on a logarithmic scale, and a contrast of 0.8 to 2 over a texture of 0.4 and white noise of 0.25.
    Lesions lie at least a voxel apart, so that each is a component of its own. Where the body is too full for another
    one there are fewer than were drawn.

    Args:
        generator: gives everything random; generators in the same state give the same bits.

    Returns:
        Image, float32 ``(64, 64, 12)`` with voxels of 1.5 × 1.5 × 4.5 mm, and mask, boolean of the same shape.

    Example:
        >>> image, mask = multi_lesion_phantom(np.random.default_rng(0))
        >>> image.shape, 3 <= ndimage.label(mask, np.ones((3, 3, 3)))[1] <= 12
        ((64, 64, 12), True)
    """
    inside = np.zeros(SHAPE, dtype=bool)
    box, body = _ellipsoid(np.zeros(3), np.array([generator.uniform(*ends) for ends in _BODY_RADII]))
    inside[box] = body
    texture = smooth_noise(generator, SHAPE, np.divide(generator.uniform(*_TEXTURE_SCALE), SPACING))
    image = _BODY_BRIGHTNESS * _blurred(inside, 1.5) + _TEXTURE_STRENGTH * texture * inside
    mask = np.zeros(SHAPE, dtype=bool)
    wanted = generator.integers(_NUM_LESIONS[0], _NUM_LESIONS[1], endpoint=True)
    for _ in range(wanted):
        if (lesion := _place_lesion(generator, inside, mask)) is None:
            break
        mask |= lesion
        image += generator.uniform(*_CONTRAST) * _blurred(lesion, generator.uniform(*_EDGE_BLUR))
    image += _VOXEL_NOISE * generator.standard_normal(SHAPE)
    return image.astype(np.float32), mask


def _ellipsoid(centre: Floats, radii: Floats) -> tuple[tuple[slice, ...], Booleans]:
    """Return the box of voxels around an ellipsoid and which of them it holds; millimetres from the volume's centre."""
    box, squares = [], np.zeros((1, 1, 1))
    for axis, (length, spacing) in enumerate(zip(SHAPE, SPACING, strict=True)):
        places = (np.arange(length) - (length - 1) / 2) * spacing
        first, last = np.searchsorted(places, [centre[axis] - radii[axis], centre[axis] + radii[axis]])
        box.append(slice(int(first), int(last)))
        square = ((places[first:last] - centre[axis]) / radii[axis]) ** 2
        squares = squares + np.expand_dims(square, [other for other in range(3) if other != axis])
    return tuple(box), np.asarray(squares <= 1)


def _place_lesion(generator: np.random.Generator, inside: Booleans, taken: Booleans) -> Booleans | None:
    """Draw lesions until one lies inside the body and apart from the others; None if that takes too many tries."""
    free = inside & ~ndimage.binary_dilation(taken, structure=np.ones((3, 3, 3), dtype=bool))
    half_extent = np.array(SHAPE) * SPACING / 2
    for _ in range(_TRIES):
        radius = np.exp(generator.uniform(*np.log(_RADIUS)))
        centre = generator.uniform(-half_extent, half_extent)
        box, pixels = _ellipsoid(centre, radius * generator.uniform(*_STRETCH, size=3))
        if pixels.sum() >= _SMALLEST_LESION and free[box][pixels].all():
            lesion = np.zeros(SHAPE, dtype=bool)
            lesion[box] = pixels
            return lesion
    return None


def _blurred(mask: Booleans, millimetres: float) -> Floats:
    return np.asarray(ndimage.gaussian_filter(mask.astype(np.float64), np.divide(millimetres, SPACING), mode="nearest"))
