"""Known errors of annotations, put into copies so that it is seen how well an audit finds them; drawn, then applied."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ...transforms.connected_lesions import label_lesions
from ...transforms.ignored_label import IGNORED_LABEL
from .examined import bounding_box

if TYPE_CHECKING:
    from ...transforms.noise.evolved_mask import ContourEvolutionParams

Classes = NDArray[np.uint8]
Params = TypeVar("Params")

LEAST_PIXELS = 5
_TRIED_PLACES = 30
_SIZES = (1.0, 0.75, 0.5, 0.35)


class KnownError(ABC, Generic[Params]):
    """An error of the annotation ``(H, W[, D])`` of a case; everything random is in its parameters."""

    @abstractmethod
    def make_params(
        self, annotation: Classes, generator: np.random.Generator, *, num_classes: int, other: Classes | None
    ) -> Params | None:
        """Draw an error of an annotation; None where this one cannot have any.

        Args:
            annotation: given classes, 0 for background.
            generator: source of randomness.
            num_classes: foreground classes.
            other: the annotation of another case; None where there is none.
        """

    @abstractmethod
    def apply(self, annotation: Classes, params: Params) -> Classes:
        """Return a copy of the annotation with the error."""

    def __call__(
        self, annotation: Classes, generator: np.random.Generator, *, num_classes: int, other: Classes | None = None
    ) -> Classes | None:
        """Draw and apply; None where the annotation cannot have such an error, or it would change nothing."""
        params = self.make_params(annotation, generator, num_classes=num_classes, other=other)
        if params is None:
            return None
        changed = self.apply(annotation, params)
        return None if np.array_equal(changed, annotation) else changed


class DrawnTooLargeOrSmall(KnownError["ContourEvolutionParams"]):
    """All contours too large, or all too small, by 20 to 40 % of the usual object's radius, with an unsteady hand.

    In volumes contours are moved slice by slice along the last axis.
    """

    strengths = (0.2, 0.4)
    unsteadiness = 0.25

    def make_params(
        self,
        annotation: Classes,
        generator: np.random.Generator,
        *,
        num_classes: int,  # noqa: ARG002
        other: Classes | None,  # noqa: ARG002
    ) -> "ContourEvolutionParams | None":
        """Draw direction, strength and every contour's displacement."""
        # MONAI takes 2 s, and only a site that is audited needs its noise.
        from ...transforms.noise.contour_evolution import ContourEvolution  # noqa: PLC0415

        counted = _counted(annotation)
        if not counted.any():
            return None
        strength = generator.uniform(*self.strengths) * usual_radius(counted)
        sign = 1.0 if generator.random() < 0.5 else -1.0
        evolution = ContourEvolution(
            sign * strength, self.unsteadiness * strength, reference_size=None, smallest_object=0.0
        ).set_random_state(seed=int(generator.integers(2**32)))
        params: ContourEvolutionParams = evolution.make_params(counted)
        return params

    def apply(self, annotation: Classes, params: "ContourEvolutionParams") -> Classes:
        """Move the contours; ignored pixels stay."""
        from ...transforms.noise.contour_evolution import ContourEvolution  # noqa: PLC0415

        evolution = ContourEvolution(0.0, 0.0, reference_size=None, smallest_object=0.0)
        return _with_ignored(np.asarray(evolution.apply_transform(_counted(annotation), params)), annotation)


@dataclass(frozen=True)
class ObjectOf:
    """One object of an annotation: its class, and which of its objects it is, from 1."""

    label: int
    number: int


class ObjectLeftOut(KnownError[ObjectOf]):
    """One object of at least five pixels is not annotated."""

    def make_params(
        self,
        annotation: Classes,
        generator: np.random.Generator,
        *,
        num_classes: int,  # noqa: ARG002
        other: Classes | None,  # noqa: ARG002
    ) -> ObjectOf | None:
        """Draw the object."""
        return _some_object(annotation, generator)

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
    shape: NDArray[np.bool_]
    start: tuple[int, ...]


