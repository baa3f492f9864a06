"""How large a site's objects are: what a boundary bias does to a model depends on it."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from ....transforms.array_types import Booleans
from ....transforms.ignored_label import IGNORED_LABEL
from ..ignored_objects import at_ignored
from .scales import ProfileCase


def mean_radius(cases: Sequence[ProfileCase], label: int) -> float:
    """Return the radius of the objects of a class, mean over cases, in millimetres, pixels without spacing.

    NaN where no case has any. Objects at pixels that the site ignores do not count, of which only a part is seen.

    Args:
        cases: of a site, as it has annotated them.
        label: the class.
    """
    masks = [(_whole_objects(case, label), case.spacing) for case in cases]
    radii = [object_radius(mask, spacing) for mask, spacing in masks if mask.any()]
    return float(np.mean(radii)) if radii else float("nan")


def object_radius(mask: Booleans, spacing: Sequence[float] | None) -> float:
    """Return the radius of the disc or ball whose points lie as far from its surface as those of the objects do.

    The mean distance of its points is r / 3 in a disc, and r / 4 in a ball.

    Args:
        mask: one class ``(H, W[, D])``, not empty.
        spacing: size of a pixel along each axis in millimetres; None in pixels.
    """
    (found,) = ndimage.find_objects(mask.astype(np.uint8))
    steps = (1.0,) * mask.ndim if spacing is None else tuple(spacing)
    # The surface lies half a pixel before the first one of the background.
    distances = ndimage.distance_transform_edt(np.pad(mask[found], 1), sampling=steps)
    inside = distances[distances > 0] - min(steps) / 2
    return float((mask.ndim + 1) * inside.mean())


def _whole_objects(case: ProfileCase, label: int) -> Booleans:
    """The pixels of a class, without the objects at ignored pixels."""
    mask, ignored = case.annotation == label, case.annotation == IGNORED_LABEL
    return np.asarray(mask & ~at_ignored(ignored, mask) if case.ignores and ignored.any() else mask)
