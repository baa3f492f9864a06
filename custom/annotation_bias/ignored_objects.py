"""Objects at ignored pixels: what is seen of them ends where pixels are ignored, so they say nothing of a site."""

from collections.abc import Callable

import numpy as np
from scipy import ndimage

from ...transforms.array_types import Array, Booleans
from ...transforms.connected_lesions import label_lesions
from ...transforms.ignored_label import IGNORED_LABEL
from ..data.description import SiteDescription
from .cases import PredictedCase

# An object within so many pixels of ignored ones may go on there.
_REACH = 2


def without_objects_at_ignored(case: PredictedCase) -> PredictedCase:
    """Return the case with all objects at ignored pixels ignored, too, whether annotated, predicted or both.

    What is left has its whole contour. A case without ignored pixels is returned as it is.

    Args:
        case: with its given annotation.

    Example:
        >>> annotation = np.zeros((8, 16), dtype=np.uint8)
        >>> annotation[2:5, 2:5], annotation[2:5, 11:15], annotation[:, 15] = 1, 1, 255
        >>> outside = (annotation == 0).astype(float)
        >>> left = without_objects_at_ignored(PredictedCase("patient-1", annotation, np.stack([outside, 1 - outside])))
        >>> [int((left.annotation == label).sum()) for label in (1, 255)]
        [9, 20]
    """
    ignored = case.annotation == IGNORED_LABEL
    if not ignored.any():
        return case
    objects = (case.annotation != 0) | (case.predicted != 0)
    annotation = np.where(ignored | at_ignored(ignored, objects), IGNORED_LABEL, case.annotation)
    return case.with_annotation(annotation.astype(case.annotation.dtype))


def whole_objects(description: SiteDescription) -> Callable[[PredictedCase], PredictedCase]:
    """Return what leaves the partly seen objects of a site's cases out: nothing where its masks ignore no pixel.

    Masks that are moved have ignored pixels at the image's border, too. These stay as they are.

    Args:
        description: the site's.
    """
    return without_objects_at_ignored if getattr(description, "ignore", ()) else lambda case: case


def without_common_ignored(one: Array, other: Array, description: SiteDescription) -> tuple[Array, Array]:
    """Return two annotations of an image without the objects at pixels that either of them ignores.

    Args:
        one: classes ``(H, W[, D])``, 255 for ignored pixels.
        other: as above.
        description: the site's, see :func:`whole_objects`.
    """
    ignored = (one == IGNORED_LABEL) | (other == IGNORED_LABEL)
    if not getattr(description, "ignore", ()) or not ignored.any():
        return one, other
    gone = ignored | at_ignored(ignored, (one != 0) | (other != 0))
    return np.where(gone, 0, one), np.where(gone, 0, other)


def at_ignored(ignored: Booleans, objects: Booleans) -> Booleans:
    """Return the connected objects within two pixels of ignored ones, ``(H, W[, D])``.

    Args:
        ignored: pixels ``(H, W[, D])``.
        objects: of whichever class, as above; ignored ones do not connect them.
    """
    near = ndimage.binary_dilation(ignored, np.ones((3,) * ignored.ndim, dtype=np.bool_), iterations=_REACH)
    numbers = label_lesions(objects & ~ignored)[0]
    concerned = np.unique(numbers[near])
    return np.isin(numbers, concerned[concerned != 0])