class ObjectWhereNoneIs(KnownError[PutObject]):
    """An object of the same shape as one that is annotated, mirrored, at a random place where nothing is annotated.

    Where there is no room for it, it is made smaller.
    """

    def make_params(
        self,
        annotation: Classes,
        generator: np.random.Generator,
        *,
        num_classes: int,  # noqa: ARG002
        other: Classes | None,
    ) -> PutObject | None:
        """Draw object and place; without an object of its own an annotation gets one of another case."""
        source = annotation if _counted(annotation).any() or other is None else other
        chosen = _some_object(source, generator)
        if chosen is None:
            return None
        inside = _pixels_of(source, chosen)
        shape = np.flip(inside[bounding_box(inside)], axis=int(generator.integers(inside.ndim)))
        taken = ndimage.binary_dilation(annotation != 0, np.ones((3,) * annotation.ndim, dtype=bool), iterations=2)
        for size in _SIZES:
            smaller = shape if size == 1.0 else ndimage.zoom(shape.astype(np.float64), size, order=1) >= 0.5
            room = np.array(annotation.shape) - smaller.shape
            if np.count_nonzero(smaller) < LEAST_PIXELS or (room < 0).any():
                continue
            for _ in range(_TRIED_PLACES):
                start = tuple(int(at) for at in generator.integers(room + 1))
                if not taken[_box_at(start, smaller.shape)][smaller].any():
                    return PutObject(chosen.label, smaller, start)
        return None

    def apply(self, annotation: Classes, params: PutObject) -> Classes:
        """Put the object there."""
        changed = annotation.copy()
        changed[_box_at(params.start, params.shape.shape)][params.shape] = params.label
        return changed


@dataclass(frozen=True)
class OtherClass:
    """An object that is given another class."""

    object: ObjectOf
    label: int


class ClassTakenForAnother(KnownError[OtherClass]):
    """One object of at least five pixels has another class."""

    def make_params(
        self,
        annotation: Classes,
        generator: np.random.Generator,
        *,
        num_classes: int,
        other: Classes | None,  # noqa: ARG002
    ) -> OtherClass | None:
        """Draw object and class."""
        chosen = _some_object(annotation, generator)
        if chosen is None or num_classes < 2:
            return None
        others = [label for label in range(1, num_classes + 1) if label != chosen.label]
        return OtherClass(chosen, int(generator.choice(others)))

    def apply(self, annotation: Classes, params: OtherClass) -> Classes:
        """Give the object the other class."""
        return np.where(_pixels_of(annotation, params.object), np.uint8(params.label), annotation)


@dataclass(frozen=True)
class Movement:
    """Axes along which an annotation is mirrored, and by how many pixels it is shifted along each axis after that."""

    flipped: tuple[int, ...]
    steps: tuple[int, ...]


class ShiftedOrFlipped(KnownError[Movement]):
    """The annotation is shifted by 12 to 30 % of the image in a random direction, or mirrored where that changes it.

    At least half of what is annotated stays inside. In volumes it moves in the plane of the first two axes.
    """

    lengths = (0.12, 0.3)
    share_flipped = 0.3

    def make_params(
        self,
        annotation: Classes,
        generator: np.random.Generator,
        *,
        num_classes: int,  # noqa: ARG002
        other: Classes | None,  # noqa: ARG002
    ) -> Movement | None:
        """Draw a shift or a flip."""
        counted = _counted(annotation)
        if not counted.any():
            return None
        if generator.random() < self.share_flipped:
            axis = int(generator.integers(2))
            if _dice(np.flip(counted, axis) != 0, counted != 0) < 0.8:
                return Movement((axis,), (0,) * annotation.ndim)
        for _ in range(_TRIED_PLACES):
            angle = generator.uniform(0, 2 * math.pi)
            length = generator.uniform(*self.lengths)
            steps = (
                round(length * math.cos(angle) * annotation.shape[0]),
                round(length * math.sin(angle) * annotation.shape[1]),
                *(0,) * (annotation.ndim - 2),
            )
            movement = Movement((), steps)
            if 2 * np.count_nonzero(self.apply(counted, movement)) >= np.count_nonzero(counted):
                return movement
        return None

    def apply(self, annotation: Classes, params: Movement) -> Classes:
        """Move the annotation; what comes in from outside is background."""
        return moved(annotation, params)


