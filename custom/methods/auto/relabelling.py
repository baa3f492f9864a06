"""Confused classes at a site: the objects that most surely look like another class than theirs get that one."""

from collections.abc import Sequence

import numpy as np

from ....transforms.array_types import Classes
from ...annotation_bias.cases import PredictedCase
from ...annotation_bias.confusion import (
    ClassObject,
    are_of_known_classes,
    class_objects,
    doubt_of_labels,
    typical_confidence,
)
from ...corrections.pixels import OtherClasses
from .thresholds import THRESHOLDS


class ConfusedObjects:
    """Collects the annotated objects of a site's samples, and chooses those that get another class.

    Never more do than are confused by the estimate: the most confident ones. Objects given a class that the model does
    not know stay as they are.

    Args:
        share: of the objects of known classes, that look like another one.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._objects: list[tuple[int, ClassObject]] = []
        self._num_samples = 0

    def see(self, predicted: PredictedCase) -> None:
        """Take the next sample."""
        if self._share > 0:
            self._objects += [(self._num_samples, item) for item in class_objects(predicted)]
        self._num_samples += 1

    def relabelled(self, samples: Sequence[Classes]) -> list[tuple[OtherClasses, int]]:
        """Return of every sample which objects get another class ``(H, W[, D])``, and how many they are.

        Args:
            samples: the given annotations of all samples, in the order in which they were seen.
        """
        # In the order of memory in which pixels are numbered, whatever the samples have.
        others = [OtherClasses(*np.zeros((2, *given.shape), dtype=np.uint8)) for given in samples]
        counts = [0] * len(samples)
        for index, result, label in self._chosen():
            others[index].given.ravel()[result.pixels] = result.label
            others[index].becomes.ravel()[result.pixels] = label
            counts[index] += 1
        return list(zip(others, counts, strict=True))

    def _chosen(self) -> list[tuple[int, ClassObject, int]]:
        """The objects that get another class: index of the sample, object, and that class."""
        if not self._objects:
            return []
        probabilities = np.stack([one.probabilities for _, one in self._objects])
        labels = np.array([one.label - 1 for _, one in self._objects])
        known = are_of_known_classes(probabilities, labels)
        doubt = np.where(known, doubt_of_labels(probabilities, labels) / typical_confidence(probabilities), -np.inf)
        most_doubtful = np.argsort(-doubt, kind="stable")[: round(self._share * np.count_nonzero(known))]
        seems = probabilities.argmax(axis=1) + 1
        return [
            (*self._objects[at], int(seems[at])) for at in most_doubtful if doubt[at] > THRESHOLDS.relabelling_margin
        ]
