"""How each annotator annotates compared with the others of the same cases, without a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Booleans, Classes
from ....transforms.connected_lesions import label_lesions
from ..bootstrap import Interval, median_interval, ratio_interval
from ..boundary_bias import mask_offset
from ..estimate import Estimate
from .agreement import classes_of_objects
from .case_annotations import CaseAnnotations
from .from_pairs import PairOffset, pair_estimates

# A majority needs as many annotators; of two each is the other's opposite.
MAJORITY = 3
Counted = list[tuple[str, float, float]]


@dataclass(frozen=True)
class ConsensusEstimates:
    """How one annotator annotates compared with the others of the same cases; by class, it stays at the site.

    Fractions and `from_majority` are of cases with at least three annotators: of two, each is the other's opposite.
    Fractions are of the objects that the majority of the others has annotated.

    Attributes:
        from_others: boundary bias against the majority of the others (leave-one-out); of two, against the other one.
        from_majority: boundary bias against the majority of all.
        from_pairs: boundary bias against the median annotator, of cases with two of at least three annotators; see
            :func:`.from_pairs.pair_estimates`.
        missed: fraction of the others' objects in which nothing is annotated.
        confused: fraction of the others' objects, of all classes, that have another class here.
        compared: by class, the patients behind the boundary bias against the majority of all.
    """

    from_others: tuple[Estimate, ...]
    from_majority: tuple[Estimate, ...]
    from_pairs: tuple[Estimate, ...]
    missed: tuple[Estimate, ...]
    confused: Estimate
    compared: tuple[frozenset[str], ...]


class _Values:
    """What the cases of one annotator show, with their patients."""

    def __init__(self, num_classes: int) -> None:
        self.others: list[list[tuple[str, float]]] = [[] for _ in range(num_classes)]
        self.majority: list[list[tuple[str, float]]] = [[] for _ in range(num_classes)]
        self.missed: list[Counted] = [[] for _ in range(num_classes)]
        self.confused: Counted = []

    def estimates(self, from_pairs: tuple[Estimate, ...], seed: int) -> ConsensusEstimates:
        """Return them with intervals over patients."""
        return ConsensusEstimates(
            tuple(_median(values, seed) for values in self.others),
            tuple(_median(values, seed) for values in self.majority),
            from_pairs,
            tuple(_ratio(counts, seed) for counts in self.missed),
            _ratio(self.confused, seed),
            tuple(frozenset(unit for unit, _ in values) for values in self.majority),
        )


def consensus_estimates(
    cases: Sequence[CaseAnnotations], num_classes: int, *, seed: int
) -> dict[str, ConsensusEstimates]:
    """Return the estimates of every annotator of a case that has at least two, by name; they stay at the site.

    Contours are measured as in :func:`fedannot.custom.annotation_bias.boundary_bias.mask_offset`. Where votes are equal
    the contour of the majority is half-way between those of more than half and of at least half of the annotators.

    Args:
        cases: of the site.
        num_classes: number of foreground classes.
        seed: decides the intervals.
    """
    values: dict[str, _Values] = {}
    offsets: list[list[PairOffset]] = [[] for _ in range(num_classes)]
    for case in cases:
        if len(case.annotators) < 2:
            continue
        for masks in case.samples():
            if len(masks) == 2:
                _compare(offsets, case, masks)
            for index, name in enumerate(case.annotators):
                of_annotator = values.setdefault(name, _Values(num_classes))
                _measure(of_annotator, case, masks, index, num_classes)
    by_pairs = [pair_estimates(of_class, seed=seed) for of_class in offsets]
    return {
        name: values[name].estimates(tuple(one.get(name, Estimate.unknown()) for one in by_pairs), seed)
        for name in sorted(values)
    }


def _compare(offsets: Sequence[list[PairOffset]], case: CaseAnnotations, masks: Sequence[Classes]) -> None:
    """Add what a sample with two annotations says of their difference, by class."""
    one, other = case.annotators
    for label, of_class in enumerate(offsets, start=1):
        offset = _offset(masks[0] == label, [np.asarray(masks[1] == label)], case.spacing)
        if offset is not None:
            of_class.append(((one, other), case.unit, offset))


def _measure(values: _Values, case: CaseAnnotations, masks: Sequence[Classes], index: int, num_classes: int) -> None:
    """Add what one sample says of the annotator with this index."""
    own, others = masks[index], [mask for number, mask in enumerate(masks) if number != index]
    for label in range(1, num_classes + 1):
        of_class = [np.asarray(mask == label) for mask in others]
        offset = _offset(own == label, of_class, case.spacing)
        if offset is not None:
            values.others[label - 1].append((case.unit, offset))
        if len(masks) < MAJORITY:
            continue
        offset = _offset(own == label, [*of_class, own == label], case.spacing)
        if offset is not None:
            values.majority[label - 1].append((case.unit, offset))
        theirs, count = label_lesions(_more_than_half(of_class))
        given = classes_of_objects(own, theirs, count, num_classes)
        values.missed[label - 1].append((case.unit, float((given == 0).sum()), float(count)))
        if num_classes > 1:
            confused = float(((given != 0) & (given != label)).sum())
            values.confused.append((case.unit, confused, float((given != 0).sum())))


def _more_than_half(masks: Sequence[Booleans]) -> Booleans:
    return np.asarray(2 * np.sum(masks, axis=0) > len(masks))


def _offset(own: Booleans, annotators: Sequence[Booleans], spacing: Sequence[float] | None) -> float | None:
    """How far an annotator's contours lie outside of those of the majority of some; None where no object matches."""
    twice = 2 * np.sum(annotators, axis=0)
    majorities = [np.asarray(twice > len(annotators))]
    if len(annotators) % 2 == 0:
        majorities.append(np.asarray(twice >= len(annotators)))
    offsets = [mask_offset(np.asarray(own), majority, spacing) for majority in majorities]
    known = [offset.offset for offset in offsets if offset is not None]
    return float(np.mean(known)) if known else None


def _median(values: Sequence[tuple[str, float]], seed: int) -> Estimate:
    units = [unit for unit, _ in values]
    return _estimate(units, lambda: median_interval([value for _, value in values], units, seed=seed))


def _ratio(counts: Counted, seed: int) -> Estimate:
    """Σ parts / Σ wholes; patients without a whole stand behind nothing."""
    known = [item for item in counts if item[2] > 0]
    units, parts, wholes = [unit for unit, _, _ in known], [part for _, part, _ in known], [all_ for *_, all_ in known]
    return _estimate(units, lambda: ratio_interval(parts, wholes, units, seed=seed))


def _estimate(units: Sequence[str], interval: Callable[[], Interval]) -> Estimate:
    return Estimate.of_interval(len(set(units)), interval()) if units else Estimate.unknown()
