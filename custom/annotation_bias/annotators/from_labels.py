"""How each annotator labels cases compared with the others of the same cases, without a model."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ....transforms.array_types import Floats, Indices
from ..bootstrap import counted_interval, ratio_interval
from ..estimate import Estimate
from ..thresholds import THRESHOLDS
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


@dataclass(frozen=True)
class ClassConfusion:
    """How often an annotator gives one class where more than half of the others give another one.

    Attributes:
        others: the class of the others, from 0.
        own: the class given.
        num_confused: cases in which both is so.
        num_cases: cases in which the others give their class.
        fraction: of the two; unknown below the fewest patients of whom anything is said.
    """

    others: int
    own: int
    num_confused: int
    num_cases: int
    fraction: Estimate


@dataclass(frozen=True)
class OtherClass:
    """How often an annotator gives another class than more than half of the others; it stays at the site.

    Attributes:
        fraction: of the cases of `patients`.
        patients: behind it.
        given: the class from 0 that is mostly given in place of one class of the others; None of all classes together,
            and where fewer patients have it than those of whom anything is said.
    """

    fraction: Estimate
    patients: frozenset[str]
    given: int | None = None


@dataclass(frozen=True)
class PairKappa:
    """How far two annotators agree on classes; it stays at the site.

    Attributes:
        annotators: their names.
        num_cases: that both have labelled.
        kappa: Cohen's; unknown below the fewest patients, and where both give one class alone.
    """

    annotators: tuple[str, str]
    num_cases: int
    kappa: Estimate


def label_estimates(cases: Sequence[CaseLabels], *, seed: int) -> dict[str, ConsensusEstimates]:
    """Return by annotator the fraction of cases with another class than more than half of the others give.

    Cases have at least three annotators, and a class that more than half of the others give. It stays at the site.

    Args:
        cases: of the site.
        seed: decides the intervals, which are over patients.
    """
    counts: dict[str, list[tuple[str, float]]] = {}
    for name, unit, others, own in _compared(cases):
        counts.setdefault(name, []).append((unit, float(others != own)))
    return {name: _confused(counts[name], seed) for name in sorted(counts)}


def _compared(cases: Sequence[CaseLabels]) -> Iterator[tuple[str, str, int, int]]:
    """By annotator and patient the class that more than half of the others give, and the annotator's own."""
    for case in cases:
        if len(case.annotators) < MAJORITY:
            continue
        for index, name in enumerate(case.annotators):
            votes = np.bincount([given for place, given in enumerate(case.classes) if place != index])
            if 2 * votes.max() > len(case.classes) - 1:
                yield name, case.unit, int(votes.argmax()), case.classes[index]


def class_confusions(cases: Sequence[CaseLabels], *, seed: int) -> dict[str, tuple[ClassConfusion, ...]]:
    """Return by annotator the ordered pairs of classes that occur, with the fraction of each; they stay at the site.

    Cases are those of :func:`label_estimates`. A pair that is not listed occurs in no case.

    Args:
        cases: of the site.
        seed: decides the intervals, which are over patients.
    """
    compared: dict[str, dict[int, list[tuple[str, int]]]] = {}
    for name, unit, others, own in _compared(cases):
        compared.setdefault(name, {}).setdefault(others, []).append((unit, own))
    return {
        name: tuple(
            ClassConfusion(others, own, count, len(of_class), _fraction(of_class, own, seed))
            for others, of_class in sorted(compared[name].items())
            for own, count in sorted(Counter(given for _, given in of_class).items())
            if own != others
        )
        for name in sorted(compared)
    }