class AnotherCasesAnnotation(KnownError[Classes]):
    """The annotation is that of another case."""

    def make_params(
        self,
        annotation: Classes,
        generator: np.random.Generator,  # noqa: ARG002
        *,
        num_classes: int,  # noqa: ARG002
        other: Classes | None,
    ) -> Classes | None:
        """Return the other case's annotation, cut or filled to the size of this one around its middle."""
        if other is None or not _counted(other).any():
            return None
        return _fitted(other, annotation.shape)

    def apply(self, annotation: Classes, params: Classes) -> Classes:  # noqa: ARG002
        """Return the other annotation."""
        return params.copy()


def moved(annotation: Classes, movement: Movement) -> Classes:
    """Return an annotation ``(H, W[, D])`` mirrored, then shifted by whole pixels; background comes in from outside."""
    mirrored = np.flip(annotation, movement.flipped)
    result = np.zeros_like(annotation)
    source, target = [], []
    for step, length in zip(movement.steps, annotation.shape, strict=True):
        source.append(slice(max(-step, 0), max(length - max(step, 0), 0)))
        target.append(slice(max(step, 0), max(length - max(-step, 0), 0)))
    if all(abs(step) < length for step, length in zip(movement.steps, annotation.shape, strict=True)):
        result[tuple(target)] = mirrored[tuple(source)]
    return result


def usual_radius(annotation: Classes) -> float:
    """Return the median equivalent radius of an annotation's objects in pixels, in volumes in the plane.

    In a volume that is the radius of a disc of the object's mean area in the slices that it is in.
    """
    radii = []
    for label in np.unique(annotation[annotation != 0]):
        labelled, count = label_lesions(annotation == label)
        for number, box in enumerate(ndimage.find_objects(labelled), start=1):
            pixels = np.count_nonzero(labelled[box] == number)
            thickness = box[2].stop - box[2].start if annotation.ndim == 3 else 1
            if pixels >= LEAST_PIXELS or count == 1:
                radii.append(math.sqrt(pixels / thickness / math.pi))
    return float(np.median(radii)) if radii else 1.0


def _counted(annotation: NDArray[Any]) -> Classes:
    return np.where(annotation == IGNORED_LABEL, 0, annotation).astype(np.uint8)


def _with_ignored(changed: Classes, annotation: Classes) -> Classes:
    return np.where(annotation == IGNORED_LABEL, np.uint8(IGNORED_LABEL), changed)


def _some_object(annotation: Classes, generator: np.random.Generator) -> ObjectOf | None:
    """Draw one of the objects of at least five pixels, whatever its class."""
    found = []
    for label in np.unique(_counted(annotation)):
        if label:
            sizes = np.bincount(label_lesions(annotation == label)[0].ravel())
            found += [ObjectOf(int(label), int(number)) for number in np.flatnonzero(sizes >= LEAST_PIXELS) if number]
    return found[int(generator.integers(len(found)))] if found else None


def _pixels_of(annotation: Classes, chosen: ObjectOf) -> NDArray[np.bool_]:
    return np.asarray(label_lesions(annotation == chosen.label)[0] == chosen.number)


def _box_at(start: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(at, at + length) for at, length in zip(start, shape, strict=True))


def _dice(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    total = int(one.sum()) + int(other.sum())
    return 2 * int((one & other).sum()) / total if total else 1.0


def _fitted(annotation: Classes, shape: tuple[int, ...]) -> Classes:
    """Cut or fill with background around the middle, axis by axis."""
    fitted = np.zeros(shape, dtype=np.uint8)
    source, target = [], []
    for have, want in zip(annotation.shape, shape, strict=True):
        length = min(have, want)
        source.append(slice((have - length) // 2, (have - length) // 2 + length))
        target.append(slice((want - length) // 2, (want - length) // 2 + length))
    fitted[tuple(target)] = annotation[tuple(source)]
    return fitted
