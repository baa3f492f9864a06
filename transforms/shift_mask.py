"""Annotations moved as a whole by a translation, finer than the pixel."""

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from .array_types import Booleans, Classes, Floats
from .connected_lesions import label_lesions
from .ignored_label import IGNORED_LABEL
from .surfaces import checked_spacing, grown_box

# Fractions of a pixel below it are none.
_NO_FRACTION = 1e-6
# Standard deviation in pixels of the average that makes a contour smooth, which follows the grid in steps.
_BLUR = 1.0
# Pixels around an object that the average reaches.
_MARGIN = 4
_TIE = 1e-9


def shifted_mask(
    annotation: Classes, vector: Sequence[float], spacing: Sequence[float] | None = None, *, fills_border: bool = False
) -> Classes:
    """Return an annotation moved by a vector; all classes move together, and all that stays within the image is kept.

    Whole pixels move exactly. For the fraction f that is left, an object M of n pixels takes the n pixels x with the
    largest Σ_y M(y) exp(−½ ‖x − f − y‖²), in pixels: it keeps its size, none vanishes, and its contour becomes smooth.
    Objects are 8-connected in two dimensions and 26-connected in three.

    A pixel is ignored if it was so before, or if what is moved there was. What comes in from outside the image is
    background, and ignored next to an object that the border may have cut.

    Args:
        annotation: classes, 255 where nothing counts, ``(H, W[, D])``.
        vector: along each axis, in millimetres, pixels without spacing.
        spacing: size of a pixel along each axis.
        fills_border: an object that the border may have cut goes on where it would be ignored; for files, which cannot
            say that a pixel is ignored.

    Raises:
        ValueError: when the vector is not finite or of another number of axes.

    Example:
        >>> mask = np.zeros((5, 6), dtype=np.uint8)
        >>> mask[1:3, 1:3] = 1
        >>> np.argwhere(shifted_mask(mask, (1, 2.0))).tolist()
        [[2, 3], [2, 4], [3, 3], [3, 4]]
    """
    lengths = np.asarray(checked_spacing(annotation.shape, spacing))
    wanted = np.asarray(vector, dtype=np.float64)
    if wanted.shape != lengths.shape or not np.isfinite(wanted).all():
        raise ValueError(f"Expected a vector of {annotation.ndim} finite numbers, but got {tuple(vector)}.")
    steps = np.floor(wanted / lengths + 0.5)
    moved, comes_in = _by_whole_pixels(annotation, steps)
    if not fills_border:
        moved = np.where(comes_in & (moved != 0), np.uint8(IGNORED_LABEL), moved)
    fraction = wanted / lengths - steps
    if (np.abs(fraction) > _NO_FRACTION).any():
        moved = _by_fraction(moved, fraction)
    return np.where(annotation == IGNORED_LABEL, np.uint8(IGNORED_LABEL), moved).astype(np.uint8)


def _by_whole_pixels(annotation: Classes, steps: Floats) -> tuple[Classes, Booleans]:
    """The annotation moved, what is at its border going on, and where that comes from outside the image."""
    sources, inside = [], np.ones(annotation.shape, dtype=bool)
    for axis, (step, length) in enumerate(zip(steps.tolist(), annotation.shape, strict=True)):
        # Beyond the image it makes no difference how far.
        source = np.arange(length) - int(np.clip(step, -length, length))
        is_within = (source >= 0) & (source < length)
        inside &= is_within.reshape([-1 if other == axis else 1 for other in range(annotation.ndim)])
        sources.append(np.clip(source, 0, length - 1))
    return annotation[np.ix_(*sources)], ~inside


def _by_fraction(annotation: Classes, fraction: Floats) -> Classes:
    """The annotation moved by at most half a pixel along each axis; what is ignored moves as a class does."""
    result = np.zeros_like(annotation)
    together, _ = label_lesions(annotation != 0)
    for number, inner in enumerate(ndimage.find_objects(together), start=1):
        box = grown_box(inner, [_MARGIN] * annotation.ndim, annotation.shape)
        inside = together[box] == number
        classes = _classes_moved(np.where(inside, annotation[box], 0).astype(np.uint8), fraction)
        result[box] = np.where(classes != 0, classes, result[box])
    return result


def _classes_moved(classes: Classes, fraction: Floats) -> Classes:
    """Classes of connected pixels moved: together they take as many pixels, and the objects of each class share them.

    Of two objects that take the same pixel the smaller one gets it; a pixel that none takes is of the one nearest to
    taking it.
    """
    taken, _ = _taken(classes != 0, fraction)
    result, nearest = np.zeros_like(classes), np.zeros(classes.shape)
    objects = [
        (label, labelled == number)
        for label in np.unique(classes[classes != 0]).tolist()
        for labelled, count in [label_lesions(classes == label)]
        for number in range(1, count + 1)
    ]
    claims = []
    for label, inside in sorted(objects, key=lambda one: -np.count_nonzero(one[1])):
        own, closeness = _taken(inside, fraction)
        is_nearer = closeness > nearest
        result[is_nearer], nearest[is_nearer] = label, closeness[is_nearer]
        claims.append((label, own))
    for label, own in claims:
        result[own] = label
    return np.where(taken, result, 0).astype(np.uint8)


def _taken(inside: Booleans, fraction: Floats) -> tuple[Booleans, Floats]:
    """The pixels that an object takes, and how near each pixel is to that: 1 at the last one that is taken."""
    blurred: Floats = inside.astype(np.float64)
    offsets = np.arange(-_MARGIN, _MARGIN + 1)
    for axis, part in enumerate(fraction.tolist()):
        weights = np.exp(-0.5 * ((offsets - part) / _BLUR) ** 2)
        blurred = ndimage.convolve1d(blurred, weights / weights.sum(), axis=axis, mode="nearest")
    # Between equals those that it has stay its own.
    ranked = np.argsort(-(blurred + _TIE * inside), axis=None, kind="stable")[: np.count_nonzero(inside)]
    taken = np.zeros(inside.size, dtype=bool)
    taken[ranked] = True
    return taken.reshape(inside.shape), blurred / blurred.ravel()[ranked[-1]]
