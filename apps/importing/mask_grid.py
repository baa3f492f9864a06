"""Masks that cover a part of their image, or have another grid, on the voxels of the image."""

from pathlib import Path

import numpy as np

from ...transforms.array_types import Array, Booleans, Floats, Indices, Labels
from ...transforms.errors import DataError
from ...transforms.loading.volume_files import Volume
from ...transforms.loading.volume_geometry import axis_order, millimetres

# Fraction of a voxel by which the places of two voxels may differ.
_TOLERANCE = 0.1
# Voxels of the image that one of a mask may span.
_LARGEST_STEP = 2.0
# Digits of a voxel that count where a place lies in the middle between two voxels.
_DIGITS = 6


def is_on_grid(shape: tuple[int, ...], affine: Floats, image: Volume) -> bool:
    """Return whether the voxels of a mask ``(I, J, K)`` with this affine lie on those of an image or their like."""
    to_image = np.linalg.inv(image.affine) @ affine
    axes = _axes(to_image[:3, :3], shape)
    extents = np.array(shape) - 1
    off = np.abs(to_image[:3, :3] - axes) @ extents + np.abs(to_image[:3, 3] - np.rint(to_image[:3, 3]))
    return bool(off.max() <= _TOLERANCE)


def on_grid(file: Path, values: Array, affine: Floats, image: Volume) -> Array:
    """Return a mask on the voxels of its image, 0 where it does not reach.

    Args:
        file: the mask's file, to name in an error.
        values: label values ``(I, J, K)``, whose voxels are on the grid of the image, see :func:`is_on_grid`.
        affine: of the mask, ``(4, 4)`` to millimetres, axes to the right, front and top.
        image: its image.

    Returns:
        Label values with the shape of the image.

    Raises:
        DataError: if something is annotated outside of the image.
    """
    to_image = np.linalg.inv(image.affine) @ affine
    axes = _axes(to_image[:3, :3], values.shape)
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


def has_size_of(mask: Volume, image: Volume) -> bool:
    """Return whether a mask has as many voxels as its image along each axis, once its axes run as the image's do."""
    order = axis_order(mask.affine, image.affine)
    shape = [0, 0, 0]
    for length, (axis, _) in zip(mask.voxels.shape, order, strict=True):
        shape[int(axis)] = length
    return tuple(shape) == image.voxels.shape


def resampled(file: Path, mask: Volume, image: Volume) -> tuple[Labels, float]:
    """Return a mask of another grid on the voxels of its image: each gets the label of the nearest voxel of the mask.

    Where the mask does not reach, the image is background.

    Args:
        file: the mask's file, to name in an error.
        mask: the mask.
        image: its image.

    Returns:
        Label values with the shape of the image; and how far, in millimetres, a label came from at most.

    Raises:
        DataError: if mask and image lie apart; the mask is much coarser, or annotated outside of the image or up to an
            end that lies inside of it; or a label has no voxel left.
    """
    to_mask = np.linalg.inv(mask.affine) @ image.affine
    _check_steps(file, mask, image)
    _check_places(file, mask, image, to_mask)
    _check_outside(file, mask, image)
    result = np.zeros(image.voxels.shape, dtype=mask.voxels.dtype)
    farthest = 0.0
    rows, columns = np.indices(image.voxels.shape[1:]).reshape(2, -1)
    for index, plane in enumerate(result):
        places = np.column_stack([np.full(len(rows), index), rows, columns]) @ to_mask[:3, :3].T + to_mask[:3, 3]
        nearest, inside = _nearest(places, mask.voxels.shape)
        labels = np.where(inside, mask.voxels[tuple(nearest.T)], 0)
        plane[...] = labels.reshape(plane.shape)
        if labels.any():
            moved = (nearest - places)[labels != 0] @ mask.affine[:3, :3].T
            farthest = max(farthest, float(np.linalg.norm(moved, axis=1).max()))
    if lost := sorted(set(np.unique(mask.voxels).tolist()) - set(np.unique(result).tolist()) - {0}):
        raise DataError(
            f"{file}: found the label values {', '.join(map(str, lost))} between the voxels of the image alone; "
            "expected some of each in its voxels. Export the mask on the grid of its image."
        )
    return result, farthest


def _nearest(places: Floats, shape: tuple[int, ...]) -> tuple[Indices, Booleans]:
    """The voxels ``(N, 3)`` of a mask nearest to places in its voxels, and whether they lie in it at all."""
    rounded = np.round(places, _DIGITS)
    inside = np.asarray(((rounded >= -0.5) & (rounded <= np.array(shape) - 0.5)).all(axis=1))
    return np.clip(np.floor(rounded + 0.5).astype(np.int64), 0, np.array(shape) - 1), inside


def _check_steps(file: Path, mask: Volume, image: Volume) -> None:
    """Check that a voxel of the mask spans few voxels of the image: contours would be stairs."""
    steps = np.abs(np.linalg.inv(image.affine)[:3, :3] @ mask.affine[:3, :3])
    if steps.max() > _LARGEST_STEP + _TOLERANCE:
        raise DataError(
            f"{file}: found a mask whose voxels span up to {steps.max():.3g} voxels of its image "
            f"({millimetres(mask.spacing)}, the image's {millimetres(image.spacing)}); expected at most "
            f"{_LARGEST_STEP:g}. Export the mask on the grid of its image."
        )


def _check_places(file: Path, mask: Volume, image: Volume, to_mask: Floats) -> None:
    """Check that mask and image share a place, and that no annotation ends where the mask ends inside of the image."""
    corners = np.array(np.meshgrid(*[(0, length - 1) for length in image.voxels.shape])).reshape(3, -1)
    places = to_mask[:3, :3] @ corners + to_mask[:3, 3:]
    low, high, shape = places.min(axis=1), places.max(axis=1), np.array(mask.voxels.shape)
    if (high < -0.5).any() or (low > shape - 0.5).any():
        raise DataError(
            f"{file}: found a mask at another place than its image; expected both at the same place. Export the mask "
            "again from its image."
        )
    for axis in range(3):
        for end, is_open in ((0, low[axis] < -0.5 - _TOLERANCE), (-1, high[axis] > shape[axis] - 0.5 + _TOLERANCE)):
            if is_open and mask.voxels.take(end, axis=axis).any():
                raise DataError(
                    f"{file}: found a mask that ends inside of its image, annotated up to its end; expected background "
                    "there, or a mask as large as the image: the rest may be cut off. Export the mask again from its "
                    "image."
                )


def _check_outside(file: Path, mask: Volume, image: Volume) -> None:
    """Check that no annotated voxel lies outside of the image as a whole."""
    to_image = np.linalg.inv(image.affine) @ mask.affine
    margin = 0.5 + 0.5 * np.abs(to_image[:3, :3]).sum(axis=1)
    outside = total = 0
    for index, plane in enumerate(mask.voxels):
        annotated = np.argwhere(plane)
        places = np.column_stack([np.full(len(annotated), index), annotated]) @ to_image[:3, :3].T + to_image[:3, 3]
        off = (places <= -margin) | (places >= np.array(image.voxels.shape) - 1 + margin)
        outside, total = outside + int(np.count_nonzero(off.any(axis=1))), total + len(annotated)
    if outside:
        raise DataError(
            f"{file}: found {outside} of {total} annotated voxels outside of its image; expected a mask of this image."
        )
