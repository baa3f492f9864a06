"""The annotations that several annotators have made of one case."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Classes
from ....transforms.ignored_label import IGNORED_LABEL
from ..ignored_objects import at_ignored


@dataclass(frozen=True)
class CaseAnnotations:
    """One case as each of its annotators has annotated it; it stays at the site.

    Attributes:
        unit: the patient or volume.
        annotators: names, each once.
        masks: the classes that each has given, ``(S, H, W[, D])``, S samples as in :class:`LoadedCase`; 0 for
            background, 255 for ignored pixels.
        spacing: size of a pixel along each axis of a sample in millimetres; None measures in pixels.
        slice_spacing: distance of neighbouring samples in millimetres; None where there are none or it is not known.

    Raises:
        ValueError: if a name stands twice, or numbers or shapes of the masks do not fit.
    """

    unit: str
    annotators: tuple[str, ...]
    masks: tuple[Classes, ...]
    spacing: tuple[float, ...] | None = None
    slice_spacing: float | None = None

    def __post_init__(self) -> None:
        shapes = {mask.shape for mask in self.masks}
        if len(set(self.annotators)) != len(self.masks) or len(self.annotators) != len(self.masks) or len(shapes) != 1:
            raise ValueError(
                f"Expected one mask of each annotator of the case {self.unit!r}, all of one shape, but got "
                f"{len(self.annotators)} annotators and masks of the shapes {[mask.shape for mask in self.masks]}."
            )

    def samples(self) -> Iterator[tuple[Classes, ...]]:
        """Yield the masks ``(H, W[, D])`` of each sample, one of each annotator.

        Objects at pixels that any of them ignores are background in all: their contours are not known whole.
        """
        for index in range(len(self.masks[0])):
            yield without_ignored([mask[index] for mask in self.masks])


def without_ignored(masks: Sequence[Classes]) -> tuple[Classes, ...]:
    """Return masks ``(H, W[, D])`` of one image without the objects at pixels that any of them ignores."""
    ignored = np.any([mask == IGNORED_LABEL for mask in masks], axis=0)
    if not ignored.any():
        return tuple(masks)
    objects = np.any([mask != 0 for mask in masks], axis=0)
    gone = ignored | at_ignored(ignored, objects)
    return tuple(np.where(gone, np.uint8(0), mask) for mask in masks)
