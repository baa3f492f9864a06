"""A phantom of a blood cell in eight classes: four shapes of its nucleus, each with few or with many granules."""

import math

import numpy as np
from scipy import ndimage

from ..array_types import Booleans, Floats, SingleFloats
from .smooth_noise import smooth_noise

SIDE = 64

# A class is a shape of the nucleus and a grade of granulation; classes with the same shape are easily confused.
SHAPES = ("round", "oval", "lobed", "ring")
GRADES = ("smooth", "granular")
CLASSES = tuple(f"{shape}_{grade}" for shape in SHAPES for grade in GRADES)

_RADIUS = (22.0, 27.0)
_NUCLEUS_SHARE = (0.45, 0.6)
_EDGE_BLUR = (1.0, 2.0)
_CELL_CONTRAST = (0.5, 0.8)
_NUCLEUS_CONTRAST = (0.9, 1.3)
_GRANULE_CONTRAST = 1.0
# Mean number of granules; the counts overlap, as grades do that a person reads off a slide.
_GRANULES = {"smooth": 3.0, "granular": 18.0}
_GRANULE_RADIUS = 1.6
_TEXTURE_STRENGTH = 0.15
_TEXTURE_SCALE = (4.0, 8.0)
_PIXEL_NOISE = 0.15


def cell_phantom(label: int, generator: np.random.Generator) -> SingleFloats:
    """Draw one image of a cell.

    A disc of radius 22 to 27 px at a random place holds a nucleus of the class's shape in a random direction, and
    granules outside the nucleus: a Poisson number with mean 3 or 18. Edges are blurred with σ of 1 to 2 px; over it lie
    a smooth texture of standard deviation 0.15 and white noise of 0.15.

    Args:
        label: index in :data:`CLASSES`.
        generator: gives everything random; generators in the same state give the same bits.

    Returns:
        Image, float32 ``(64, 64)``.

    Raises:
        ValueError: if there is no such class.

    Example:
        >>> cell_phantom(0, np.random.default_rng(0)).shape
        (64, 64)
    """
    if not 0 <= label < len(CLASSES):
        raise ValueError(f"Expected a class from 0 to {len(CLASSES) - 1}, but got {label=}.")
    shape, grade = SHAPES[label // len(GRADES)], GRADES[label % len(GRADES)]
    radius = generator.uniform(*_RADIUS)
    centre = generator.uniform(radius + 1, SIDE - radius - 1, 2)
    rows, columns = np.mgrid[:SIDE, :SIDE] - centre[:, None, None]
    angle = generator.uniform(0, 2 * math.pi)
    along = np.cos(angle) * rows + np.sin(angle) * columns
    across = np.cos(angle) * columns - np.sin(angle) * rows
    cell = np.hypot(rows, columns) <= radius
    nucleus = _nucleus(shape, along, across, radius * generator.uniform(*_NUCLEUS_SHARE))
    granules = _granules(cell & ~nucleus, generator.poisson(_GRANULES[grade]), generator)
    picture = generator.uniform(*_CELL_CONTRAST) * cell + generator.uniform(*_NUCLEUS_CONTRAST) * nucleus
    image = ndimage.gaussian_filter(picture, generator.uniform(*_EDGE_BLUR)) + _GRANULE_CONTRAST * granules
    noise = _PIXEL_NOISE * generator.standard_normal((SIDE, SIDE))
    texture = smooth_noise(generator, (SIDE, SIDE), generator.uniform(*_TEXTURE_SCALE))
    return (image + _TEXTURE_STRENGTH * texture + noise).astype(np.float32)


def _nucleus(shape: str, along: Floats, across: Floats, size: float) -> Booleans:
    """The mask of a nucleus of about the area of a disc of radius ``size``."""
    if shape == "oval":
        return np.asarray(np.hypot(along / 1.4, across * 1.4) <= size)
    if shape == "lobed":
        lobes = [np.hypot(along - sign * 0.75 * size, across) <= 0.7 * size for sign in (-1, 1)]
        return np.asarray(lobes[0] | lobes[1])
    distance = np.hypot(along, across)
    if shape == "ring":
        return np.asarray((distance <= 1.15 * size) & (distance > 0.57 * size))
    return np.asarray(distance <= size)


def _granules(where: Booleans, count: int, generator: np.random.Generator) -> Floats:
    """Blurred spots of peak 1 at random pixels of a mask."""
    spots = np.zeros(where.shape)
    chosen = generator.integers(0, np.count_nonzero(where), count)
    spots[tuple(axis[chosen] for axis in np.nonzero(where))] = 1.0
    return ndimage.gaussian_filter(spots, _GRANULE_RADIUS) * 2 * math.pi * _GRANULE_RADIUS**2
