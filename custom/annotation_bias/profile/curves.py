"""How strongly images change across annotated contours, moved inward and outward: the curve of a case and of a site."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from ....transforms.array_types import AnyFloats, Booleans, Floats
from ....transforms.surfaces import bounding_box, checked_spacing, grown_box

REACH = 12.0
STEP = 0.25
LEVELS = np.arange(-REACH, REACH + STEP / 2, STEP)
# A case's curve is cut to this, so that one case moves a site's by a known bound. Real ones stay below 5.1.
LARGEST_CHANGE = 6.0

_COARSE = 1.5
_IMAGE_SMOOTHING, _DISTANCE_SMOOTHING = 0.7, 1.0
_MARGIN = 4
_MIN_PIXELS = 12
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
    lengths = np.asarray(checked_spacing(mask.shape, spacing))
    if image.shape[1:] != mask.shape:
        raise ValueError(f"Expected an image (C, *{mask.shape}) of the mask's size, but got {image.shape=}.")
    if min(np.count_nonzero(mask), np.count_nonzero(~mask)) < _MIN_PIXELS:
        return None
    unit = float(lengths.min())
    box = _box(mask, lengths / unit)
    inside = mask[box]
    if inside.all():
        return None
    distance = signed_distance(inside, lengths / unit)
    counts = np.abs(distance) <= REACH
    if other is not None and other[box].any():
        from_others = ndimage.distance_transform_edt(~other[box], sampling=lengths / unit)
        counts &= from_others > np.abs(distance) + 0.5
    energy, weight = _energy(image, box, distance, lengths / unit)
    return _on_levels(distance[counts], energy[counts], weight[counts])


def site_curve(curves: Sequence[Floats] | Floats) -> Floats:
    """Return the mean of case curves ``(N, 97)``, each with the same weight, ``(97,)``; NaN where none has a value.

    It leaves the site with the number of patients.
    """
    table = np.asarray(curves, dtype=np.float64).reshape(-1, len(LEVELS))
    known = np.isfinite(table)
    counts = known.sum(axis=0)
    return np.where(counts > 0, np.where(known, table, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)


def signed_distance(inside: Booleans, steps: Floats) -> Floats:
    """Return the distance of each pixel to the contour of a mask, negative inside; half a unit on both sides of it.

    Args:
        inside: the mask, neither empty nor full.
        steps: size of a pixel along each axis in units.
    """
    outward = ndimage.distance_transform_edt(~inside, sampling=steps)
    inward = ndimage.distance_transform_edt(inside, sampling=steps)
    return np.asarray(outward - inward + np.where(inside, 0.5, -0.5), dtype=np.float64)


def _box(mask: Booleans, steps: Floats) -> tuple[slice, ...]:
    """The object with what surrounds it as far as levels reach."""
    margins = np.ceil((REACH + _MARGIN) / steps).astype(int)
    return grown_box(bounding_box(mask), margins.tolist(), mask.shape)


def _energy(image: AnyFloats, box: tuple[slice, ...], distance: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """Σ_channels (n · ∇I)² and its weight, both as the box; channels divided by their deviation in the image."""
    fine = steps < _COARSE
    smooth = ndimage.gaussian_filter(distance, _DISTANCE_SMOOTHING / steps)
    normals = np.array([np.gradient(smooth, axis=axis) / step for axis, step in enumerate(steps)])
    normals /= np.sqrt((normals**2).sum(axis=0)) + 1e-9
    energy = np.zeros(distance.shape)
    for channel in image:
        scale = float(channel.std()) + 1e-6
        if not np.isfinite(scale):
            raise ValueError("Expected an image of finite values, but found NaN or infinite ones.")
        scaled = channel[box].astype(np.float32) / scale
        scaled = ndimage.gaussian_filter(scaled, [_IMAGE_SMOOTHING if is_fine else 0.0 for is_fine in fine])
        energy += sum(np.gradient(scaled, axis=axis) * normals[axis] for axis in np.flatnonzero(fine)) ** 2
    if fine.all():
        return energy, np.ones(distance.shape)
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
