"""Expectation maximisation: against scikit-learn from the same start, Bayes' rule, and which start counts."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.mixture import GaussianMixture

from fedannot.custom.mixtures.fit import MAX_ITERATIONS, fit_mixtures, posteriors_and_density, single_log_likelihood
from fedannot.custom.mixtures.gaussians import DiagonalGaussians, FullGaussians, Mixture

FLOOR = 0.02
FORMS = {"full": FullGaussians, "diag": DiagonalGaussians}


def three_clusters(seed, dimensions):
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.normal(3.0 * index, 0.6 + 0.2 * index, (30, dimensions)) for index in range(3)])


def within(tolerance):
    return lambda before, after: np.abs(after - before) < tolerance


def start_at(gaussians, samples, centres):
    """The mixture of samples that belong to the nearest of some centres."""
    nearest = np.square(samples[:, None] - centres).sum(axis=-1).argmin(axis=1)
    return gaussians.maximise(np.eye(len(centres))[nearest].T[None, None])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dimensions", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_that_of_scikit_learn_from_the_same_start(form, dimensions, seed):
    samples = three_clusters(seed, dimensions)
    gaussians = FORMS[form].of_samples(samples[None], FLOOR)
    start = start_at(gaussians, samples, samples[[0, 40, 80]])
    fit = fit_mixtures(gaussians, start, within(1e-9))
    covariances = start.covariances[0, 0]
    theirs = GaussianMixture(
        3,
        covariance_type=form,
        weights_init=start.weights[0, 0],
        means_init=start.means[0, 0],
        precisions_init=np.linalg.inv(covariances) if form == "full" else 1 / covariances,
        reg_covar=FLOOR,
        tol=1e-11,
        max_iter=MAX_ITERATIONS,
    ).fit(samples)
    assert fit.converged[0]
    assert not fit.collapsed[0]
    np.testing.assert_allclose(fit.weights[0], theirs.weights_, atol=1e-5)
    np.testing.assert_allclose(fit.means[0], theirs.means_, atol=1e-4)
    np.testing.assert_allclose(fit.covariances[0], theirs.covariances_, atol=1e-4)
    np.testing.assert_allclose(fit.posteriors[0].T, theirs.predict_proba(samples), atol=1e-4)
    assert fit.log_likelihood[0] == pytest.approx(len(samples) * theirs.score(samples), abs=1e-5)


@pytest.mark.parametrize("rest_to_last", [False, True])
def test_the_posterior_is_bayes_rule(rest_to_last):
    values = np.array([-1.0, 0.0, 0.7, 2.0, 5.0])
    mixture = Mixture.in_one_dimension((0.5, 0.3, 0.2), (0.0, 1.0, 4.0), (0.25, 1.0, 4.0))
    gaussians = DiagonalGaussians.of_samples(values[None, :, None])
    posteriors, density = posteriors_and_density(gaussians, mixture, rest_to_last=rest_to_last)
    parts = np.stack([0.5 * norm.pdf(values, 0, 0.5), 0.3 * norm.pdf(values, 1, 1), 0.2 * norm.pdf(values, 4, 2)])
    np.testing.assert_allclose(posteriors[0, 0], parts / parts.sum(axis=0), atol=1e-14)
    np.testing.assert_allclose(density[0, 0], np.log(parts.sum(axis=0)))


def test_the_most_likely_start_counts():
    samples = three_clusters(0, 2)
    gaussians = FullGaussians.of_samples(samples[None], FLOOR)
    starts = [start_at(gaussians, samples, samples[centres]) for centres in ([0, 1, 2], [0, 40, 80], [70, 80, 85])]
    alone = [fit_mixtures(gaussians, start, within(1e-9)).log_likelihood[0] for start in starts]
    together = Mixture(
        *(np.concatenate([getattr(start, name) for start in starts], axis=1) for name in Mixture.__annotations__)
    )
    fit = fit_mixtures(gaussians, together, within(1e-9))
    assert fit.log_likelihood[0] == pytest.approx(max(alone))
    assert max(alone) > min(alone) + 1


def test_a_start_that_collapsed_does_not_count():
    """The variance of a component that has equal samples alone falls without end, and so the likelihood rises."""
    generator = np.random.default_rng(0)
    values = np.concatenate((generator.normal(-10, 1, 30), generator.normal(10, 1, 30), np.full(25, 10.3)))
    gaussians = DiagonalGaussians.of_samples(values[None, :, None])
    sound = Mixture.in_one_dimension((0.4, 0.6), (-10.0, 10.0), (1.0, 1.0))
    spike = Mixture.in_one_dimension((0.7, 0.3), (0.0, 10.3), (100.0, 1e-3))

    def has_collapsed(mixture):
        return mixture.covariances.min(axis=(-1, -2)) < 1e-8

    def fit(*starts):
        joined = (
            np.concatenate([getattr(start, name) for start in starts], axis=1) for name in Mixture.__annotations__
        )
        return fit_mixtures(gaussians, Mixture(*joined), within(1e-9), has_collapsed=has_collapsed)

    assert fit(spike).collapsed[0]
    assert not fit(sound).collapsed[0]
    assert fit(spike).log_likelihood[0] > fit(sound).log_likelihood[0] + 10
    for both in (fit(sound, spike), fit(spike, sound)):
        assert not both.collapsed[0]
        assert both.log_likelihood[0] == pytest.approx(fit(sound).log_likelihood[0])


def test_a_fit_that_never_settles_ends_unconverged():
    samples = three_clusters(1, 1)
    gaussians = DiagonalGaussians.of_samples(samples[None], FLOOR)
    start = start_at(gaussians, samples, samples[[0, 40, 80]])
    steps = []

    def never(before, after):
        steps.append(after)
        return np.zeros(after.shape, dtype=bool)

    fit = fit_mixtures(gaussians, start, never)
    assert not fit.converged[0]
    assert len(steps) == MAX_ITERATIONS
    assert fit.log_likelihood[0] == steps[-1][0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_the_likelihood_of_a_single_gaussian_equals_scipy(form):
    samples = np.random.default_rng(5).standard_normal((3, 9, 4))
    for data, value in zip(samples, single_log_likelihood(FORMS[form].of_samples(samples, 0.1)), strict=True):
        covariance = np.cov(data.T, bias=True) if form == "full" else np.diag(data.var(axis=0))
        reference = multivariate_normal(data.mean(axis=0), covariance + 0.1 * np.eye(4))
        assert value == pytest.approx(reference.logpdf(data).sum())
