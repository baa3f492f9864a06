"""A site's case with a model's probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...transforms.array_types import AnyFloats, Array, Booleans, Classes
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.surfaces import Surface, checked_spacing, surface_of_probabilities


@dataclass(frozen=True)
class PredictedCase:
    """An annotated image or volume with a model's probabilities; it stays at the site.

    In `auto` the model is the received one, which was trained on the case as well. With `folds` an audit takes a model
    that was not.

    Attributes:
        unit: the patient or volume.
        annotation: given classes ``(H, W[, D])``, 0 for background, 255 for ignored pixels.
        probabilities: of every class, ``(C + 1, H, W[, D])``, the background first.
        spacing: size of a pixel along each axis in millimetres; None measures in pixels.
        image: the image ``(channels, H, W[, D])``, where it is needed.

    Raises:
        ValueError: when the shapes do not fit each other, or the spacing does not fit them.

    Example:
        >>> annotation = np.pad(np.ones((4, 4), dtype=np.uint8), 4)
        >>> foreground = np.pad(np.full((4, 4), 0.9), 4)
        >>> PredictedCase("patient-1", annotation, np.stack([1 - foreground, foreground])).unit
        'patient-1'
    """

    unit: str
    annotation: Array
    probabilities: AnyFloats
    spacing: Sequence[float] | None = None
    image: AnyFloats | None = None

    def __post_init__(self) -> None:
        checked_spacing(self.annotation.shape, self.spacing)
        if self.probabilities.shape[1:] != self.annotation.shape or len(self.probabilities) < 2:
            raise ValueError(
                f"Expected probabilities (C + 1, *{self.annotation.shape}) of the case {self.unit!r}, "
                f"but got the shape {self.probabilities.shape}."
            )

    @property
    def num_classes(self) -> int:
        """Number of foreground classes C."""
        return len(self.probabilities) - 1

    @cached_property
    def predicted(self) -> Classes:
        """The most probable class of every pixel, background where the annotation is ignored; ``(H, W[, D])``."""
        most_probable = self.probabilities.argmax(axis=0).astype(np.uint8)
        return np.where(self.annotation == IGNORED_LABEL, np.uint8(0), most_probable)

    def with_annotation(self, annotation: Array) -> "PredictedCase":
        """Return the case with another annotation; predicted contours that were found stay known."""
        other = replace(self, annotation=annotation)
        other.__dict__["_surfaces"] = self._surfaces
        return other

    def predicted_surface(self, label: int, number: int, inside: Booleans) -> Surface:
        """Return the contour of a predicted object where the probabilities say it runs; found once.

        Args:
            label: its class.
            number: which of the predicted objects of the class it is.
            inside: its pixels ``(H, W[, D])``.
        """
        known = self._surfaces.get((label, number))
        if known is None or not np.array_equal(known.inside, inside):
            known = surface_of_probabilities(self.probabilities, label, inside, self.spacing)
            self._surfaces[label, number] = known
        return known

    @cached_property
    def _surfaces(self) -> dict[tuple[int, int], Surface]:
        return {}

    def annotated_as(self, label: int) -> Booleans:
        """Return the pixels annotated as a class, ``(H, W[, D])``."""
        return np.asarray(self.annotation == label)

    def predicted_as(self, label: int) -> Booleans:
        """Return the pixels predicted as a class, ``(H, W[, D])``."""
        return np.asarray(self.predicted == label)
