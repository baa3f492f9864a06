"""Annotated objects that get another class than their given one."""

from typing import NamedTuple

import numpy as np

from ...transforms.array_types import Booleans, Classes
from ...transforms.connected_lesions import label_lesions


class OtherClasses(NamedTuple):
    """The decision which objects get another class, pixel by pixel, 0 elsewhere; arrays of one shape.

    Attributes:
        given: the class that an object had when it was judged.
        becomes: the class that it gets.
    """

    given: Classes
    becomes: Classes


def relabelled_objects(classes: Classes, other: OtherClasses, seen: Booleans | None = None) -> tuple[Classes, int]:
    """Return an annotation with the objects of another class that were decided on, and how many they are.

    An object gets the class that was decided for at least half of what training sees of it. Whoever has corrected its
    class since is not overruled: what was decided for another class than the object has does not count.

    Args:
        classes: the annotation as it is now, ``(H, W[, D])``.
        other: what was decided, of its shape.
        seen: what training sees, likewise; all of it where it is not given.
    """
    relabelled, num_relabelled = classes.copy(), 0
    decided = np.where(other.given == classes, other.becomes, 0)
    width = int(decided.max(initial=0)) + 1
    counted = slice(None) if seen is None else seen.ravel()
    for value in set(np.unique(classes[decided != 0]).tolist()) - {0}:
        objects, count = label_lesions(classes == value)
        # Of every object the number of pixels by the class that they get, once over all of them.
        pairs = (objects.ravel().astype(np.intp) * width + decided.ravel())[counted]
        votes = np.bincount(pairs, minlength=(count + 1) * width).reshape(-1, width)
        most = votes[:, 1:].max(axis=1)
        is_decided = (most > 0) & (2 * most >= votes.sum(axis=1))
        num_relabelled += int(np.count_nonzero(is_decided[1:]))
        new = np.where(is_decided, votes[:, 1:].argmax(axis=1) + 1, value).astype(np.uint8)
        inside = objects != 0
        relabelled[inside] = new[objects[inside]]
    return relabelled, num_relabelled
