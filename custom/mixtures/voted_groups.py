"""Two groups of sites by a Gaussian mixture, as nine seeds vote (FedNoRo)."""

from collections import Counter

import numpy as np

from ...transforms.array_types import Booleans, Floats
from .fit import fit_mixtures
from .gaussians import FullGaussians

NUM_VOTES = 9
# Added to the diagonal of covariances, and the mean gain in log density that is the last: scikit-learn's.
_FLOOR = 1e-6
_TOLERANCE = 1e-3
_MAX_STEPS = 100


def voted_higher_group(table: Floats, *, refine: bool = True) -> Booleans:
    """Return which rows are of the group with the larger sum of means, ``(K,)``, by the set that most votes have.

    Every vote divides the rows by 2-means from a start of its own (seeds 0 to 8, k-means++), and then by a mixture of
    two Gaussians with full covariance. Among sets with equally many votes the first one counts. Without two distinct
    rows nothing is of the group. There is no test whether there are two groups: other tables always have one.

    Args:
        table: ``(K, D)`` finite values of similar scales.
        refine: whether the mixture follows; with more columns than rows it is 2-means all the same.
    """
    votes: Counter[tuple[bool, ...]] = Counter()
    for seed in range(NUM_VOTES):
        second = _two_means(table, np.random.default_rng(seed))
        if second is None:
            return np.zeros(len(table), dtype=np.bool_)
        votes[tuple(_higher(table, _refined(table, second) if refine else second).tolist())] += 1
    return np.array(votes.most_common(1)[0][0], dtype=np.bool_)


def _two_means(table: Floats, generator: np.random.Generator) -> Booleans | None:
    """Which rows are nearer the second of two centres; None where all rows are equal."""
    centres = table[[generator.integers(len(table))] * 2]
    distances = ((table - centres[0]) ** 2).sum(axis=1)
    if not distances.any():
        return None
    centres[1] = table[generator.choice(len(table), p=distances / distances.sum())]
    second = np.zeros(len(table), dtype=np.bool_)
    for _ in range(_MAX_STEPS):
        from_each = ((table[:, None] - centres) ** 2).sum(axis=-1)
        before, second = second, from_each[:, 1] < from_each[:, 0]
        if (second == before).all():
            break
        centres = np.stack([table[~second].mean(axis=0), table[second].mean(axis=0)])
    return second


def _refined(table: Floats, second: Booleans) -> Booleans:
    """The same after expectation maximisation from there."""
    gaussians = FullGaussians.of_samples(table[None], _FLOOR)
    start = gaussians.maximise(np.stack([~second, second]).astype(np.float64)[None, None])

    def has_converged(before: Floats, after: Floats) -> Booleans:
        small: Booleans = np.abs(after - before) < _TOLERANCE * len(table)
        return small

    posteriors = fit_mixtures(gaussians, start, has_converged).posteriors[0]
    if not np.isfinite(posteriors).all():
        return second
    result: Booleans = posteriors[1] > posteriors[0]
    return result


def _higher(table: Floats, second: Booleans) -> Booleans:
    """The group with the larger sum of means; where all rows are in one group, none is higher."""
    if second.all() or not second.any():
        return np.zeros(len(table), dtype=np.bool_)
    return second if table[second].mean(axis=0).sum() > table[~second].mean(axis=0).sum() else ~second
