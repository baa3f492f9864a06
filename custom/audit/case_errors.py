"""Injected errors of whole annotations: contours too large or too small, shifted, mirrored, or of another case."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from ...transforms.array_types import Booleans, Classes
from ...transforms.connected_lesions import label_lesions
from ...transforms.ignored_label import IGNORED_LABEL
from .injected_errors import Chance, KnownError, counted
from .thresholds import THRESHOLDS

if TYPE_CHECKING:
    from ...transforms.noise.evolved_mask import ContourEvolutionParams

_TRIED_PLACES = 30


class DrawnTooLargeOrSmall(KnownError["ContourEvolutionParams"]):
    """All contours too large, or all too small, by 20 to 40 % of the typical object's radius, with an unsteady hand.

    In volumes contours are moved slice by slice along the last axis.
    """

    strengths = (0.2, 0.4)
    unsteadiness = 0.25

    def make_params(self, annotation: Classes, chance: Chance) -> "ContourEvolutionParams | None":
        """Draw direction, strength and every contour's displacement."""
        # MONAI takes 2 s, and only a site that is audited needs its noise.
        from ...transforms.noise.contour_evolution import ContourEvolution  # noqa: PLC0415

        drawn = counted(annotation)
        if not drawn.any():
            return None
        strength = chance.generator.uniform(*self.strengths) * typical_radius(drawn)
        sign = 1.0 if chance.generator.random() < 0.5 else -1.0
        evolution = ContourEvolution(
            sign * strength, self.unsteadiness * strength, reference_size=None, smallest_object=0.0
        ).set_random_state(seed=int(chance.generator.integers(2**32)))
        params: ContourEvolutionParams = evolution.make_params(drawn)
        return params

    def apply(self, annotation: Classes, params: "ContourEvolutionParams") -> Classes:
        """Move the contours; ignored pixels stay."""
        from ...transforms.noise.contour_evolution import ContourEvolution  # noqa: PLC0415

        evolution = ContourEvolution(0.0, 0.0, reference_size=None, smallest_object=0.0)
        return _with_ignored(np.asarray(evolution.apply_transform(counted(annotation), params)), annotation)


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

    def make_params(self, annotation: Classes, chance: Chance) -> Movement | None:
        """Draw a shift or a flip."""
        drawn = counted(annotation)
        if not drawn.any():
            return None
        if chance.generator.random() < self.share_flipped:
            axis = int(chance.generator.integers(2))
            if _dice(np.flip(drawn, axis) != 0, drawn != 0) < 0.8:
                return Movement((axis,), (0,) * annotation.ndim)
        for _ in range(_TRIED_PLACES):
            angle = chance.generator.uniform(0, 2 * math.pi)
            length = chance.generator.uniform(*self.lengths)
            steps = (
                round(length * math.cos(angle) * annotation.shape[0]),
                round(length * math.sin(angle) * annotation.shape[1]),
                *(0,) * (annotation.ndim - 2),
            )
            movement = Movement((), steps)
            if 2 * np.count_nonzero(self.apply(drawn, movement)) >= np.count_nonzero(drawn):
                return movement
        return None

    def apply(self, annotation: Classes, params: Movement) -> Classes:
        """Move the annotation; what comes in from outside is background."""
        return moved(annotation, params)


class AnotherCasesAnnotation(KnownError[Classes]):
    """The annotation is that of another case."""

    def make_params(self, annotation: Classes, chance: Chance) -> Classes | None:
        """Return the other case's annotation, cut or filled to the size of this one around its middle."""
        if chance.other is None or not counted(chance.other).any():
            return None
        return _fitted(chance.other, annotation.shape)

    def apply(self, annotation: Classes, params: Classes) -> Classes:  # noqa: ARG002
        """Return the other annotation."""
        return params.copy()


def moved(annotation: Classes, movement: Movement) -> Classes:
    """Return an annotation ``(H, W[, D])`` mirrored, then shifted by whole pixels; background comes in from outside."""
    mirrored = np.flip(annotation, movement.flipped)
    return np.asarray(ndimage.shift(mirrored, movement.steps, order=0, mode="constant", cval=0))


def typical_radius(annotation: Classes) -> float:
    """Return the median equivalent radius of an annotation's objects in pixels, in volumes in the plane.

    In a volume that is the radius of a disc of the object's mean area in the slices that it is in.
    """
    radii = []
    for label in np.unique(annotation[annotation != 0]):
        labelled, count = label_lesions(annotation == label)
        for number, box in enumerate(ndimage.find_objects(labelled), start=1):
            pixels = np.count_nonzero(labelled[box] == number)
            thickness = box[2].stop - box[2].start if annotation.ndim == 3 else 1
            if pixels >= THRESHOLDS.min_object_pixels or count == 1:
                radii.append(math.sqrt(pixels / thickness / math.pi))
    return float(np.median(radii)) if radii else 1.0


def _dice(one: Booleans, other: Booleans) -> float:
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


def _with_ignored(changed: Classes, annotation: Classes) -> Classes:
    return np.where(annotation == IGNORED_LABEL, np.uint8(IGNORED_LABEL), changed)
