"""Injected errors of one object of an annotation: left out, put where none is, or of another class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from ...transforms.array_types import Booleans, Classes
from ...transforms.connected_lesions import label_lesions
from ...transforms.surfaces import bounding_box
from .injected_errors import Chance, KnownError, counted
from .thresholds import THRESHOLDS

_TRIED_PLACES = 30
_SIZES = (1.0, 0.75, 0.5, 0.35)


@dataclass(frozen=True)
class ObjectOf:
    """One object of an annotation: its class, and which of its objects it is, from 1."""

    label: int
    number: int


class ObjectLeftOut(KnownError[ObjectOf]):
    """One object is not annotated."""

    def __init__(self, least_pixels: int = THRESHOLDS.min_object_pixels) -> None:
        self.least_pixels = least_pixels

    def make_params(self, annotation: Classes, chance: Chance) -> ObjectOf | None:
        """Draw the object."""
        return _some_object(annotation, self.least_pixels, chance.generator)

    def apply(self, annotation: Classes, params: ObjectOf) -> Classes:
        """Leave it out."""
        return np.where(_pixels_of(annotation, params), np.uint8(0), annotation)


@dataclass(frozen=True)
class PutObject:
    """An object that is put into an annotation.

    Attributes:
        label: its class.
        shape: its pixels.
        start: where its box begins along each axis.
    """

    label: int
    shape: Booleans
    start: tuple[int, ...]


class ObjectWhereNoneIs(KnownError[PutObject]):
    """An object of the same shape as one that is annotated, mirrored, at a random place where nothing is annotated.

    Where there is no room for it, it is made smaller.
    """

    def __init__(self, least_pixels: int = THRESHOLDS.min_object_pixels) -> None:
        self.least_pixels = least_pixels

    def make_params(self, annotation: Classes, chance: Chance) -> PutObject | None:
        """Draw object and place; without an object of its own an annotation gets one of another case."""
        source = annotation if counted(annotation).any() or chance.other is None else chance.other
        chosen = _some_object(source, self.least_pixels, chance.generator)
        if chosen is None:
            return None
        inside = _pixels_of(source, chosen)
        shape = np.flip(inside[bounding_box(inside)], axis=int(chance.generator.integers(inside.ndim)))
        taken = ndimage.binary_dilation(annotation != 0, np.ones((3,) * annotation.ndim, dtype=bool), iterations=2)
        for size in _SIZES:
            smaller = shape if size == 1.0 else ndimage.zoom(shape.astype(np.float64), size, order=1) >= 0.5
            room = np.array(annotation.shape) - smaller.shape
            if np.count_nonzero(smaller) < self.least_pixels or (room < 0).any():
                continue
            for _ in range(_TRIED_PLACES):
                start = tuple(int(at) for at in chance.generator.integers(room + 1))
                if not taken[_box_at(start, smaller.shape)][smaller].any():
                    return PutObject(chosen.label, smaller, start)
        return None

    def apply(self, annotation: Classes, params: PutObject) -> Classes:
        """Put the object there."""
        changed = annotation.copy()
        changed[_box_at(params.start, params.shape.shape)][params.shape] = params.label
        return changed


@dataclass(frozen=True)
class SliceOf:
    """One slice of an object, by its index along the last axis."""

    object: ObjectOf
    index: int


class SliceLeftOut(KnownError[SliceOf]):
    """In one slice an object of a volume is not annotated, between slices in which it is.

    Objects of at least three slices can have it.
    """

    def make_params(self, annotation: Classes, chance: Chance) -> SliceOf | None:
        """Draw object and slice."""
        chosen = (
            _some_object(annotation, THRESHOLDS.min_object_pixels, chance.generator) if annotation.ndim == 3 else None
        )
        if chosen is None:
            return None
        areas = _pixels_of(annotation, chosen).sum(axis=(0, 1))
        inner = [
            z
            for z in np.flatnonzero(areas >= THRESHOLDS.min_object_pixels)
            if 0 < z < len(areas) - 1 and areas[z - 1] * areas[z + 1]
        ]
        return SliceOf(chosen, int(chance.generator.choice(inner))) if inner else None

    def apply(self, annotation: Classes, params: SliceOf) -> Classes:
        """Leave the slice out."""
        changed = annotation.copy()
        plane = _pixels_of(annotation, params.object)[..., params.index]
        changed[..., params.index][plane] = 0
        return changed


@dataclass(frozen=True)
class OtherClass:
    """An object that is given another class."""

    object: ObjectOf
    label: int


class ClassTakenForAnother(KnownError[OtherClass]):
    """One object has another class."""

    def __init__(self, least_pixels: int = THRESHOLDS.min_object_pixels) -> None:
        self.least_pixels = least_pixels

    def make_params(self, annotation: Classes, chance: Chance) -> OtherClass | None:
        """Draw object and class."""
        chosen = _some_object(annotation, self.least_pixels, chance.generator)
        if chosen is None or chance.num_classes < 2:
            return None
        others = [label for label in range(1, chance.num_classes + 1) if label != chosen.label]
        return OtherClass(chosen, int(chance.generator.choice(others)))

    def apply(self, annotation: Classes, params: OtherClass) -> Classes:
        """Give the object the other class."""
        return np.where(_pixels_of(annotation, params.object), np.uint8(params.label), annotation)


def _some_object(annotation: Classes, least_pixels: int, generator: np.random.Generator) -> ObjectOf | None:
    """Draw one of the objects of at least so many pixels, whatever its class."""
    result = []
    for label in np.unique(counted(annotation)):
        if label:
            sizes = np.bincount(label_lesions(annotation == label)[0].ravel())
            result += [ObjectOf(int(label), int(number)) for number in np.flatnonzero(sizes >= least_pixels) if number]
    return result[int(generator.integers(len(result)))] if result else None


def _pixels_of(annotation: Classes, chosen: ObjectOf) -> Booleans:
    return np.asarray(label_lesions(annotation == chosen.label)[0] == chosen.number)


def _box_at(start: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(at, at + length) for at, length in zip(start, shape, strict=True))
