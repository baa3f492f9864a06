"""Confused classes: objects that look like another class than the one that they are annotated as."""

import math
from collections.abc import Sequence

import numpy as np

from ....transforms.array_types import Classes
from ..examined import ExaminedCase
from ..object_errors import ClassTakenForAnother
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Suspicion
from .objects import object_at, suspicion_of

_SMALLEST_PROBABILITY = 1e-4
_LARGEST_LOGIT = 30.0


class Confused(Kind[None]):
    """Objects of the wrong class: mean log p of the most probable other class less mean log p of the given one.

    Objects count that match a predicted one of whatever class. The only feature is that difference.
    """

    name = "swapped"
    # Early models are uncertain of classes rather than of places.
    threshold = 0.25
    error = ClassTakenForAnother()
    explains = ("missing", "spurious", "boundary")

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure every annotated object that the model sees at all."""
        if case.num_classes < 2:
            return []
        part, result = case.part, []
        if part is None:
            return []
        log_p = np.log(np.maximum(np.asarray(part.predicted.probabilities, np.float64), _SMALLEST_PROBABILITY))
        seen = part.predicted.predicted != 0
        for label in range(1, case.num_classes + 1):
            matched = part.objects(label)
            for number in range(1, matched.num_annotated + 1):
                inside = matched.annotated == number
                if np.count_nonzero(inside) < THRESHOLDS.min_object_pixels or not seen[inside].any():
                    continue
                means = log_p[1:, inside].mean(axis=1)
                others = np.where(np.arange(1, case.num_classes + 1) == label, -np.inf, means)
                other = int(others.argmax()) + 1
                difference = float(others.max() - means[label - 1])
                result.append(suspicion_of(case.index, part, inside, (difference,), (label, other), annotated=True))
        return result

    def typical(self, given: Sequence[Suspicion]) -> None:
        """Return nothing: the model's probabilities are enough."""

    def score(self, suspicion: Suspicion, typical: None) -> float:
        """Return the probability of the other class beside the given one."""
        return 1 / (1 + math.exp(-float(np.clip(suspicion.features[0], -_LARGEST_LOGIT, _LARGEST_LOGIT))))

    def suggestion(self, suspicion: Suspicion, typical: None, masks: CaseMasks) -> Classes | None:
        """Return the annotation with the object as the other class."""
        assert suspicion.place is not None
        given, (label, other) = suspicion.place.of(masks.annotation), suspicion.labels
        return np.where(object_at(masks.annotation, suspicion, label), np.uint8(other), given)
