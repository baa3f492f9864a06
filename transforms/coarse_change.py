"""Changes that were made on a coarse grid, completed in the finer mask that they belong to."""

import numpy as np
from scipy import ndimage

from .array_types import Array, Classes
from .connected_lesions import label_lesions
from .ignored_label import IGNORED_LABEL


def completed_change(given: Classes, seen: Array, changed: Array, place: Array) -> Classes:
    """Return a mask with a coarse change in it, and without what would remain of an object along its old contour.

    A contour runs through coarse pixels, so parts of an object lie where the coarse mask shows none of it. Such a part
    changes as its object does there, if nothing that the coarse mask shows of the object touches it any more.

    Args:
        given: ``(H, W)`` or ``(H, W, D)``, as it is in the file.
        seen: the coarse mask before the change, on the same pixels.
        changed: the same after the change.
        place: where the coarse mask changes.
    """
    result = np.where(place, changed, given).astype(np.uint8)
    remains = np.zeros(given.shape, dtype=bool)
    for label in np.setdiff1d(np.unique(given[place]), [0, IGNORED_LABEL]):
        before, count = label_lesions(given == label)
        is_changed = np.zeros(count + 1, dtype=bool)
        is_changed[np.unique(before[place])] = True
        parts, number = label_lesions((result == label) & (before > 0) & is_changed[before] & ~place)
        is_seen = np.zeros(number + 1, dtype=bool)
        is_seen[np.unique(parts[seen == label])] = True
        # A part that has become one with what is suggested beside it stays.
        is_seen[np.unique(parts[ndimage.binary_dilation(place & (result == label))])] = True
        remains |= (parts > 0) & ~is_seen[parts]
    if remains.any():
        nearest = ndimage.distance_transform_edt(~place, return_distances=False, return_indices=True)
        result[remains] = result[tuple(axis[remains] for axis in nearest)]
    return result