def other_classes(
    cases: Sequence[CaseLabels], *, seed: int
) -> tuple[dict[str, OtherClass], dict[str, dict[int, OtherClass]]]:
    """Return by annotator the fraction of cases with another class, of all classes and by class of the others.

    Cases are those of :func:`label_estimates`. It stays at the site.

    Args:
        cases: of the site.
        seed: decides the intervals, which are over patients.
    """
    compared: dict[str, list[tuple[str, int, int]]] = {}
    for name, unit, others, own in _compared(cases):
        compared.setdefault(name, []).append((unit, others, own))
    of_all = {name: _other_class(of_name, seed) for name, of_name in compared.items()}
    of_classes = {
        name: {
            label: _other_class([one for one in of_name if one[1] == label], seed)
            for label in sorted({others for _, others, _ in of_name})
        }
        for name, of_name in compared.items()
    }
    return of_all, of_classes


def _other_class(compared: Sequence[tuple[str, int, int]], seed: int) -> OtherClass:
    """Of cases by patient, class of the others and own class."""
    units = [unit for unit, *_ in compared]
    parts = [float(own != others) for _, others, own in compared]
    interval = ratio_interval(parts, [1.0] * len(parts), units, seed=seed)
    return OtherClass(Estimate.of_interval(len(set(units)), interval), frozenset(units), _mostly_given(compared))


def _mostly_given(compared: Sequence[tuple[str, int, int]]) -> int | None:
    if len({others for _, others, _ in compared}) != 1:
        return None
    patients: dict[int, set[str]] = {}
    for unit, others, own in compared:
        if own != others:
            patients.setdefault(own, set()).add(unit)
    most = max(sorted(patients), key=lambda own: len(patients[own]), default=None)
    return most if most is not None and len(patients[most]) >= THRESHOLDS.min_patients_of_annotator else None


def _fraction(of_class: Sequence[tuple[str, int]], own: int, seed: int) -> Estimate:
    units = [unit for unit, _ in of_class]
    patients = len(set(units))
    if patients < THRESHOLDS.min_patients_of_annotator:
        return Estimate.unknown(patients)
    parts = [float(given == own) for _, given in of_class]
    return Estimate.of_interval(patients, ratio_interval(parts, [1.0] * len(parts), units, seed=seed))


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


def pair_kappas(cases: Sequence[CaseLabels], num_classes: int, *, seed: int) -> tuple[PairKappa, ...]:
    """Return Cohen's κ of every two annotators with common cases, with intervals over patients.

    κ = (p_o − p_e) / (1 − p_e) of observed and expected agreement (Cohen, *A coefficient of agreement for nominal
    scales*, Educ. Psychol. Meas. 20, 1960).

    Args:
        cases: of the site.
        num_classes: number of classes.
        seed: decides the intervals.
    """
    common: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for case in cases:
        for one, other in combinations(sorted(zip(case.annotators, case.classes, strict=True)), 2):
            common.setdefault((one[0], other[0]), []).append((case.unit, one[1], other[1]))
    return tuple(
        PairKappa(names, len(of_pair), _kappa(of_pair, num_classes, seed)) for names, of_pair in sorted(common.items())
    )


def _kappa(of_pair: Sequence[tuple[str, int, int]], num_classes: int, seed: int) -> Estimate:
    units = [unit for unit, *_ in of_pair]
    patients = len(set(units))
    if patients < THRESHOLDS.min_patients_of_annotator:
        return Estimate.unknown(patients)
    classes = np.array([given for _, *given in of_pair], dtype=np.intp)
    one, other = (np.eye(num_classes)[classes[:, column]] for column in range(2))
    agree = (classes[:, 0] == classes[:, 1]).astype(np.float64)

    def statistic(counts: Indices) -> Floats:
        total = counts.sum(axis=1)
        observed = counts @ agree / total
        expected = ((counts @ one) * (counts @ other)).sum(axis=1) / total.astype(np.float64) ** 2
        # Draws in which both give one class alone leave nothing to agree on.
        kappa: Floats = np.full(len(counts), np.nan)
        np.divide(observed - expected, 1 - expected, out=kappa, where=expected < 1)
        return kappa

    estimate = Estimate.of_interval(patients, counted_interval(units, statistic, seed=seed))
    return estimate if estimate.is_known else Estimate.unknown(patients)
