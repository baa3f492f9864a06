"""What curves and shifts share: a mask with what surrounds it, its distances and normals, and an image's channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import ndimage

from ....transforms.array_types import AnyFloats, Array, Booleans, Floats
from ....transforms.surfaces import bounding_box, checked_spacing, grown_box

# Axes with a spacing of so many units are coarse.
_COARSE = 1.5
_IMAGE_SMOOTHING, _DISTANCE_SMOOTHING = 0.7, 1.0
_MIN_PIXELS = 12


@dataclass(frozen=True)
class ContourSurroundings:
    """The contours of one class of an annotation and what surrounds them; it stays at the site.

    Attributes:
        box: the object with what surrounds it, in the image.
        steps: size of a pixel along each axis in units of the finest spacing.
        inside: the mask, as the box; neither empty nor full.
        other: pixels of other classes and ignored ones, as the box; None where there are none.
    """

    box: tuple[slice, ...]
    steps: Floats
    inside: Booleans
    other: Booleans | None

    @classmethod
    def of(
        cls, image: AnyFloats, mask: Booleans, other: Booleans | None, spacing: Sequence[float] | None, *, reach: float
    ) -> ContourSurroundings | None:
        """Return what surrounds the contours of a mask; None where the object or its surroundings are too small.

        Args:
            image: ``(C, H, W[, D])``.
            mask: one class of the annotation, ``(H, W[, D])``.
            other: pixels of other classes and ignored ones, as the mask.
            spacing: size of a pixel along each axis in millimetres; None for pixels.
            reach: how far around the object, in units.

        Raises:
            ValueError: when the shapes do not fit.
        """
        lengths = np.asarray(checked_spacing(mask.shape, spacing))
        if image.shape[1:] != mask.shape:
            raise ValueError(f"Expected an image (C, *{mask.shape}) of the mask's size, but got {image.shape=}.")
        if min(np.count_nonzero(mask), np.count_nonzero(~mask)) < _MIN_PIXELS:
            return None
        steps = lengths / lengths.min()
        margins = np.ceil(reach / steps).astype(int)
        box = grown_box(bounding_box(mask), margins.tolist(), mask.shape)
        inside = mask[box]
        if inside.all():
            return None
        return cls(box, steps, inside, other[box] if other is not None and other[box].any() else None)

    @cached_property
    def distance(self) -> Floats:
        """See :func:`signed_distance`."""
        return signed_distance(self.inside, self.steps)

    @cached_property
    def normals(self) -> Floats:
        """The unit gradient of the distance, which is smoothed by a unit, ``(d, *box)``."""
        return unit_normals(self.distance, self.steps)

    def is_clear_of_other(self, distance: Floats | float) -> Booleans | np.bool_:
        """Whether no other pixel is within a distance and half a unit, ``(*box)``."""
        return self._room > np.abs(distance) + 0.5

    @cached_property
    def _room(self) -> Floats | float:
        """How far each pixel is from other pixels."""
        if self.other is None:
            return np.inf
        return np.asarray(ndimage.distance_transform_edt(~self.other, sampling=self.steps), dtype=np.float64)


def signed_distance(inside: Booleans, steps: Floats) -> Floats:
    """Return the distance of each pixel to the contour of a mask, negative inside; half a unit on both sides of it.

    Args:
        inside: the mask, neither empty nor full.
        steps: size of a pixel along each axis in units.
    """
    outward = ndimage.distance_transform_edt(~inside, sampling=steps)
    inward = ndimage.distance_transform_edt(inside, sampling=steps)
    return np.asarray(outward - inward + np.where(inside, 0.5, -0.5), dtype=np.float64)


def unit_normals(distance: Floats, steps: Floats) -> Floats:
    """Return the unit gradient of a signed distance, smoothed by a unit, ``(d, *box)``; it points outward."""
    smooth = ndimage.gaussian_filter(distance, _DISTANCE_SMOOTHING / steps)
    normals = np.array([np.gradient(smooth, axis=axis) / step for axis, step in enumerate(steps)])
    normals /= np.sqrt((normals**2).sum(axis=0)) + 1e-9
    return normals


def smoothing_along(steps: Floats) -> list[float]:
    """Return by how much images are smoothed along each axis before their change is measured, in pixels."""
    fine = fine_axes(steps)
    return [_IMAGE_SMOOTHING if axis in fine else 0.0 for axis in range(len(steps))]


def fine_axes(steps: Floats) -> list[int]:
    """Return the axes along which the image's gradient is taken: those that are not coarse."""
    axes: list[int] = np.flatnonzero(steps < _COARSE).tolist()
    return axes


def channel_slopes(
    image: AnyFloats, box: tuple[slice, ...] | None, steps: Floats, dtype: type[np.floating]
) -> Iterator[dict[int, Array]]:
    """Yield each channel's derivatives along the fine axes: divided by its deviation in the image, and smoothed.

    Args:
        image: ``(C, H, W[, D])``.
        box: the part of it that counts; None for all.
        steps: size of a pixel along each axis in units.
        dtype: of the numbers.

    Raises:
        ValueError: when a channel is not finite.
    """
    fine = fine_axes(steps)
    smoothing = smoothing_along(steps)
    for channel in image:
        scale = float(channel.std()) + 1e-6
        if not np.isfinite(scale):
            raise ValueError("Expected an image of finite values, but found NaN or infinite ones.")
        part = channel if box is None else channel[box]
        smooth = ndimage.gaussian_filter(part.astype(dtype) / scale, smoothing)
        yield {axis: np.gradient(smooth, axis=axis) for axis in fine}
