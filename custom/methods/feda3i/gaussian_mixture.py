"""Two-component Gaussian mixtures with full covariance, fitted to many small data sets at once."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

MAX_ITERATIONS = 500
_BLOCK_ELEMENTS = 200_000  # data sets x starts x samples worked on together, so that the arrays stay in the cache


@dataclass(frozen=True)
class MixtureFit:
    """Two-component mixtures of N data sets in D dimensions, for each data set the best of its starts.

    Attributes:
        log_likelihood: ``(N,)`` sum over the samples of the log density.
        weights: ``(N, 2)`` component weights.
        means: ``(N, 2, D)`` component means.
        covariances: ``(N, 2, D, D)`` component covariances, the floor included.
        posteriors: ``(N, 2, K)`` probability of each component for each sample.
        converged: ``(N,)`` whether the best start had converged.
    """

    log_likelihood: Floats
    weights: Floats
    means: Floats
    covariances: Floats
    posteriors: Floats
    converged: Booleans


def single_log_likelihood(samples: Floats, floor: float) -> Floats:
    """Return the log likelihood ``(N,)`` of one Gaussian per data set, with the same covariance floor as the mixture.

    Args:
        samples: ``(N, K, D)`` data sets of K samples.
        floor: added to the diagonal of the covariance.
    """
    monomials = _monomials(samples)
    whole = np.ones((samples.shape[0], 1, samples.shape[1]))
    _, means, covariances = _maximise(monomials, whole, floor)
    total: Floats = _log_densities(monomials, means, covariances).sum(axis=(1, 2))
    return total


def fit_mixtures(
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
    return MixtureFit(*(np.concatenate([getattr(part, name) for part in parts]) for name in MixtureFit.__annotations__))


def _fit_block(samples: Floats, pairs: NDArray[np.int64], floor: float, tolerance: float) -> MixtureFit:
    num_sets, num_samples, _ = samples.shape
    num_starts = pairs.shape[1]
    monomials = _monomials(samples)
    posteriors = _start_posteriors(samples, pairs)
    likelihood = np.full((num_sets, num_starts), -np.inf)
    converged = np.zeros((num_sets, num_starts), dtype=np.bool_)
    active = np.arange(num_sets)
    for _ in range(MAX_ITERATIONS):
        posteriors[active], step_likelihood = _iterate(monomials[active], posteriors[active], floor)
        converged[active] = np.abs(step_likelihood - likelihood[active]) < tolerance * num_samples
        likelihood[active] = step_likelihood
        active = active[~converged[active].all(axis=1)]
        if not active.size:
            break
    best = likelihood.argmax(axis=1)
    rows = np.arange(num_sets)
    chosen = posteriors.reshape(num_sets, num_starts, 2, num_samples)[rows, best]
    weights, means, covariances = _maximise(monomials, chosen, floor)
    return MixtureFit(likelihood[rows, best], weights, means, covariances, chosen, converged[rows, best])


def _iterate(monomials: Floats, posteriors: Floats, floor: float) -> tuple[Floats, Floats]:
    """One M step and one E step; posteriors ``(N, 2 S, K)`` with the two components of a start side by side."""
    num_sets, num_components, num_samples = posteriors.shape
    weights, means, covariances = _maximise(monomials, posteriors, floor)
    with np.errstate(divide="ignore"):
        joint = _log_densities(monomials, means, covariances) + np.log(weights)[..., None]
    joint = joint.reshape(num_sets, num_components // 2, 2, num_samples)
    density = np.logaddexp(joint[:, :, 0], joint[:, :, 1])
    first = np.exp(joint[:, :, 0] - density)
    updated = np.stack((first, 1 - first), axis=2).reshape(num_sets, num_components, num_samples)
    return updated, density.sum(axis=-1)


def _monomials(samples: Floats) -> Floats:
    """Return (1, x, x xᵀ) of every sample, ``(N, K, 1 + D + D²)``: moments and log densities are products with it."""
    num_sets, num_samples, dimensions = samples.shape
    products = (samples[..., :, None] * samples[..., None, :]).reshape(num_sets, num_samples, dimensions**2)
    return np.concatenate((np.ones((num_sets, num_samples, 1)), samples, products), axis=-1)


def _maximise(monomials: Floats, posteriors: Floats, floor: float) -> tuple[Floats, Floats, Floats]:
    """Return weights ``(N, M)``, means ``(N, M, D)`` and floored covariances ``(N, M, D, D)`` for given posteriors."""
    dimensions = (int(np.sqrt(4 * monomials.shape[-1] - 3)) - 1) // 2
    moments = posteriors @ monomials
    counts = moments[..., :1] + 10 * np.finfo(np.float64).eps  # an empty component keeps a finite mean
    means = moments[..., 1 : 1 + dimensions] / counts
    second = (moments[..., 1 + dimensions :] / counts).reshape(*means.shape, dimensions)
    covariances = second - means[..., :, None] * means[..., None, :] + floor * np.eye(dimensions)
    return moments[..., 0] / posteriors.shape[-1], means, covariances


def _log_densities(monomials: Floats, means: Floats, covariances: Floats) -> Floats:
    """Return the log density ``(N, M, K)`` of every sample under every Gaussian, a quadratic form in it."""
    dimensions = means.shape[-1]
    precisions, log_determinant = _invert(covariances)
    linear = (precisions @ means[..., None])[..., 0]
    constant = -0.5 * ((linear * means).sum(axis=-1) + log_determinant + dimensions * np.log(2 * np.pi))
    quadratic = -0.5 * precisions.reshape(*linear.shape[:-1], dimensions**2)
    coefficients = np.concatenate((constant[..., None], linear, quadratic), axis=-1)
    log_densities: Floats = coefficients @ monomials.swapaxes(-1, -2)
    return log_densities


def _invert(matrices: Floats) -> tuple[Floats, Floats]:
    """Return inverses and log determinants of positive definite matrices ``(..., D, D)``.

    Gauss-Jordan steps over all matrices together: many times faster than ``numpy.linalg`` for thousands of small ones.
    """
    work = np.moveaxis(matrices, (-2, -1), (0, 1)).copy()
    log_determinant = np.zeros(work.shape[2:])
    for pivot in range(len(work)):
        value = work[pivot, pivot].copy()
        log_determinant += np.log(value)
        row, column = work[pivot] / value, work[:, pivot].copy()
        work -= column[:, None] * row
        work[pivot], work[:, pivot] = row, -column / value
        work[pivot, pivot] = 1 / value
    return np.moveaxis(work, (0, 1), (-2, -1)), log_determinant


def _draw_pairs(num_sets: int, num_samples: int, num_starts: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return pairs of samples ``(N, S, 2)``, without repetition in a data set."""
    pairs = np.array(list(combinations(range(num_samples), 2)), dtype=np.int64)
    order = generator.random((num_sets, len(pairs))).argsort(axis=1, kind="stable")
    return pairs[order[:, :num_starts]]


def _start_posteriors(samples: Floats, pairs: NDArray[np.int64]) -> Floats:
    """Return ``(N, 2 S, K)``: 1 for the nearer of a start's two centres, 0 for the other."""
    num_sets, num_samples, _ = samples.shape
    distances = ((samples[:, :, None] - samples[:, None]) ** 2).sum(axis=-1)
    rows = np.arange(num_sets)[:, None]
    first = (distances[rows, pairs[..., 0]] <= distances[rows, pairs[..., 1]]).astype(np.float64)
    return np.stack((first, 1 - first), axis=2).reshape(num_sets, -1, num_samples)
