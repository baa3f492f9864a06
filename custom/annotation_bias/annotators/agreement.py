"""How far the annotators of a site agree where they annotated the same cases: Dice, HD95, and Fleiss' κ of classes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch

from ....transforms.array_types import Classes, Components, Floats, Indices
from ....transforms.connected_lesions import label_lesions
from ....transforms.ignored_label import IGNORED_LABEL
from ...evaluation.segmentation_scores import score_labels
from ..bootstrap import bootstrap_interval, median_interval
from ..estimate import Estimate
from .case_annotations import CaseAnnotations

# Fewer annotators of a case cannot agree.
_TWO = 2


@dataclass(frozen=True)
class PairAgreement:
    """How far two annotators agree on one class; it stays at the site.

    Attributes:
        annotators: their names.
        label: the class.
        dice: median over the cases in which either has annotated the class; 0 where the other one has not.
        hd95: median over the cases in which both have, in millimetres, pixels without spacing.
    """

    annotators: tuple[str, str]
    label: int
    dice: Estimate
    hd95: Estimate


def pair_agreements(cases: Sequence[CaseAnnotations], num_classes: int, *, seed: int) -> tuple[PairAgreement, ...]:
    """Return how far every two annotators agree on every class, with intervals over patients.

    The slices of a volume are compared together. Pairs that share no case are left out.

    Args:
        cases: of the site.
        num_classes: number of foreground classes.
        seed: decides the intervals.
    """
    scores: dict[tuple[str, str], list[tuple[str, Floats]]] = {}
    for case in cases:
        for one, other in combinations(range(len(case.annotators)), 2):
            first, second = sorted((one, other), key=lambda index: case.annotators[index])
            names = case.annotators[first], case.annotators[second]
            scores.setdefault(names, []).append((case.unit, _scores(case, first, second, num_classes)))
    return tuple(
        PairAgreement(
            names,
            label,
            *(
                _median([(unit, float(of_case[row, label - 1])) for unit, of_case in scores[names]], seed)
                for row in range(2)
            ),
        )
        for names in sorted(scores)
        for label in range(1, num_classes + 1)
    )


def _median(values: Sequence[tuple[str, float]], seed: int) -> Estimate:
    known = [(unit, value) for unit, value in values if math.isfinite(value)]
    if not known:
        return Estimate.unknown()
    units = [unit for unit, _ in known]
    return Estimate.of_interval(len(set(units)), median_interval([value for _, value in known], units, seed=seed))


def _scores(case: CaseAnnotations, first: int, second: int, num_classes: int) -> Floats:
    """Dice and HD95 of each class ``(2, C)``; NaN where neither, or for distances not both, has the class."""
    one, other = (_whole(case.masks[index]) for index in (first, second))
    # Pixels that either ignores count for neither.
    other = torch.where(one == IGNORED_LABEL, one, other)
    scores = score_labels(one, other, num_classes, _spacing(case))
    pairs = zip(scores.dice, scores.annotated, scores.found, strict=True)
    dice = [value if has else 0.0 if has_other else math.nan for value, has, has_other in pairs]
    known = len(case.masks[0]) == 1 or case.spacing is None or case.slice_spacing is not None
    return np.array([dice, scores.hd95 if known else [math.nan] * num_classes], dtype=np.float64)


def _whole(mask: Classes) -> torch.Tensor:
    """The one image or volume that samples ``(S, H, W[, D])`` make up."""
    return torch.from_numpy(np.ascontiguousarray(mask[0] if len(mask) == 1 else mask))


def _spacing(case: CaseAnnotations) -> tuple[float, ...] | None:
    if len(case.masks[0]) == 1 or case.spacing is None or case.slice_spacing is None:
        return case.spacing if len(case.masks[0]) == 1 else None
    return (case.slice_spacing, *case.spacing)


def class_votes(cases: Sequence[CaseAnnotations], num_classes: int) -> tuple[Indices, tuple[str, ...]]:
    """Return how many annotators give each object each class, ``(N, C)``, and the patient of each object.

    Objects are the connected parts of what at least half of a case's annotators annotate, whatever the class. An
    annotator gives an object the class that most of its pixels have; one who annotates nothing there gives none.
    Objects with fewer than two classes given say nothing of agreement and are left out.

    Args:
        cases: of the site.
        num_classes: number of foreground classes C.
    """
    votes, units = [], []
    for case in cases:
        for masks in case.samples():
            annotated = np.sum([mask != 0 for mask in masks], axis=0)
            objects, count = label_lesions(np.asarray(2 * annotated >= len(masks)))
            given = np.array([classes_of_objects(mask, objects, count, num_classes) for mask in masks])
            for number in range(count):
                of_object = np.bincount(given[:, number], minlength=num_classes + 1)[1:]
                if of_object.sum() >= _TWO:
                    votes.append(of_object)
                    units.append(case.unit)
    return np.array(votes, dtype=np.intp).reshape(len(votes), num_classes), tuple(units)


def classes_of_objects(mask: Classes, objects: Components, count: int, num_classes: int) -> Indices:
    """Return the class that most annotated pixels of each object have, 0 where none is annotated, ``(count,)``.

    Args:
        mask: given classes ``(H, W[, D])``.
        objects: numbers of the objects from 1, as above.
        count: of the objects.
        num_classes: number of foreground classes.
    """
    inside = (objects > 0) & (mask > 0)
    table = np.zeros((count, num_classes + 1), dtype=np.intp)
    np.add.at(table, (objects[inside] - 1, mask[inside]), 1)
    return np.asarray(np.where(table.any(axis=1), table.argmax(axis=1), 0), dtype=np.intp)


def fleiss_kappa(votes: Indices) -> float:
    """Return Fleiss' κ (Fleiss, *Measuring nominal scale agreement among many raters*, Psychol. Bull. 76, 1971).

    κ = (P̄ − P̄_e) / (1 − P̄_e). Every subject has at least two votes; their number may differ.

    Args:
        votes: how many raters give each subject each category, ``(N, C)``.

    Returns:
        1 for full agreement, 0 for that of chance; NaN without a subject, or where all votes are for one category.

    Raises:
        ValueError: if a subject has fewer than two votes.

    Example:
        >>> round(fleiss_kappa(np.array([[3, 0], [0, 3], [2, 1]])), 3)
        0.55
    """
    raters = votes.sum(axis=1)
    if (raters < _TWO).any():
        raise ValueError(f"Expected at least two votes for each subject, but found {int(raters.min())} for one.")
    if not len(votes):
        return math.nan
    observed = float((((votes * votes).sum(axis=1) - raters) / (raters * (raters - 1))).mean())
    expected = float(((votes.sum(axis=0) / raters.sum()) ** 2).sum())
    return (observed - expected) / (1 - expected) if expected < 1 else math.nan


def estimate_kappa(cases: Sequence[CaseAnnotations], num_classes: int, *, seed: int) -> Estimate:
    """Return Fleiss' κ of the classes of objects, with its interval over patients; see :func:`class_votes`.

    Unknown for one class, which leaves nothing to agree on.

    Args:
        cases: of the site.
        num_classes: number of foreground classes.
        seed: decides the interval.
    """
    if num_classes < _TWO:
        return Estimate.unknown()
    return kappa_of_votes(*class_votes(cases, num_classes), seed=seed)


def kappa_of_votes(votes: Indices, units: Sequence[str], *, seed: int) -> Estimate:
    """Return Fleiss' κ with its interval over patients; unknown without a subject.

    Args:
        votes: as in :func:`fleiss_kappa`.
        units: the patient of each subject.
        seed: decides the interval.
    """
    if not units:
        return Estimate.unknown()
    interval = bootstrap_interval(units, lambda chosen: fleiss_kappa(votes[chosen]), seed=seed)
    patients = len(set(units))
    result = Estimate.of_interval(patients, interval)
    return result if result.is_known else replace(Estimate.unknown(), patients=patients)
