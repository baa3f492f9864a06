"""Expectation maximisation of mixtures of Gaussians."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...transforms.array_types import Booleans, Floats
from .gaussians import Gaussians, Mixture

MAX_ITERATIONS = 500


@dataclass(frozen=True)
class MixtureFit:
    """Mixtures of M Gaussians fitted to N data sets of K samples in D dimensions, of each data set the best start.

    Attributes:
        log_likelihood: ``(N,)`` sum over the samples of the log density.
        weights: ``(N, M)`` component weights.
        means: ``(N, M, D)`` component means.
        covariances: ``(N, M, D, D)``, or the variances ``(N, M, D)`` where covariances are diagonal.
        posteriors: ``(N, M, K)`` probability of each component for each sample.
        converged: ``(N,)`` whether the best start had converged.
        collapsed: ``(N,)`` whether it had collapsed by the caller's rule; the other values then say nothing.
    """

    log_likelihood: Floats
    weights: Floats
    means: Floats
    covariances: Floats
    posteriors: Floats
    converged: Booleans
    collapsed: Booleans


def posteriors_and_density(
    gaussians: Gaussians, mixture: Mixture, *, rest_to_last: bool = False
) -> tuple[Floats, Floats]:
    """Return each component's probability ``(N, S, M, K)`` and the log density ``(N, S, K)`` of samples, the E step.

    Args:
        gaussians: the samples.
        mixture: of one start or several.
        rest_to_last: whether the last component's probability is what the others leave, not an exponential of its own.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = gaussians.log_densities(mixture) + np.log(mixture.weights)[..., None]
        density = functools.reduce(np.logaddexp, np.moveaxis(joint, -2, 0))
        own = joint[..., :-1, :] if rest_to_last else joint
        posteriors = np.exp(own - density[..., None, :])
    if rest_to_last:
        posteriors = np.concatenate((posteriors, 1 - posteriors.sum(axis=-2, keepdims=True)), axis=-2)
    return posteriors, density


def fit_mixtures(
    gaussians: Gaussians,
    start: Mixture,
    has_converged: Callable[[Floats, Floats], Booleans],
    *,
    has_collapsed: Callable[[Mixture], Booleans] | None = None,
    rest_to_last: bool = False,
) -> MixtureFit:
    """Fit mixtures to data sets by expectation maximisation.

    A data set is done when all its starts have converged or collapsed. Of its starts the most likely one counts that
    has not collapsed.

    Args:
        gaussians: the samples of N data sets, and the form of covariance.
        start: S mixtures for each data set.
        has_converged: says of the log likelihoods before and after a step, ``(N, S)`` each, whether it was the last.
        has_collapsed: says of mixtures, ``(N, S)``, whether a component has collapsed onto a few samples.
        rest_to_last: see :func:`posteriors_and_density`.
    """
    num_sets, num_starts, _ = start.weights.shape
    posteriors = np.zeros((*start.weights.shape, gaussians.num_samples))
    likelihood = np.full((num_sets, num_starts), -np.inf)
    converged = np.zeros((num_sets, num_starts), dtype=np.bool_)
    collapsed = np.zeros((num_sets, num_starts), dtype=np.bool_)
    rows = np.arange(num_sets)
    with np.errstate(divide="ignore", invalid="ignore"):
        active, remaining, mixture = rows, gaussians, start
        for _ in range(MAX_ITERATIONS):
            updated, density = posteriors_and_density(remaining, mixture, rest_to_last=rest_to_last)
            posteriors[active], step_likelihood = updated, density.sum(axis=-1)
            converged[active] = has_converged(likelihood[active], step_likelihood)
            likelihood[active] = step_likelihood
            goes_on = np.any(~(converged[active] | collapsed[active]), axis=1)
            if not goes_on.any():
                break
            if not goes_on.all():
                active, remaining, updated = active[goes_on], remaining.only(goes_on), updated[goes_on]
            mixture = remaining.maximise(updated)
            if has_collapsed is not None:
                collapsed[active] |= has_collapsed(mixture)
        best = np.where(collapsed, -np.inf, likelihood).argmax(axis=1)
        chosen = posteriors[rows, best]
        last = gaussians.maximise(chosen[:, None])
        fallen = collapsed[rows, best]
        if has_collapsed is not None:
            fallen = fallen | has_collapsed(last)[:, 0]
    return MixtureFit(
        likelihood[rows, best],
        last.weights[:, 0],
        last.means[:, 0],
        last.covariances[:, 0],
        chosen,
        converged[rows, best],
        fallen,
    )


def single_log_likelihood(gaussians: Gaussians) -> Floats:
    """Return the log likelihood ``(N,)`` of one Gaussian per data set."""
    one = gaussians.maximise(np.ones((gaussians.num_sets, 1, 1, gaussians.num_samples)))
    total: Floats = gaussians.log_densities(one)[:, 0, 0].sum(axis=-1)
    return total
