"""Objects that a case's annotation misses, and annotated objects of which a model sees nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from ...transforms.array_types import AnyFloats, Booleans, Components, Floats, Indices
from .bootstrap import MOST_COUNTS
from .cases import PredictedCase
from .objects import MatchedObjects, match_objects
from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class CaseDetections:
    """The objects of one class in one case; they stay at the site.

    Attributes:
        num_annotated: annotated objects.
        num_spurious: of these, those that match none and of which the model sees nothing.
        found: largest probability in each predicted object of which something is annotated, ``(m,)``.
        left_out: in each of which nothing is, but for those that are mostly annotated as other classes, ``(u,)``.
    """

    num_annotated: int
    num_spurious: int
    found: Floats
    left_out: Floats

    @property
    def num_predicted(self) -> int:
        """Number of predicted objects, without those of other classes."""
        return len(self.found) + len(self.left_out)


def case_detections(case: PredictedCase, label: int) -> CaseDetections:
    """Find what is annotated or predicted alone in a case.

    A predicted object is annotated where anything in it is: one that is drawn far too small overlaps too little to
    match, and is not left out. One that is mostly annotated as other classes says nothing of completeness.

    Args:
        case: the case.
        label: the class.
    """
    matched, confidence, is_annotated, is_missed = _predicted_objects(case, label)
    return CaseDetections(
        matched.num_annotated,
        _num_spurious(matched, case.probabilities[label]),
        confidence[is_annotated],
        confidence[is_missed],
    )


def completeness_of(cases: Sequence[CaseDetections]) -> float:
    """Return the fraction of the objects that are annotated; NaN where nothing is predicted.

    What is left out is as sure as what is annotated: a model learns to find objects, not which of them are annotated.
    What it finds by mistake mostly is less sure. So objects that are not annotated count that are as sure as three in
    four annotated ones, over the fraction of annotated ones that are so sure; others do not. Where none is annotated
    all of them count.

    Args:
        cases: the detections of a site, or of those of its cases that are compared.
    """
    return float(completeness_of_draws(cases, np.ones((1, len(cases)), dtype=np.intp))[0])


def completeness_of_draws(cases: Sequence[CaseDetections], counts: Indices) -> Floats:
    """Return :func:`completeness_of` draws of cases, all at once ``(draws,)``.

    Args:
        cases: ``N``.
        counts: how often each draw has each case ``(draws, N)``.
    """
    result, left_out = (_with_case([getattr(case, name) for case in cases]) for name in ("found", "left_out"))
    at_once = max(1, MOST_COUNTS // max(len(result[0]) + len(left_out[0]), 1))
    blocks = (counts[start : start + at_once] for start in range(0, len(counts), at_once))
    return np.concatenate([_completeness(*result, *left_out, block) for block in blocks])


def _completeness(found: Floats, of_found: Indices, left_out: Floats, of_left_out: Indices, counts: Indices) -> Floats:
    """The same of some draws, by how sure objects are, ascending, and the case that each is of."""
    found_so_far, left_out_so_far = _so_far(counts[:, of_found]), _so_far(counts[:, of_left_out])
    num_found = found_so_far[:, -1]
    shares = np.where(left_out_so_far[:, -1] > 0, 0.0, np.nan)
    known = np.flatnonzero(num_found > 0)
    if len(known) == 0:
        return shares
    num_found, found_so_far, left_out_so_far = num_found[known], found_so_far[known], left_out_so_far[known]
    bound = _quantile(found, found_so_far, THRESHOLDS.confident_quantile)
    confidently_found = (num_found - _at(found_so_far, np.searchsorted(found, bound))) / num_found
    confidently_left_out = left_out_so_far[:, -1] - _at(left_out_so_far, np.searchsorted(left_out, bound))
    shares[known] = num_found / (num_found + confidently_left_out / confidently_found)
    return shares


def _so_far(counts: Indices) -> Indices:
    """How many there are before each place, and in all: ``(draws, n + 1)``."""
    return np.concatenate([np.zeros((len(counts), 1), dtype=np.intp), np.cumsum(counts, axis=1)], axis=1)


def _at(so_far: Indices, places: Indices) -> Indices:
    """How many of each draw there are before its own place."""
    return so_far[np.arange(len(so_far)), places]


def _with_case(values: Sequence[Floats]) -> tuple[Floats, Indices]:
    """All values, ascending, and the case that each is of."""
    together = np.concatenate([np.zeros(0), *values])
    cases = np.repeat(np.arange(len(values)), [len(of_case) for of_case in values])
    order = np.argsort(together, kind="stable")
    return together[order], cases[order]


def _quantile(ascending: Floats, so_far: Indices, quantile: float) -> Floats:
    """A quantile of values of which each draw has some several times, or not at all, as numpy's is of them."""
    last = so_far[:, -1] - 1
    position = last * quantile
    before = np.floor(position).astype(np.intp)
    low, high = (
        ascending[np.argmax(so_far[:, 1:] > place[:, None], axis=1)] for place in (before, np.minimum(before + 1, last))
    )
    part = position - before
    return np.asarray(np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part)))


def unannotated_confidence(case: PredictedCase, label: int) -> Floats:
    """Return where a model sees objects of a class that are left out: the largest probability of each object.

    For :class:`fedannot.transforms.ignore_unannotated.IgnoreUnannotated`; it stays at the site.

    Args:
        case: the case.
        label: the class.

    Returns:
        ``(H, W[, D])``, 0 elsewhere.
    """
    matched, confidence, _, left_out = _predicted_objects(case, label)
    return np.asarray(np.concatenate([[0.0], np.where(left_out, confidence, 0.0)])[matched.predicted])


def _predicted_objects(case: PredictedCase, label: int) -> tuple[MatchedObjects, Floats, Booleans, Booleans]:
    """The objects of a class; of each predicted one the largest probability, and whether it is found or left out."""
    of_class = case.annotated_as(label)
    matched = match_objects(of_class, case.predicted_as(label))
    predicted, count = matched.predicted, matched.num_predicted
    size, same, other = (
        np.bincount(predicted[pixels], minlength=count + 1)[1:]
        for pixels in (predicted > 0, of_class, (case.annotation != 0) & ~of_class)
    )
    left_out = (same == 0) & (other <= THRESHOLDS.max_part_of_other_class * size)
    return matched, _largest(case.probabilities[label], predicted, count), same > 0, left_out


def _largest(values: AnyFloats, labelled: Components, count: int) -> Floats:
    """The largest value in each of the objects 1..count."""
    largest = ndimage.maximum(np.asarray(values, dtype=np.float64), labelled, np.arange(1, count + 1))
    return np.asarray(largest, dtype=np.float64).reshape(count)


def _num_spurious(matched: MatchedObjects, probability: AnyFloats) -> int:
    near = np.ones((2 * THRESHOLDS.spurious_radius + 1,) * probability.ndim, dtype=np.bool_)
    around = ndimage.maximum_filter(np.asarray(probability, dtype=np.float64), footprint=near, mode="nearest")
    largest = _largest(around, matched.annotated, matched.num_annotated)
    return sum(
        bool(largest[number - 1] < THRESHOLDS.max_spurious_probability) for number in matched.unmatched_annotated
    )
