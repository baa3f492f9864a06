"""Lesions of a mask: its connected components."""

import numpy as np
from scipy import ndimage

from .array_types import Array, Components, Floats


def label_lesions(mask: Array) -> tuple[Components, int]:
    """Number the lesions of a mask; voxels that touch by a corner are of one lesion.

    Components are 26-connected in volumes and 8-connected in pictures.

    Args:
        mask: ``(H, W)`` or ``(H, W, D)``; whatever is not 0 is lesion.

    Returns:
        An array of the mask's shape, 0 outside and 1..c in the lesions in the order of their first voxel, and c.

    Raises:
        ValueError: if the mask has another number of axes.
    """
    if mask.ndim not in (2, 3):
        raise ValueError(f"Expected a mask of shape (H, W) or (H, W, D), found {mask.shape}.")
    labelled, count = ndimage.label(mask != 0, structure=np.ones((3,) * mask.ndim, dtype=bool))
    return labelled.astype(np.int32, copy=False), int(count)


def largest_in_lesions(values: Array, labelled: Components, count: int) -> Floats:
    """Return the largest value in each of the lesions, ``(c,)`` in the order of their numbers.

    Args:
        values: a number for each voxel, ``(H, W)`` or ``(H, W, D)``.
        labelled: the numbered lesions, see :func:`label_lesions`.
        count: how many they are, c.
    """
    return np.asarray(ndimage.maximum(values, labelled, np.arange(1, count + 1)), dtype=np.float64)
