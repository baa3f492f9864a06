"""How each annotator labels cases compared with the others of the same cases, without a model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Indices
from ..bootstrap import ratio_interval
from ..estimate import Estimate
from .agreement import kappa_of_votes
from .from_consensus import MAJORITY, ConsensusEstimates

_TWO = 2


@dataclass(frozen=True)
class CaseLabels:
    """The class that each annotator has given one case; it stays at the site.

    Attributes:
        unit: the patient.
        annotators: names, each once.
        classes: from 0, in the order of the annotators.
    """

    unit: str
    annotators: tuple[str, ...]
    classes: tuple[int, ...]


def label_estimates(cases: Sequence[CaseLabels], *, seed: int) -> dict[str, ConsensusEstimates]:
    """Return by annotator the fraction of cases with another class than more than half of the others give.

    Cases have at least three annotators, and a class that more than half of the others give. It stays at the site.

    Args:
        cases: of the site.
        seed: decides the intervals, which are over patients.
    """
    counts: dict[str, list[tuple[str, float]]] = {}
    for case in cases:
        if len(case.annotators) < MAJORITY:
            continue
        for index, name in enumerate(case.annotators):
            others = np.bincount([given for place, given in enumerate(case.classes) if place != index])
            if 2 * others.max() > len(case.classes) - 1:
                counts.setdefault(name, []).append((case.unit, float(others.argmax() != case.classes[index])))
    return {name: _confused(counts[name], seed) for name in sorted(counts)}


def _confused(counts: Sequence[tuple[str, float]], seed: int) -> ConsensusEstimates:
    units = [unit for unit, _ in counts]
    interval = ratio_interval([part for _, part in counts], [1.0] * len(counts), units, seed=seed)
    return ConsensusEstimates((), (), (), (), Estimate.of_interval(len(set(units)), interval), ())


def label_kappa(cases: Sequence[CaseLabels], num_classes: int, *, seed: int) -> Estimate:
    """Return Fleiss' κ of the classes of cases with at least two annotators, with its interval over patients.

    Args:
        cases: of the site.
        num_classes: number of classes C.
        seed: decides the interval.
    """
    common = [case for case in cases if len(case.classes) >= _TWO]
    votes: Indices = np.array([np.bincount(case.classes, minlength=num_classes) for case in common], dtype=np.intp)
    return kappa_of_votes(votes.reshape(len(common), num_classes), [case.unit for case in common], seed=seed)
