"""A case as an audit sees it: its annotation with a model's probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import stats

from ...transforms.array_types import AnyFloats, Array, Booleans, Classes, Floats
from ...transforms.ignored_label import IGNORED_LABEL
from ..annotation_bias.cases import PredictedCase
from ..annotation_bias.objects import MatchedObjects, match_objects
from ..annotation_bias.predicted_samples import object_box
from .findings import Place, SizeUnit

Box = tuple[slice, ...]


class Part:
    """The part of a case in which anything is annotated or probable, with objects that are looked for once.

    Attributes:
        start: where it begins in the whole, along each axis.
        predicted: annotation and probabilities there.
        is_stack: whether the last axis runs across the samples of the case.
    """

    def __init__(
        self, start: tuple[int, ...], predicted: PredictedCase, size: tuple[int, ...], *, is_stack: bool
    ) -> None:
        self.start, self.predicted, self.is_stack, self._size = start, predicted, is_stack, size
        self._matched: dict[int, MatchedObjects] = {}

    def objects(self, label: int) -> MatchedObjects:
        """Return the objects of a class, those annotated matched to those predicted."""
        if label not in self._matched:
            self._matched[label] = match_objects(self.predicted.annotated_as(label), self.predicted.predicted_as(label))
        return self._matched[label]

    @cached_property
    def of_any_class(self) -> MatchedObjects:
        """The objects without regard to their classes."""
        return match_objects(self.annotated, self.predicted.predicted != 0)

    @cached_property
    def annotated(self) -> Booleans:
        """Where anything is annotated; ignored pixels are not."""
        return np.asarray((self.predicted.annotation != 0) & (self.predicted.annotation != IGNORED_LABEL))

    @cached_property
    def entropy(self) -> Floats:
        """The entropy of the probabilities over the largest possible one, from 0 to 1."""
        return entropy(self.predicted.probabilities, axis=0)

    def touches_border(self, box: Box) -> bool:
        """Return whether a box of the part touches the border of the image or volume."""
        sides = zip(box, self.start, self._size, strict=True)
        return any(side.start + at == 0 or side.stop + at == size for side, at, size in sides)

    def place(self, box: Box) -> Place:
        """Return where a box of the part lies in the samples."""
        start = tuple(side.start + at for side, at in zip(box, self.start, strict=True))
        stop = tuple(side.stop + at for side, at in zip(box, self.start, strict=True))
        if self.is_stack:
            return Place(sample=start[-1], start=start[:-1], stop=stop[:-1], samples=stop[-1] - start[-1])
        return Place(sample=0, start=start, stop=stop)


@dataclass(frozen=True)
class ExaminedCase:
    """An annotated image or volume with a model's probabilities; it stays at the site.

    Attributes:
        index: its place among the site's cases.
        unit: the patient or volume.
        annotation: given classes ``(S, H, W[, D])``, S samples as in :class:`LoadedCase`.
        probabilities: of every class, ``(S, C + 1, H, W[, D])``, the background first.
        image: ``(S, channels, H, W[, D])``.
        spacing: size of a pixel along each axis of a sample in millimetres; None measures in pixels.
        slice_spacing: distance of neighbouring samples in millimetres, None where it is not known.
    """

    index: int
    unit: str
    annotation: Classes
    probabilities: AnyFloats
    image: AnyFloats
    spacing: tuple[float, ...] | None = None
    slice_spacing: float | None = None

    @property
    def num_classes(self) -> int:
        """Number of foreground classes."""
        return int(self.probabilities.shape[1]) - 1

    def with_annotation(self, annotation: Array) -> "ExaminedCase":
        """Return the case with another annotation."""
        return replace(self, annotation=annotation.astype(np.uint8, copy=False))

    @cached_property
    def predicted(self) -> Classes:
        """The most probable class of every pixel, background where the annotation is ignored, ``(S, H, W[, D])``."""
        most_probable = self.probabilities.argmax(axis=1).astype(np.uint8)
        return np.where(self.annotation == IGNORED_LABEL, np.uint8(0), most_probable)

    @cached_property
    def part(self) -> Part | None:
        """The part of the whole with objects; None where nothing is annotated or probable."""
        whole = self.whole
        box = object_box(whole.annotation, whole.probabilities)
        if box is None:
            return None
        predicted = PredictedCase(
            self.unit, whole.annotation[box], whole.probabilities[(slice(None), *box)], whole.spacing
        )
        start = tuple(side.start for side in box)
        return Part(start, predicted, whole.annotation.shape, is_stack=len(self.annotation) > 1)

    @cached_property
    def whole_image(self) -> AnyFloats:
        """The image ``(channels, H, W[, D])``: slices are stacked along a last axis."""
        return self.image[0] if len(self.image) == 1 else np.moveaxis(self.image, 0, -1)

    @cached_property
    def whole(self) -> PredictedCase:
        """All samples as one image or volume: slices are stacked along a last axis."""
        probabilities = self.probabilities[0] if len(self.annotation) == 1 else np.moveaxis(self.probabilities, 0, -1)
        spacing = spacing_of_whole(len(self.annotation), self.spacing, self.slice_spacing)
        return PredictedCase(self.unit, as_volume(self.annotation), probabilities, spacing)


def spacing_of_whole(
    num_samples: int, spacing: tuple[float, ...] | None, slice_spacing: float | None
) -> tuple[float, ...] | None:
    """Return the spacing of a case's samples as one array; None where that of the slices is not known."""
    if spacing is None or num_samples == 1:
        return spacing
    return None if slice_spacing is None else (*spacing, slice_spacing)


def entropy(probabilities: AnyFloats, axis: int) -> Floats:
    """Return the entropy along the axis of the classes over the largest possible one, from 0 to 1."""
    result = stats.entropy(np.asarray(probabilities, dtype=np.float64), axis=axis, base=probabilities.shape[axis])
    return np.asarray(np.clip(result, 0.0, 1.0))


def as_volume(samples: Array) -> Array:
    """Return the samples ``(S, H, W[, D])`` of a case as one array: slices are stacked along a last axis."""
    return samples[0] if len(samples) == 1 else np.moveaxis(samples, 0, -1)


def as_samples(volume: Array, num_samples: int) -> Array:
    """Return what :func:`as_volume` made one array of as samples ``(S, H, W[, D])``."""
    return volume[None] if num_samples == 1 else np.ascontiguousarray(np.moveaxis(volume, -1, 0))


def size_in_units(pixels: float, spacing: Sequence[float] | None) -> tuple[float, SizeUnit]:
    """Return the size of an object of so many pixels, and its unit: square millimetres, millilitres, or pixels."""
    if spacing is None:
        return float(pixels), "px"
    size = float(pixels * np.prod(spacing))
    return (size, "mm²") if len(spacing) == 2 else (size / 1000, "ml")
