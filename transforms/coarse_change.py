"""Changes that were made on a coarse grid, completed in the finer mask that they belong to."""

from collections.abc import Sequence

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
    result: Classes = np.where(place, changed, given).astype(np.uint8)
    remains = np.zeros(given.shape, dtype=bool)
    boxes = ndimage.find_objects(place.astype(np.uint8))
    for label in np.setdiff1d(np.unique(given[place]), [0, IGNORED_LABEL]):
        objects, count = label_lesions(given == label)
        is_changed = np.bincount(objects[place], minlength=count + 1) > 0
        is_changed[0] = False
        # Of a large mask what changes is a small part, and beyond these objects there is nothing to look at.
        reached = [box for box, own in zip(ndimage.find_objects(objects), is_changed[1:], strict=True) if own]
        box = _around([*boxes[:1], *reached])
        remains[box] |= _remaining(
            (result[box] == label) & is_changed[objects[box]], seen[box] == label, result[box] == label, place[box]
        )
        boxes.append(box)
    if remains.any():
        box = _around(boxes)
        nearest = ndimage.distance_transform_edt(~place[box], return_distances=False, return_indices=True)
        near, result_there = remains[box], result[box]
        result_there[near] = result_there[tuple(axis[near] for axis in nearest)]
    return result


def _remaining(object_now: Array, is_seen: Array, is_label: Array, place: Array) -> Array:
    """Which parts of changed objects, next to the change, nothing of the coarse mask touches any more.

    Args:
        object_now: where the changed objects still have their class.
        is_seen: where the coarse mask shows the class before the change.
        is_label: where the mask has the class after it.
        place: where the coarse mask changes.
    """
    parts, number = label_lesions(object_now & ~place)
    stays = np.zeros(number + 1, dtype=bool)
    stays[0] = True
    stays[parts[is_seen]] = True
    # A part that has become one with what is suggested next to it stays.
    stays[parts[ndimage.binary_dilation(place & is_label)]] = True
    return ~stays[parts]


def _around(boxes: Sequence[tuple[slice, ...]]) -> tuple[slice, ...]:
    """The box around boxes of the same axes, of which there is at least one."""
    return tuple(
        slice(min(own.start for own in axis), max(own.stop for own in axis)) for axis in zip(*boxes, strict=True)
    )
