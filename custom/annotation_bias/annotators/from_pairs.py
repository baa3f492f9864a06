"""Boundary bias of each annotator where every case has two of three or more: by the differences of pairs."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse.csgraph import connected_components

from ....transforms.array_types import Floats, Indices
from ..bootstrap import bootstrap_intervals
from ..estimate import Estimate
from ..thresholds import THRESHOLDS

# Of two annotators each is the other's opposite.
_LEAST_ANNOTATORS = 3
# Names of two annotators of a sample, its patient, and by how far the first one's contours lie outside the other's.
PairOffset = tuple[tuple[str, str], str, float]


def pair_estimates(offsets: Sequence[PairOffset], *, seed: int) -> dict[str, Estimate]:
    """Return the boundary bias of each annotator against the median annotator, by name; it stays at the site.

    With b for the bias of an annotator, the median difference of each pair is d_ij = b_i − b_j. The least squares of
    all pairs, weighted by their samples, are b up to a constant, which makes the median annotator's 0. Annotators with
    too few patients, and those that no chain of pairs connects with two others, have no estimate.

    Args:
        offsets: of one class, of samples that two annotators have annotated.
        seed: decides the intervals, which are over patients.
    """
    chosen = _with_enough_patients(offsets)
    result: dict[str, Estimate] = {}
    for names in _connected(chosen):
        if len(names) >= _LEAST_ANNOTATORS:
            result |= _of_connected([one for one in chosen if one[0][0] in names], names, seed)
    return result


def _with_enough_patients(offsets: Sequence[PairOffset]) -> list[PairOffset]:
    """The offsets of annotators with enough patients among them."""
    chosen = list(offsets)
    while True:
        few = {name for name, units in _patients(chosen).items() if len(units) < THRESHOLDS.min_patients_of_annotator}
        if not few:
            return chosen
        chosen = [one for one in chosen if not few & set(one[0])]


def _connected(offsets: Sequence[PairOffset]) -> list[list[str]]:
    """The names of annotators in groups that chains of pairs connect."""
    names = sorted({name for pair, _, _ in offsets for name in pair})
    if not names:
        return []
    places = {name: place for place, name in enumerate(names)}
    edges = np.zeros((len(names), len(names)), dtype=np.intp)
    for one, other in {pair for pair, _, _ in offsets}:
        edges[places[one], places[other]] = 1
    count, groups = connected_components(edges, directed=False)
    return [[name for name in names if groups[places[name]] == group] for group in range(count)]


def _of_connected(offsets: Sequence[PairOffset], names: Sequence[str], seed: int) -> dict[str, Estimate]:
    places = {name: place for place, name in enumerate(names)}
    pairs = np.array([[places[name] for name in pair] for pair, _, _ in offsets], dtype=np.intp)
    values = np.array([value for *_, value in offsets])
    units = [unit for _, unit, _ in offsets]

    def biases(chosen: Indices) -> Floats:
        return _biases(pairs[chosen], values[chosen], len(names))

    intervals = bootstrap_intervals(units, biases, seed=seed)
    patients = _patients(offsets)
    return {
        name: Estimate.of_interval(len(patients[name]), interval)
        for name, interval in zip(names, intervals, strict=True)
    }


def _patients(offsets: Sequence[PairOffset]) -> Mapping[str, set[str]]:
    result: dict[str, set[str]] = {}
    for names, unit, _ in offsets:
        for name in names:
            result.setdefault(name, set()).add(unit)
    return result


def _biases(pairs: Indices, values: Floats, count: int) -> Floats:
    """The biases ``(count,)`` behind differences ``(N,)`` of pairs ``(N, 2)``; NaN where these do not connect all."""
    ordered = np.sort(pairs, axis=1)
    signed = np.where(pairs[:, 0] < pairs[:, 1], values, -values)
    codes, which = np.unique(ordered[:, 0] * count + ordered[:, 1], return_inverse=True)
    design, medians = np.zeros((len(codes), count)), np.zeros(len(codes))
    for row, code in enumerate(codes):
        of_pair = signed[which == row]
        weight = np.sqrt(len(of_pair))
        design[row, code // count], design[row, code % count] = weight, -weight
        medians[row] = weight * np.median(of_pair)
    # Differences determine all but a constant.
    found, _, rank, _ = np.linalg.lstsq(design, medians, rcond=None)
    return found - np.median(found) if rank == count - 1 else np.full(count, np.nan)
