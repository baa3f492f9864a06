"""Masks that cover a part of their image, as segmentations are stored, on the voxels of the image."""

from pathlib import Path

import numpy as np

from ...transforms.array_types import Array, Floats
from ...transforms.errors import DataError
from ...transforms.loading.volume_files import Volume

# Fraction of a voxel by which the places of two voxels may differ.
_TOLERANCE = 0.1


def on_grid(file: Path, values: Array, affine: Floats, image: Volume) -> Array:
    """Return a mask on the voxels of its image, 0 where it does not reach.

    Args:
        file: the mask's file, to name in an error.
        values: label values ``(I, J, K)``.
        affine: of the mask, ``(4, 4)`` to millimetres, axes to the right, front and top.
        image: its image.

    Returns:
        Label values with the shape of the image.

    Raises:
        DataError: if the voxels do not lie on those of the image, or something is annotated outside of it.
    """
    to_image = np.linalg.inv(image.affine) @ affine
    axes = _axes(to_image[:3, :3], values.shape)
    extents = np.array(values.shape) - 1
    off = np.abs(to_image[:3, :3] - axes) @ extents + np.abs(to_image[:3, 3] - np.rint(to_image[:3, 3]))
    if off.max() > _TOLERANCE:
        raise DataError(
            f"{file}: found a mask whose voxels lie up to {off.max():.2g} voxels off those of its image; expected the "
            "same voxels, or a part of them. Resample the mask to its image, or export it again."
        )
    annotated = np.argwhere(values)
    places = annotated @ axes.T.astype(np.int64) + np.rint(to_image[:3, 3]).astype(np.int64)
    outside = ((places < 0) | (places >= image.voxels.shape)).any(axis=1)
    if outside.any():
        raise DataError(
            f"{file}: found {np.count_nonzero(outside)} of {len(places)} annotated voxels outside of its image; "
            "expected a mask of this image."
        )
    result = np.zeros(image.voxels.shape, dtype=values.dtype)
    result[tuple(places.T)] = values[tuple(annotated.T)]
    return result


def _axes(directions: Floats, shape: tuple[int, ...]) -> Floats:
    """The axis of the image ``(3, 3)`` that each axis of a mask follows, with its sign."""
    axes = np.rint(directions)
    for axis in (axis for axis, length in enumerate(shape) if length == 1):
        # The step of an axis with one voxel says nothing.
        axes[:, axis] = 0
    return axes
