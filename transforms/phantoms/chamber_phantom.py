"""A phantom of a heart chamber with veins, as different centres would image it, with the mask it was made from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from ..array_types import Booleans, Floats, SingleFloats
from .smooth_noise import smooth_noise

SHAPE = (64, 64, 12)
SPACING = (1.5, 1.5, 4.0)  # millimetres: thick slices

# Millimetres.
_RADII = ((17.0, 23.0), (14.0, 19.0), (13.0, 18.0))
_MAX_SHIFT = (6.0, 6.0, 3.0)
_VEIN_RADIUS = (2.8, 4.6)
_VEIN_LENGTH = (11.0, 19.0)
# Where veins leave the chamber: two close to each other on each side, in degrees from the row axis.
_VEIN_ANGLES = (22.0, -22.0, 158.0, -158.0)
_VEIN_TURN = 8.0
_VEIN_TILT = 5.0
_NEIGHBOUR_RADII = ((12.0, 18.0), (10.0, 15.0), (12.0, 18.0))
_WALL = (2.5, 5.0)
_BODY_RADII = ((40.0, 46.0), (40.0, 46.0), (60.0, 70.0))
_MUSCLE = 0.45
_TEXTURE_STRENGTH = 0.10
_TEXTURE_SCALE = 5.0

# A centre's scanner and protocol: from the lower to the upper end.
_BLOOD = (0.75, 1.1)
_LUNG = (0.05, 0.35)
_GAMMA = (0.6, 1.6)
_BLUR = (0.6, 2.2)
_NOISE = (0.15, 0.35)
_SHADING = (0.0, 0.3)


@dataclass(frozen=True)
class CentreStyle:
    """How a centre's images look.

    Args:
        blood: brightness of blood, over 0.45 of muscle.
        lung: brightness of what is outside the heart.
        gamma: exponent of the intensities.
        blur: standard deviation of the in-plane blur in millimetres.
        noise: standard deviation of the noise.
        shading: how much brighter one side of an image is than the other.
    """

    blood: float
    lung: float
    gamma: float
    blur: float
    noise: float
    shading: float


def draw_centre_style(generator: np.random.Generator) -> CentreStyle:
    """Draw how a centre's images look; generators in the same state give the same style.

    Example:
        >>> draw_centre_style(np.random.default_rng(3)) == draw_centre_style(np.random.default_rng(3))
        True
    """
    return CentreStyle(*(float(generator.uniform(*ends)) for ends in (_BLOOD, _LUNG, _GAMMA, _BLUR, _NOISE, _SHADING)))


def chamber_phantom(generator: np.random.Generator, style: CentreStyle) -> tuple[SingleFloats, Booleans]:
    """Draw one volume with one chamber and its four veins, and the mask of both.

    The chamber is an ellipsoid, its veins are tubes of 2.8 to 4.6 mm radius; a second chamber as bright as it, which is
    not annotated, lies next to it behind a wall of 2.5 to 5 mm. Shape and place do not depend on the style.

    Args:
        generator: gives everything random; generators in the same state give the same bits.
        style: how the image looks.

    Returns:
        Image, float32 ``(64, 64, 12)`` with voxels of 1.5 × 1.5 × 4 mm, and mask, boolean of the same shape.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> image, mask = chamber_phantom(generator, draw_centre_style(generator))
        >>> image.shape, bool(image[mask].mean() > image.mean())
        ((64, 64, 12), True)
    """
    places = _places()
    centre = np.array([generator.uniform(-shift, shift) for shift in _MAX_SHIFT])
    radii = np.array([generator.uniform(*ends) for ends in _RADII])
    chamber = _ellipsoid(places, centre, radii) <= 1
    mask = chamber.copy()
    for angle in _VEIN_ANGLES:
        mask |= _vein(generator, places, centre, radii, angle)
    neighbour = _neighbour(generator, places, centre, radii, mask)
    body = _ellipsoid(places, np.zeros(3), np.array([generator.uniform(*ends) for ends in _BODY_RADII])) <= 1
    texture = smooth_noise(generator, SHAPE, np.divide(_TEXTURE_SCALE, SPACING))
    direction = generator.uniform(0, 2 * math.pi)
    white = generator.standard_normal(SHAPE)

    brightness = np.where(body, _MUSCLE, style.lung)
    brightness[mask | neighbour] = style.blood
    brightness += _TEXTURE_STRENGTH * texture * body
    brightness = np.clip(brightness, 0, None) ** style.gamma
    side = (places[0] * math.cos(direction) + places[1] * math.sin(direction)) / (SHAPE[0] * SPACING[0])
    brightness = brightness * (1 + style.shading * side)
    in_plane = [style.blur / SPACING[0], style.blur / SPACING[1], 0]
    image = ndimage.gaussian_filter(brightness, in_plane, mode="nearest") + style.noise * white
    return image.astype(np.float32), mask


def _places() -> tuple[Floats, ...]:
    """Millimetres from the volume's middle along each axis, to be broadcast against each other."""
    axes = [(np.arange(length) - (length - 1) / 2) * spacing for length, spacing in zip(SHAPE, SPACING, strict=True)]
    return tuple(np.meshgrid(*axes, indexing="ij", sparse=True))


def _ellipsoid(places: tuple[Floats, ...], centre: Floats, radii: Floats) -> Floats:
    """Squared distance from the centre in radii, ``(64, 64, 12)``."""
    squares = np.zeros(SHAPE)
    for place, middle, radius in zip(places, centre, radii, strict=True):
        squares = squares + ((place - middle) / radius) ** 2
    return squares


def _vein(
    generator: np.random.Generator,
    places: tuple[Floats, ...],
    centre: Floats,
    radii: Floats,
    angle: float,
) -> Booleans:
    """A tube from inside the chamber outward, with a round end."""
    turn = math.radians(angle + generator.uniform(-_VEIN_TURN, _VEIN_TURN))
    tilt = math.radians(generator.uniform(-_VEIN_TILT, _VEIN_TILT))
    outward = np.array([math.cos(turn) * math.cos(tilt), math.sin(turn) * math.cos(tilt), math.sin(tilt)])
    reach = 1 / math.sqrt(float(((outward / radii) ** 2).sum())) + generator.uniform(*_VEIN_LENGTH)
    offsets = [place - middle for place, middle in zip(places, centre, strict=True)]
    along = np.clip(sum(offset * part for offset, part in zip(offsets, outward, strict=True)), 0, reach)
    squares = sum((offset - along * part) ** 2 for offset, part in zip(offsets, outward, strict=True))
    return np.asarray(squares <= generator.uniform(*_VEIN_RADIUS) ** 2)


def _neighbour(
    generator: np.random.Generator,
    places: tuple[Floats, ...],
    centre: Floats,
    radii: Floats,
    mask: Booleans,
) -> Booleans:
    """A second chamber above or below in the image, behind a wall; it gives way to the first one's veins."""
    own = np.array([generator.uniform(*ends) for ends in _NEIGHBOUR_RADII])
    wall = generator.uniform(*_WALL)
    side = generator.choice([-1.0, 1.0])
    middle = centre + np.array([0.0, side * (radii[1] + wall + own[1]), 0.0])
    near = ndimage.distance_transform_edt(~mask, sampling=SPACING) <= wall
    return np.asarray((_ellipsoid(places, middle, own) <= 1) & ~near)
