"""Two-component Gaussian mixtures of the sites' learning difficulties, from pairs of sites as starts (FedA³I)."""

from dataclasses import fields
from itertools import combinations

import numpy as np

from ....transforms.array_types import Booleans, Floats, Labels
from ...mixtures.fit import MixtureFit, fit_mixtures
from ...mixtures.gaussians import FullGaussians

_BLOCK_ELEMENTS = 200_000  # data sets x starts x samples worked on together, so that the arrays stay in the cache


def fit_from_pairs(
    samples: Floats, floor: float, num_starts: int, generator: np.random.Generator, tolerance: float = 1e-4
) -> MixtureFit:
    """Fit a two-component Gaussian mixture with full covariance to each data set by expectation maximisation.

    A start takes two of the samples as centres and gives each sample to the nearer one. A data set's pairs of centres
    are drawn without repetition, so that one with fewer pairs than starts gets each pair once.

    Args:
        samples: ``(N, K, D)`` data sets of K samples, of unit scale (the floor and the tolerance count in it).
        floor: added to the diagonal of every component's covariance in every step.
        num_starts: starts per data set.
        generator: draws the starts.
        tolerance: a start has converged when a step changes its mean log density per sample by less.
    """
    num_sets, num_samples, _ = samples.shape
    pairs = _draw_pairs(num_sets, num_samples, num_starts, generator)
    block = max(1, _BLOCK_ELEMENTS // (num_samples * pairs.shape[1]))
    parts = [
        _fit_block(samples[first : first + block], pairs[first : first + block], floor, tolerance)
        for first in range(0, num_sets, block)
    ]
    return MixtureFit(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(MixtureFit)))


def _fit_block(samples: Floats, pairs: Labels, floor: float, tolerance: float) -> MixtureFit:
    gaussians = FullGaussians.of_samples(samples, floor)

    def has_converged(before: Floats, after: Floats) -> Booleans:
        # With a floor the likelihood may fall as well.
        small: Booleans = np.abs(after - before) < tolerance * gaussians.num_samples
        return small

    start = gaussians.maximise(_start_posteriors(samples, pairs))
    # Half of the exponentials are saved, which the bootstrap notices.
    return fit_mixtures(gaussians, start, has_converged, rest_to_last=True)


def _draw_pairs(num_sets: int, num_samples: int, num_starts: int, generator: np.random.Generator) -> Labels:
    """Return pairs of samples ``(N, S, 2)``, without repetition in a data set."""
    pairs = np.array(list(combinations(range(num_samples), 2)), dtype=np.int64)
    order = generator.random((num_sets, len(pairs))).argsort(axis=1, kind="stable")
    return pairs[order[:, :num_starts]]


def _start_posteriors(samples: Floats, pairs: Labels) -> Floats:
    """Return ``(N, S, 2, K)``: 1 for the nearer of a start's two centres, 0 for the other."""
    distances = ((samples[:, :, None] - samples[:, None]) ** 2).sum(axis=-1)
    rows = np.arange(len(samples))[:, None]
    first = (distances[rows, pairs[..., 0]] <= distances[rows, pairs[..., 1]]).astype(np.float64)
    return np.stack((first, 1 - first), axis=2)
