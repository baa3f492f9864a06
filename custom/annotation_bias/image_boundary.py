"""Where the images themselves have an edge, seen from the predicted contours: evidence of where the reference level
is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from ...transforms.array_types import Floats
from ...transforms.surfaces import Surface
from .bootstrap import median_interval
from .boundary_bias import contour_pairs
from .cases import PredictedCase
from .estimate import Estimate

# Edges are looked for this far from the predicted contour, in steps, in pixels.
_REACH, _STEP = 8.0, 0.25
_SMOOTHING = 1.0


@dataclass(frozen=True)
class EdgeProfile:
    """How an image changes across the predicted contours of a case, moved outward by each distance.

    Attributes:
        unit: the patient or volume.
        distances: by how far the contours are moved, ``(n,)``, positive outward.
        slopes: mean change of each channel on the way outward, ``(channels, n)``.
    """

    unit: str
    distances: Floats
    slopes: Floats


def edge_profile(case: PredictedCase, label: int) -> EdgeProfile | None:
    """Return how the image changes across the predicted contours of a class; it stays at the site.

    Args:
        case: with its image.
        label: the class.

    Returns:
        None where no annotated object matches a predicted one.

    Raises:
        ValueError: when the case has no image.
    """
    if case.image is None:
        raise ValueError(f"Expected the image of the case {case.unit!r} beside its annotation, but it has none.")
    spacing = np.asarray(case.spacing or (1.0,) * case.annotation.ndim)
    pixel = float(spacing.mean())
    surfaces = [pair.predicted for pair in contour_pairs(case, label) if len(pair.predicted.points)]
    if not surfaces:
        return None
    distances = np.arange(-_REACH, _REACH + _STEP / 2, _STEP) * pixel
    smooth = [ndimage.gaussian_filter(np.asarray(channel, dtype=np.float64), _SMOOTHING) for channel in case.image]
    slopes = np.array([_slopes(channel, surfaces, distances, pixel, spacing) for channel in smooth])
    return EdgeProfile(case.unit, distances, slopes)


def estimate_edges(cases: Sequence[PredictedCase], label: int, *, seed: int) -> Estimate:
    """Return how far outside of the predicted contours a site's images have their edge: the median over cases.

    An edge is where the image changes most on the way outward, in the direction (darker or lighter) in which the site's
    images change most. It need not be what annotators draw: the figure is evidence, and no zero by itself.

    Args:
        cases: of the site, with images.
        label: the class.
        seed: decides the interval.
    """
    profiles = [profile for case in cases if (profile := edge_profile(case, label)) is not None]
    if not profiles:
        return Estimate.unknown()
    mean = np.mean([profile.slopes for profile in profiles], axis=0)
    largest = np.abs(mean).argmax(axis=1)
    directions = np.sign(mean[np.arange(len(mean)), largest])
    edges = [float(profile.distances[(directions @ profile.slopes).argmax()]) for profile in profiles]
    units = [profile.unit for profile in profiles]
    return Estimate.of_interval(len(set(units)), median_interval(edges, units, seed=seed))


def _slopes(smooth: Floats, surfaces: Sequence[Surface], distances: Floats, pixel: float, spacing: Floats) -> Floats:
    """Mean change of a channel over a pixel on the way outward, on contours moved by each distance ``(n,)``."""
    points = np.concatenate([surface.points for surface in surfaces])
    normals = np.concatenate([surface.normals for surface in surfaces])
    areas = np.concatenate([surface.areas for surface in surfaces])
    # Half a pixel outward of one distance is half a pixel inward of another.
    aside = round(0.5 / _STEP)
    steps = np.arange(-aside, len(distances) + aside) * (_STEP * pixel) + distances[0]
    places = (points + steps[:, None, None] * normals) / spacing
    values = ndimage.map_coordinates(smooth, np.moveaxis(places, -1, 0), order=1, mode="nearest")
    return np.asarray(np.average(values[2 * aside :] - values[: -2 * aside], axis=1, weights=areas))
