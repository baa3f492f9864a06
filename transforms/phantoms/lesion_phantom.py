"""A phantom of a 2D lesion: a blurred star-shaped blob in front of a texture, with the mask it was made from."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ..array_types import AnyFloats, Booleans, Classes, Floats, SingleFloats
from .smooth_noise import smooth_noise

SIDE = 256

# Intensities from the lower to the upper end of this window become 0 to 255 in an 8-bit file; the texture's and the
# noise's standard deviation together are 0.57, so that hardly a pixel is cut off.
INTENSITY_WINDOW = (-2.0, 3.5)

_RADIUS = (45.0, 75.0)
_EDGE_BLUR = (6.0, 12.0)
_CONTRAST = (0.9, 1.6)
_TEXTURE_STRENGTH = 0.45
_TEXTURE_SCALE = (8.0, 16.0)
_PIXEL_NOISE = 0.35
_HARMONICS = (2, 3, 4, 5)
_LARGEST_AMPLITUDE = 0.3
_MARGIN = 4.0


def lesion_phantom(generator: np.random.Generator) -> tuple[SingleFloats, Booleans]:
    """Draw one image with one lesion, and the lesion's mask.

    The lesion is r(θ) = R (1 + Σ_k a_k cos(kθ + φ_k)), k = 2..5, around a random place at which it lies in the frame as
    a whole; R is 45 to 75 px. Its edge is blurred with σ of 6 to 12 px and its contrast is 0.9 to 1.6 over a smooth
    Gaussian texture of standard deviation 0.45 and white noise of 0.35.

    Args:
        generator: gives everything random; generators in the same state give the same bits.

    Returns:
        Image, float32 ``(256, 256)``, and mask, boolean of the same shape.

    Example:
        >>> image, mask = lesion_phantom(np.random.default_rng(0))
        >>> image.shape, mask.shape, bool(image[mask].mean() > image[~mask].mean())
        ((256, 256), (256, 256), True)
    """
    mask = _star(generator)
    contrast = generator.uniform(*_CONTRAST)
    lesion = ndimage.gaussian_filter(mask.astype(np.float64), generator.uniform(*_EDGE_BLUR), mode="nearest")
    noise = _PIXEL_NOISE * generator.standard_normal((SIDE, SIDE))
    texture = smooth_noise(generator, (SIDE, SIDE), generator.uniform(*_TEXTURE_SCALE))
    image = contrast * lesion + _TEXTURE_STRENGTH * texture + noise
    return image.astype(np.float32), mask


def reduce_image(image: AnyFloats, factor: int) -> SingleFloats:
    """Average an image ``(H, W)`` over blocks of ``factor`` × ``factor`` pixels.

    Raises:
        ValueError: if a side is no multiple of the factor.
    """
    return _block_means(image, factor).astype(np.float32)


def reduce_mask(mask: Booleans | NDArray[np.integer], factor: int) -> Booleans:
    """Reduce a mask ``(H, W)``; a block of ``factor`` × ``factor`` pixels is lesion if at least half of it is.

    Raises:
        ValueError: if a side is no multiple of the factor.
    """
    return _block_means(np.asarray(mask) != 0, factor) >= 0.5


def to_grey_levels(image: AnyFloats) -> Classes:
    """Map a phantom's intensities to 0..255 linearly over :data:`INTENSITY_WINDOW`, cutting off what lies outside."""
    low, high = INTENSITY_WINDOW
    levels = np.rint((np.asarray(image, dtype=np.float64) - low) * (255 / (high - low)))
    return np.clip(levels, 0, 255).astype(np.uint8)


def _star(generator: np.random.Generator) -> Booleans:
    """The mask of a star-shaped lesion inside the frame, ``(256, 256)``."""
    radius = generator.uniform(*_RADIUS)
    harmonics = np.array(_HARMONICS)
    amplitudes = generator.uniform(0, _LARGEST_AMPLITUDE, len(harmonics)) / harmonics
    phases = generator.uniform(0, 2 * math.pi, len(harmonics))

    def outline(angle: Floats) -> Floats:
        waves = np.cos(harmonics * angle[..., None] + phases)
        return np.asarray(radius * (1 + waves @ amplitudes))

    angles = np.linspace(0, 2 * math.pi, 720, endpoint=False)
    reach = outline(angles)
    centre = [
        generator.uniform(_MARGIN - (reach * axis).min(), SIDE - 1 - _MARGIN - (reach * axis).max())
        for axis in (np.sin(angles), np.cos(angles))
    ]
    rows, columns = np.mgrid[:SIDE, :SIDE] - np.reshape(centre, (2, 1, 1))
    return np.asarray(np.hypot(rows, columns) <= outline(np.arctan2(rows, columns)))


def _block_means(array: AnyFloats | Booleans, factor: int) -> Floats:
    height, width = array.shape
    if factor < 1 or height % factor or width % factor:
        raise ValueError(f"Expected sides that are multiples of factor={factor}, but got the shape {array.shape}.")
    blocks = array.reshape(height // factor, factor, width // factor, factor)
    return np.asarray(blocks.mean(axis=(1, 3), dtype=np.float64))
