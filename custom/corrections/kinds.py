"""The kinds of correction: the numbers of each, and what it makes of an annotation.

A new kind is a member of :class:`CorrectionKind` and a record here. Wire, state, summary, store, targets, and export
carry it without a change. Its phrase for a data manager is in ``apps/reports/correction_changes``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from ...transforms.array_types import Classes
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.shift_mask import shifted_mask
from ..data.json_record import JsonRecord
from .pixels import CasePixels, relabelled_objects, replaced_pixels

Fraction = Annotated[float, Field(ge=0, le=1)]
ByClass = dict[int, float]


class CorrectionKind(StrEnum):
    """What a site corrects; an annotation is corrected in this order."""

    CASES_RELABELLED = "cases_relabelled"
    PIXELS_RELABELLED = "pixels_relabelled"
    OBJECTS_RELABELLED = "objects_relabelled"
    MASK_SHIFT = "mask_shift"
    BOUNDARY_SHIFT = "boundary_shift"
    MISSED_OBJECTS_IGNORED = "missed_objects_ignored"
    PIXELS_REPLACED = "pixels_replaced"
    LESIONS_ADDED = "lesions_added"
    MASKS_REPLACED = "masks_replaced"


class Purpose(StrEnum):
    """What a corrected annotation is for: to train on it, to show it, or to write it as a file."""

    TRAINING = "training"
    REVIEW = "review"
    EXPORT = "export"


@dataclass(frozen=True)
class Sample:
    """A given annotation of one sample.

    Attributes:
        classes: ``(H, W[, D])``, 0 for background.
        spacing: size of a voxel in millimetres; None in pixels.
        pixels: the site's decisions on it, of its shape.
        axes: along which axis of a training sample each of its axes runs, and whether forward (1) or backward (−1);
            None where they are the same. Files of volumes have axes of their own.
    """

    classes: Classes
    spacing: tuple[float, ...] | None
    pixels: CasePixels = field(default_factory=CasePixels)
    axes: tuple[tuple[int, int], ...] | None = None


class CorrectionBase(JsonRecord):
    """A correction of one kind: what the server asks for, and the site records.

    Attributes:
        acts_on_labels: whether it changes labels that are loaded; else new files take the place of given ones.
    """

    kind: CorrectionKind
    acts_on_labels: ClassVar[bool] = True

    def model_post_init(self, context: Any, /) -> None:
        """Count the kind as given, so that no record is written without it."""
        del context
        self.model_fields_set.add("kind")

    def apply(self, sample: Sample, purpose: Purpose) -> tuple[Classes, int]:
        """Return the classes of a sample after this correction, and the number of objects that it relabels.

        Args:
            sample: as earlier corrections have left it.
            purpose: what the result is for.
        """
        del purpose
        return sample.classes, 0


class MaskShift(CorrectionBase):
    """All annotations are moved back by a constant translation, all classes together.

    Args:
        shift: where annotations are, less where they belong, along each axis of a training sample, in millimetres
            (pixels without spacing); see :attr:`moves` for what is applied.
    """

    kind: Literal[CorrectionKind.MASK_SHIFT] = CorrectionKind.MASK_SHIFT
    shift: Annotated[tuple[FiniteFloat, ...], Field(min_length=2, max_length=3)]

    @property
    def moves(self) -> tuple[float, ...]:
        """By how much annotations are moved along each axis of a training sample."""
        return tuple(0.0 - length for length in self.shift)

    def apply(self, sample: Sample, purpose: Purpose) -> tuple[Classes, int]:
        """Move all classes; a file cannot say that something is ignored, so that cut objects go on at its border.

        Raises:
            ValueError: if the sample has another number of axes.
        """
        if sample.classes.ndim != len(self.shift):
            raise ValueError(
                f"Expected an annotation with {len(self.shift)} axes, as the shift of all masks has, but got one of "
                f"shape {sample.classes.shape}."
            )
        axes = sample.axes or tuple((axis, 1) for axis in range(len(self.shift)))
        vector = [sign * self.moves[axis] for axis, sign in axes]
        return shifted_mask(sample.classes, vector, sample.spacing, fills_border=purpose is Purpose.EXPORT), 0


class BoundaryShift(CorrectionBase):
    """Contours move by a constant distance.

    Args:
        bias: boundary bias by class, in millimetres (pixels without spacing); positive: annotated too large.
    """

    kind: Literal[CorrectionKind.BOUNDARY_SHIFT] = CorrectionKind.BOUNDARY_SHIFT
    bias: ByClass

    @property
    def moves(self) -> ByClass:
        """Distance by which contours of each class move, positive outward."""
        return {label: -bias for label, bias in self.bias.items()}

    @model_validator(mode="after")
    def _is_finite(self) -> Self:
        if not all(map(math.isfinite, self.bias.values())):
            raise ValueError(f"expected finite distances, found {self.bias}")
        return self

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_form(cls, values: Any) -> Any:
        """Read records of versions that moved contours further in training, by a bias of the model."""
        if not isinstance(values, Mapping):
            return values
        return {key: value for key, value in values.items() if key != "model_bias"}

    def apply(self, sample: Sample, purpose: Purpose) -> tuple[Classes, int]:
        """Move the contours."""
        del purpose
        # It needs MONAI, whose import takes 2 s that only sites pay that move contours.
        from ...transforms.move_contour import MoveContour  # noqa: PLC0415

        return np.asarray(MoveContour(self.moves)(sample.classes, sample.spacing)), 0


class MissedObjectsIgnored(CorrectionBase):
    """Objects that are probably missing are ignored, and the loss expects the annotated fraction alone.

    Args:
        missed: missed fraction of the objects by class, for the loss.
        ignored: fraction of the objects by class that the site does not annotate; that many are ignored.
    """

    kind: Literal[CorrectionKind.MISSED_OBJECTS_IGNORED] = CorrectionKind.MISSED_OBJECTS_IGNORED
    missed: dict[int, Fraction]
    ignored: dict[int, Fraction] = Field(default_factory=dict)

    def completeness(self, num_classes: int) -> list[float]:
        """Return the annotated fraction of each foreground class, 1 for a class without missed objects."""
        return [1 - self.missed.get(label, 0.0) for label in range(1, num_classes + 1)]

    def apply(self, sample: Sample, purpose: Purpose) -> tuple[Classes, int]:
        """Mark the ignored pixels of the background; a file cannot say so."""
        ignored = sample.pixels.ignored
        if ignored is None or purpose is Purpose.EXPORT:
            return sample.classes, 0
        return np.where(ignored & (sample.classes == 0), np.uint8(IGNORED_LABEL), sample.classes), 0


class ObjectsRelabelled(CorrectionBase):
    """Annotated objects get the class that the model sees.

    Args:
        fraction: largest fraction of the objects, of all classes, that gets another class.
    """

    kind: Literal[CorrectionKind.OBJECTS_RELABELLED] = CorrectionKind.OBJECTS_RELABELLED
    fraction: Fraction

    def apply(self, sample: Sample, purpose: Purpose) -> tuple[Classes, int]:
        """Relabel the objects that were decided on."""
        del purpose
        if sample.pixels.relabelled is None:
            return sample.classes, 0
        return relabelled_objects(sample.classes, sample.pixels.relabelled, sample.pixels.seen)


class PixelsRelabelled(CorrectionBase):
    """Pixels get the class that a model predicts with confidence.

    Args:
        noise_share: share of the site's pixels that is noisy by the estimate; None where it did not decide.
        threshold: probability above which a pixel gets the predicted class.
        only_added: whether only background becomes foreground.
    """

    kind: Literal[CorrectionKind.PIXELS_RELABELLED] = CorrectionKind.PIXELS_RELABELLED
    noise_share: Fraction | None
    threshold: Fraction
    only_added: bool

    def apply(self, sample: Sample, purpose: Purpose) -> tuple[Classes, int]:
        """Replace the pixels that were decided on; one whose given class has changed since stays."""
        del purpose
        other = sample.pixels.relabelled
        if other is None:
            return sample.classes, 0
        decided = (other.given != other.becomes) & (other.given == sample.classes)
        return np.where(decided, other.becomes, sample.classes), 0


class CasesRelabelled(CorrectionBase):
    """Cases of a classification get another class, or are left out.

    Args:
        noise_level: fraction of the labels that is wrong.
        threshold: probability of a right label below which a case is doubted; None where no threshold decides.
        transition: T of the label noise that is left, ``(C, C)``; None where the loss is not corrected.
    """

    kind: Literal[CorrectionKind.CASES_RELABELLED] = CorrectionKind.CASES_RELABELLED
    noise_level: float
    threshold: float | None = None
    transition: tuple[tuple[float, ...], ...] | None = None


class PixelsReplaced(CorrectionBase):
    """Confident predictions take the place of background and of a class, class after class.

    Args:
        rounds: by class, in the order in which they were corrected, the round before whose training each was.
        foreground_threshold: probability of a class above which a pixel gets it.
        background_threshold: probability of the background above which a pixel becomes background; None where none
            does.
    """

    kind: Literal[CorrectionKind.PIXELS_REPLACED] = CorrectionKind.PIXELS_REPLACED
    rounds: dict[int, int]
    foreground_threshold: Fraction
    background_threshold: Fraction | None

    @property
    def labels(self) -> tuple[int, ...]:
        """The classes, in the order in which they were corrected."""
        return tuple(self.rounds)

    def apply(self, sample: Sample, purpose: Purpose) -> tuple[Classes, int]:
        """Replace the pixels that were decided on."""
        del purpose
        decided = sample.pixels.replaced
        return (sample.classes if decided is None else replaced_pixels(sample.classes, self.labels, decided)), 0


class LesionsAdded(CorrectionBase):
    """New files have lesions that the given annotations lack.

    Args:
        threshold: probability above which background becomes foreground.
        smallest_lesion: voxels of the smallest lesion that is added as a whole; None adds voxels by the threshold.
    """

    acts_on_labels: ClassVar[bool] = False
    kind: Literal[CorrectionKind.LESIONS_ADDED] = CorrectionKind.LESIONS_ADDED
    threshold: float
    smallest_lesion: int | None = None


class MasksReplaced(CorrectionBase):
    """New masks, or classes, of reviewers take the place of given annotations.

    Args:
        source: the folder of the audit with their decisions.
        audited: when the audit was made, by the site's clock.
    """

    acts_on_labels: ClassVar[bool] = False
    kind: Literal[CorrectionKind.MASKS_REPLACED] = CorrectionKind.MASKS_REPLACED
    source: str
    audited: str


Correction = Annotated[
    MaskShift
    | BoundaryShift
    | MissedObjectsIgnored
    | ObjectsRelabelled
    | PixelsRelabelled
    | CasesRelabelled
    | PixelsReplaced
    | LesionsAdded
    | MasksReplaced,
    Field(discriminator="kind"),
]


Kind = TypeVar("Kind", bound=CorrectionBase)


def of_kind(corrections: Iterable[CorrectionBase], kind: type[Kind]) -> Kind | None:
    """Return the correction of a kind, None without one."""
    return next((correction for correction in corrections if isinstance(correction, kind)), None)


def in_order(corrections: Iterable[Correction]) -> tuple[Correction, ...]:
    """Return corrections in the order in which they are applied.

    Raises:
        ValueError: if two are of one kind.
    """
    corrections, order = tuple(corrections), list(CorrectionKind)
    kinds = [correction.kind for correction in corrections]
    if len(set(kinds)) != len(kinds):
        raise ValueError(f"expected one correction of a kind, found {', '.join(kinds)}")
    return tuple(sorted(corrections, key=lambda one: order.index(one.kind)))


def server_corrections(
    *,
    bias: Mapping[int, float] | None = None,
    missed: Mapping[int, float] | None = None,
    ignored: Mapping[int, float] | None = None,
    relabelled: float = 0.0,
) -> tuple[Correction, ...]:
    """Return the corrections that a server asks of a site, without those that would change nothing.

    Args:
        bias: see :class:`BoundaryShift`.
        missed: see :class:`MissedObjectsIgnored`.
        ignored: as above.
        relabelled: fraction of the objects, see :class:`ObjectsRelabelled`.
    """
    corrections: list[Correction] = []
    if relabelled:
        corrections.append(ObjectsRelabelled(fraction=relabelled))
    if bias:
        corrections.append(BoundaryShift(bias=dict(bias)))
    if missed:
        corrections.append(MissedObjectsIgnored(missed=dict(missed), ignored=dict(ignored or {})))
    return tuple(corrections)
