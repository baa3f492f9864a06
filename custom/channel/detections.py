"""Objects that a case's annotation misses, and annotated objects of which a model sees nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from .cases import JudgedCase
from .objects import MatchedObjects, match_objects

Floats = NDArray[np.float64]

# An annotated object counts as spurious where the model gives the class less than this in it and around it.
SPURIOUS_PROBABILITY = 0.2
_AROUND_PIXELS = 2
# Three in four annotated objects are at least so sure, and so are three in four of those that are left out.
SURE_QUANTILE = 0.25


@dataclass(frozen=True)
class CaseDetections:
    """The objects of one class in one case; they stay at the site.

    Attributes:
        num_annotated: annotated objects.
        num_spurious: of these, those that match none and of which the model sees nothing.
        matched: largest probability in each predicted object of which something is annotated, ``(m,)``.
        unmatched: in each of the others, ``(u,)``.
    """

    num_annotated: int
    num_spurious: int
    matched: Floats
    unmatched: Floats

    @property
    def num_predicted(self) -> int:
        """Number of predicted objects."""
        return len(self.matched) + len(self.unmatched)

    def by_weight(self, weight: Callable[[Floats], Floats]) -> tuple[float, float]:
        """Return the weights of the matched predicted objects and of all, summed.

        Args:
            weight: of predicted objects by their largest probabilities, such as the probability that one is real.
        """
        matched = float(weight(self.matched).sum())
        return matched, matched + float(weight(self.unmatched).sum())


def case_detections(case: JudgedCase, label: int) -> CaseDetections:
    """Find what is annotated or predicted alone in a case.

    An object that is drawn far too small overlaps a predicted one too little to match it, and is not left out.

    Args:
        case: the case.
        label: the class.
    """
    annotated = case.annotated_as(label)
    matched = match_objects(annotated, case.predicted_as(label))
    probability = np.asarray(case.probabilities[label], dtype=np.float64)
    sureness = _largest(probability, matched.predicted, matched.num_predicted)
    found = np.isin(np.arange(1, matched.num_predicted + 1), matched.predicted[annotated])
    return CaseDetections(matched.num_annotated, _num_spurious(matched, probability), sureness[found], sureness[~found])


def sure_parts(cases: Sequence[CaseDetections]) -> list[tuple[float, float]]:
    """Return of each case how many predicted objects are annotated, and how many there are with those left out.

    What is left out is as sure as what is annotated: a model learns to find objects, not which of them are annotated.
    What it finds by mistake mostly is less sure. So unmatched objects count that are as sure as three in four matched
    ones, over the share of matched ones that are so sure; others do not. Where nothing is matched all of them count.

    Args:
        cases: the detections of a site, or of those of its cases that are compared.
    """
    matched = np.concatenate([case.matched for case in cases]) if cases else np.zeros(0)
    bound = np.quantile(matched, SURE_QUANTILE) if len(matched) else 0.0
    as_sure = float(np.mean(matched >= bound)) if len(matched) else 1.0
    return [(len(case.matched), len(case.matched) + float(np.sum(case.unmatched >= bound)) / as_sure) for case in cases]


def equal_weight(sureness: Floats) -> Floats:
    """Count every predicted object as one: completeness is then the share of them that is annotated."""
    return np.ones_like(sureness)


def probability_as_weight(sureness: Floats) -> Floats:
    """Count a predicted object by its largest probability, as a calibrated model's probability that it is real."""
    return sureness


def unannotated_sureness(case: JudgedCase, label: int) -> Floats:
    """Return where a model sees objects of a class that no annotation touches: the largest probability of each object.

    For :class:`fedannot.transforms.ignore_unannotated.IgnoreUnannotated`; it stays at the site.

    Args:
        case: the case.
        label: the class.

    Returns:
        ``(H, W[, D])``, 0 elsewhere.
    """
    matched = match_objects(case.annotated_as(label), case.predicted_as(label))
    probability = np.asarray(case.probabilities[label], dtype=np.float64)
    sureness = np.concatenate([[0.0], _largest(probability, matched.predicted, matched.num_predicted)])
    touched = np.unique(matched.predicted[case.annotation != 0])
    sureness[touched] = 0.0
    return np.asarray(sureness[matched.predicted])


def _largest(values: Floats, labelled: NDArray[np.int32], count: int) -> Floats:
    """The largest value in each of the objects 1..count."""
    return np.asarray(ndimage.maximum(values, labelled, np.arange(1, count + 1)), dtype=np.float64).reshape(count)


def _num_spurious(matched: MatchedObjects, probability: Floats) -> int:
    near = np.ones((2 * _AROUND_PIXELS + 1,) * probability.ndim, dtype=np.bool_)
    around = ndimage.maximum_filter(probability, footprint=near, mode="nearest")
    largest = _largest(around, matched.annotated, matched.num_annotated)
    return sum(bool(largest[number - 1] < SPURIOUS_PROBABILITY) for number in matched.unmatched_annotated)
