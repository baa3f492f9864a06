"""Objects of cases for kinds of problems: places, disagreement, uncertainty, and suggestions in their place."""

from typing import Any

import numpy as np

from ....transforms.array_types import Booleans, Classes
from ....transforms.connected_lesions import label_lesions
from ....transforms.surfaces import bounding_box
from ..examined import Part
from ..findings import Place
from .kind import Suspicion

# A predicted object lies a little elsewhere each time that a model is trained.
_GRID = 8


def annotated_reference_level(place: Place) -> tuple[int, ...]:
    """Return numbers that name an annotated object as long as its annotation stays."""
    return (place.sample, *place.start, *place.stop, place.samples)


def predicted_reference_level(place: Place) -> tuple[int, ...]:
    """Return numbers that name a predicted object, the same where it lies a few pixels elsewhere."""
    middles = ((start + stop) // 2 for start, stop in zip(place.start, place.stop, strict=True))
    return ((place.sample + place.samples // 2) // _GRID, *(middle // _GRID for middle in middles))


def suspicion_of(
    case: int,
    part: Part,
    inside: Booleans,
    features: Any,
    labels: tuple[int, ...],
    *,
    annotated: bool,
    with_predicted: Booleans | None = None,
) -> Suspicion:
    """Return what was measured of an object, with its place, size, disagreement and uncertainty.

    Args:
        case: the case's place among the site's cases.
        part: the part of the case.
        inside: the object's pixels in it.
        features: what the kind measured.
        labels: classes concerned.
        annotated: whether the object is annotated, else it is predicted.
        with_predicted: the predicted object that it matches; the place contains both.
    """
    both = inside if with_predicted is None else inside | with_predicted
    box = bounding_box(both, margin=1)
    own = part.place(bounding_box(inside))
    other = np.zeros_like(inside[box]) if with_predicted is None else with_predicted[box]
    total = np.count_nonzero(inside[box]) + np.count_nonzero(other)
    return Suspicion(
        case,
        features,
        part.place(box),
        annotated_reference_level(own) if annotated else predicted_reference_level(own),
        labels,
        float(np.count_nonzero(inside)),
        disagreement=1 - 2 * np.count_nonzero(inside[box] & other) / total,
        uncertainty=float(part.entropy[box][both[box]].mean()),
    )


def object_at(classes: Classes, suspicion: Suspicion, label: int) -> Booleans:
    """Return the pixels, in the place, of the largest object of a class.

    Args:
        classes: of all samples ``(S, H, W[, D])``.
        suspicion: of an object with a place.
        label: the class.
    """
    assert suspicion.place is not None
    inside = suspicion.place.of(classes) == label
    labelled, count = label_lesions(inside)
    if count == 0:
        return np.zeros_like(inside)
    sizes = np.bincount(labelled.ravel())
    sizes[0] = 0
    return np.asarray(labelled == sizes.argmax())


def without_object(annotation: Classes, suspicion: Suspicion) -> Classes:
    """Return the annotation in the place with the largest object of the class left out."""
    assert suspicion.place is not None
    given = suspicion.place.of(annotation)
    return np.where(object_at(annotation, suspicion, suspicion.labels[0]), np.uint8(0), given)
