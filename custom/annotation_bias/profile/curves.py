"""How strongly images change across annotated contours, moved inward and outward: the curve of a case and of a site."""

from collections.abc import Sequence

import numpy as np

from ....transforms.array_types import AnyFloats, Booleans, Floats
from .contours import ContourSurroundings, channel_slopes, fine_axes

REACH = 12.0
STEP = 0.25
LEVELS = np.arange(-REACH, REACH + STEP / 2, STEP)
# A case's curve is cut to this, so that one case moves a site's by a known bound. Real ones stay below 5.1.
LARGEST_CHANGE = 6.0

_MARGIN = 4
_MIN_WEIGHT = 6.0
_MIN_LEVELS = 10
_MIN_FINE_PART = 0.25
_KERNEL = np.clip(1 - np.abs(np.arange(-2, 3)) * STEP / 0.75, 0.0, None)


def case_curve(
    image: AnyFloats, mask: Booleans, *, other: Booleans | None = None, spacing: Sequence[float] | None = None
) -> Floats | None:
    """Return E(d) = √(mean of Σ_channels (n · ∇I)² where the signed distance to the contour is d), divided by its mean.

    Lengths are in units of the finest spacing. Axes with a spacing of 1.5 units and more are coarse: the image's
    gradient is taken along the fine axes alone, and n loses its coarse part. It is the square of the change, not the
    change: contrast that changes sign along a contour, or between images, must not cancel. It stays at the site.

    Args:
        image: ``(C, H, W[, D])``.
        mask: one class of the annotation, ``(H, W[, D])``.
        other: pixels of other classes and ignored ones, as the mask; nothing nearer to them than to the contour counts.
        spacing: size of a pixel along each axis in millimetres; None for pixels.

    Returns:
        E at :data:`LEVELS` ``(97,)``, positive levels outside, NaN where too little of the image is; None where the
        object or what surrounds it is too small.

    Raises:
        ValueError: when the image is not finite, or the shapes do not fit.
    """
    around = ContourSurroundings.of(image, mask, other, spacing, reach=REACH + _MARGIN)
    if around is None:
        return None
    counts = (np.abs(around.distance) <= REACH) & around.is_clear_of_other(around.distance)
    energy, weight = _energy(image, around)
    return _on_levels(around.distance[counts], energy[counts], weight[counts])


def site_curve(curves: Sequence[Floats] | Floats) -> Floats:
    """Return the mean of case curves ``(N, 97)``, each with the same weight, ``(97,)``; NaN where none has a value.

    It leaves the site with the number of patients.
    """
    table = np.asarray(curves, dtype=np.float64).reshape(-1, len(LEVELS))
    known = np.isfinite(table)
    counts = known.sum(axis=0)
    return np.where(counts > 0, np.where(known, table, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)


def _energy(image: AnyFloats, around: ContourSurroundings) -> tuple[Floats, Floats]:
    """Σ_channels (n · ∇I)² along the fine axes, and its weight, both as the box."""
    fine, normals = fine_axes(around.steps), around.normals
    energy = np.zeros(around.distance.shape)
    for slopes in channel_slopes(image, around.box, around.steps, np.float32):
        energy += sum(slope * normals[axis] for axis, slope in slopes.items()) ** 2
    if len(fine) == len(around.steps):
        return energy, np.ones(energy.shape)
    weight = (normals[fine] ** 2).sum(axis=0)
    return energy / np.maximum(weight, 1e-3), np.where(weight > _MIN_FINE_PART, weight, 0.0)


def _on_levels(distance: Floats, energy: Floats, weight: Floats) -> Floats | None:
    """The root of the weighted mean energy around each level, divided by the curve's mean."""
    places = (distance + REACH) / STEP
    lower = np.floor(places).astype(np.intp)
    upper_part = places - lower

    def around(values: Floats) -> Floats:
        size = len(LEVELS) + 2
        binned = np.bincount(lower, (1 - upper_part) * values, size)
        binned += np.bincount(lower + 1, upper_part * values, size)
        return np.convolve(binned, _KERNEL, "same")[: len(LEVELS)]

    total, weighted = around(weight), around(weight * energy)
    known = total > _MIN_WEIGHT
    if np.count_nonzero(known) < _MIN_LEVELS:
        return None
    curve = np.where(known, np.sqrt(np.maximum(weighted, 0.0) / np.maximum(total, 1e-9)), np.nan)
    mean = float(curve[known].mean())
    return np.minimum(curve / mean, LARGEST_CHANGE) if mean > 0 else None
