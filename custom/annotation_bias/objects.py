"""Which annotated object is which predicted one: components matched one to one."""

from dataclasses import dataclass

import numpy as np

from ...transforms.array_types import Booleans, Components
from ...transforms.connected_lesions import label_lesions
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class MatchedObjects:
    """The objects of an annotation and of a prediction, of one class or of all.

    Attributes:
        annotated: annotated objects, numbered from 1, ``(H, W[, D])``.
        predicted: predicted objects, as above.
        num_annotated: how many there are.
        num_predicted: as above.
        pairs: numbers of an annotated object and of the predicted one that it is matched to, by falling overlap.
    """

    annotated: Components
    predicted: Components
    num_annotated: int
    num_predicted: int
    pairs: tuple[tuple[int, int], ...]

    @property
    def unmatched_annotated(self) -> tuple[int, ...]:
        """Numbers of the annotated objects that match none, ascending."""
        matched = {number for number, _ in self.pairs}
        return tuple(number for number in range(1, self.num_annotated + 1) if number not in matched)

    @property
    def unmatched_predicted(self) -> tuple[int, ...]:
        """Numbers of the predicted objects that match none, ascending."""
        matched = {number for _, number in self.pairs}
        return tuple(number for number in range(1, self.num_predicted + 1) if number not in matched)


def match_objects(
    annotated: Booleans, predicted: Booleans, *, smallest_iou: float = THRESHOLDS.min_matching_iou
) -> MatchedObjects:
    """Match connected objects one to one, the largest intersection over union first.

    Args:
        annotated: annotated pixels ``(H, W[, D])``.
        predicted: predicted pixels, as above.
        smallest_iou: objects that overlap less are not the same.

    Raises:
        ValueError: when the masks differ in shape, or have neither two nor three axes.
    """
    if annotated.shape != predicted.shape:
        raise ValueError(f"Expected masks of one shape, but got {annotated.shape} and {predicted.shape}.")
    annotated_objects, num_annotated = label_lesions(annotated)
    predicted_objects, num_predicted = label_lesions(predicted)
    both = (annotated_objects > 0) & (predicted_objects > 0)
    # A pair is one number: numpy sorts these ten times as fast as rows.
    all_codes = annotated_objects[both].astype(np.int64) * (num_predicted + 1) + predicted_objects[both]
    codes, shared = np.unique(all_codes, return_counts=True)
    pairs = np.stack(np.divmod(codes, num_predicted + 1), axis=1)
    sizes = np.bincount(annotated_objects.ravel()), np.bincount(predicted_objects.ravel())
    union = sizes[0][pairs[:, 0]] + sizes[1][pairs[:, 1]] - shared
    overlap = shared / union
    chosen: dict[int, int] = {}
    taken: set[int] = set()
    for index in np.argsort(-overlap, kind="stable"):
        number, other = (int(value) for value in pairs[index])
        if overlap[index] >= smallest_iou and number not in chosen and other not in taken:
            chosen[number] = other
            taken.add(other)
    return MatchedObjects(annotated_objects, predicted_objects, num_annotated, num_predicted, tuple(chosen.items()))
