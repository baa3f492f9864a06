"""Spurious objects: annotated where the model sees nothing."""

from collections.abc import Sequence

import numpy as np

from ....transforms.array_types import Classes
from ..examined import ExaminedCase
from ..object_errors import ObjectWhereNoneIs
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Suspicion
from .objects import suspicion_of, without_object


class Spurious(Kind[None]):
    """Annotated objects of which the model sees little: 1 − mean p of any class in them, half of it where one matches.

    The mean tells injected errors better than the largest probability does, most of all where the model has learnt
    them. Features are that mean, and whether the object matches no predicted one of whatever class.
    """

    name = "spurious"
    threshold = 0.85
    error = ObjectWhereNoneIs()

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure every annotated object of at least five pixels; smaller ones are specks."""
        part, result = case.part, []
        if part is None:
            return []
        foreground = 1 - np.asarray(part.predicted.probabilities[0], dtype=np.float64)
        lone = set(part.of_any_class.unmatched_annotated)
        for label in range(1, case.num_classes + 1):
            matched = part.objects(label)
            for number in range(1, matched.num_annotated + 1):
                inside = matched.annotated == number
                if np.count_nonzero(inside) < THRESHOLDS.min_object_pixels:
                    continue
                is_lone = set(np.unique(part.of_any_class.annotated[inside]).tolist()) <= lone
                features = (float(foreground[inside].mean()), float(is_lone))
                result.append(suspicion_of(case.index, part, inside, features, (label,), annotated=True))
        return result

    def typical(self, given: Sequence[Suspicion]) -> None:
        """Return nothing: the model's probability is enough."""

    def score(self, suspicion: Suspicion, typical: None) -> float:
        """Return 1 − mean p, by half for an object that is predicted, too."""
        mean, is_lone = suspicion.features
        return float(1 - mean) * (1.0 if is_lone else THRESHOLDS.weight_of_predicted)

    def figures(self, suspicion: Suspicion, typical: None) -> dict[str, float]:
        """Return ``probability``: the model's, on average over the object."""
        return {"probability": suspicion.features[0]}

    def suggestion(self, suspicion: Suspicion, typical: None, masks: CaseMasks) -> Classes | None:
        """Leave it out."""
        return without_object(masks.annotation, suspicion)
