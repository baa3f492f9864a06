"""Spurious objects: annotated where the model sees nothing."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ..examined import ExaminedCase
from ..findings import Unit
from ..object_errors import ObjectWhereNoneIs
from .kind import Kind, Suspicion
from .objects import suspicion_of, without_object

_AROUND_PIXELS = 2


class Spurious(Kind[None]):
    """Annotated objects that match no predicted one: 1 − max p of any class, in them and two pixels around.

    The only feature is that largest probability.
    """

    name = "spurious"
    title = "Objects where none is"
    threshold = 0.8
    error = ObjectWhereNoneIs()

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure every annotated object that matches no predicted one, of whatever class."""
        part, found = case.part, []
        if part is None:
            return []
        together = part.of_any_class
        lone = np.isin(together.annotated, together.unmatched_annotated) & (together.annotated > 0)
        if not lone.any():
            return []
        near = np.ones((2 * _AROUND_PIXELS + 1,) * lone.ndim, dtype=np.bool_)
        foreground = 1 - np.asarray(part.judged.probabilities[0], dtype=np.float64)
        around = ndimage.maximum_filter(foreground, footprint=near, mode="nearest")
        for label in range(1, case.num_classes + 1):
            matched = part.objects(label)
            for number in matched.unmatched_annotated:
                inside = matched.annotated == number
                if lone[inside].all():
                    features = (float(around[inside].max()),)
                    found.append(suspicion_of(case.index, part, inside, features, (label,), annotated=True))
        return found

    def usual(self, given: Sequence[Suspicion]) -> None:
        """Return nothing: the model's probability is enough."""

    def score(self, suspicion: Suspicion, usual: None) -> float:
        """Return 1 − max p."""
        return float(1 - suspicion.features[0])

    def sentence(self, suspicion: Suspicion, usual: None, names: Sequence[str], unit: Unit) -> str:
        """Say how little the model sees there."""
        return (
            f"The model sees nothing where {names[suspicion.labels[0]]} is annotated: a probability of "
            f"{100 * suspicion.features[0]:.0f} % at most."
        )

    def suggestion(
        self,
        suspicion: Suspicion,
        usual: None,
        annotation: NDArray[np.uint8],
        predicted: NDArray[np.uint8],
        spacing: tuple[float, ...] | None,
    ) -> NDArray[np.uint8] | None:
        """Leave it out."""
        return without_object(annotation, suspicion)
