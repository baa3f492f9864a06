"""Wrong labels: images that look like another class than the one that they are given as."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..examined import ExaminedCase
from ..findings import Place, Unit
from ..label_errors import LabelTakenForAnother
from .kind import Kind, Suspicion

_SMALLEST = 1e-6


class WrongLabel(Kind[NDArray[np.float64]]):
    """Labels of images: the given class's probability against what it is, on average, for images given as it.

    So a rare class that the model is never sure of is not doubted for that alone (Northcutt et al., *Confident
    Learning*, JAIR 70, 2021). Features are the probabilities, and the given label is the first of the labels.
    """

    name = "wrong_label"
    title = "Wrong labels"
    tasks = ("classification",)
    threshold = 0.75
    error = LabelTakenForAnother()

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure every sample."""
        found = []
        for sample, (label, of_sample) in enumerate(zip(case.annotation, case.probabilities, strict=True)):
            p = np.asarray(of_sample, dtype=np.float64)
            given = int(label)
            other = int(np.where(np.arange(len(p)) == given, -np.inf, p).argmax())
            found.append(
                Suspicion(
                    case.index,
                    p,
                    Place(sample=sample, start=(), stop=()) if len(case.annotation) > 1 else None,
                    (sample,),
                    (given, other),
                    disagreement=float(np.clip(1 - p[given], 0, 1)),
                    uncertainty=float(case.entropy[sample]),
                )
            )
        return found

    def usual(self, given: Sequence[Suspicion]) -> NDArray[np.float64]:
        """Return the mean probability of each class over the samples given as it; 1 of a class without any."""
        if not given:
            return np.ones(1)
        p = np.stack([one.features for one in given])
        labels = np.array([one.labels[0] for one in given])
        means = [p[labels == label, label].mean() if (labels == label).any() else 1.0 for label in range(p.shape[1])]
        return np.asarray(np.maximum(np.array(means), _SMALLEST))

    def score(self, suspicion: Suspicion, usual: NDArray[np.float64]) -> float:
        """Return 1 / (1 + r), r being the given class's probability over its usual one."""
        given = suspicion.labels[0]
        return float(1 / (1 + suspicion.features[given] / usual[given]))

    def sentence(self, suspicion: Suspicion, usual: NDArray[np.float64], names: Sequence[str], unit: Unit) -> str:
        """Say which class it looks like."""
        given, other = (names[label] for label in suspicion.labels)
        return (
            f"The image is labelled {given} and looks like {other}: the model gives {other} a probability of "
            f"{100 * suspicion.features[suspicion.labels[1]]:.0f} %."
        )
