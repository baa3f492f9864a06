"""Both forms of covariance: the M step against weighted moments of numpy, densities against scipy."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedannot.custom.mixtures.gaussians import DiagonalGaussians, FullGaussians, Mixture

NUM_SETS, NUM_STARTS, NUM_COMPONENTS, NUM_SAMPLES, DIMENSIONS = 2, 3, 3, 12, 2
FLOOR = 0.05


def samples_and_posteriors(seed=0):
    generator = np.random.default_rng(seed)
    posteriors = generator.random((NUM_SETS, NUM_STARTS, NUM_COMPONENTS, NUM_SAMPLES))
    samples = generator.standard_normal((NUM_SETS, NUM_SAMPLES, DIMENSIONS))
    return samples, posteriors / posteriors.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("form", [FullGaussians, DiagonalGaussians])
def test_components_have_the_weighted_moments_of_their_samples(form):
    samples, posteriors = samples_and_posteriors()
    mixture = form.of_samples(samples, FLOOR).maximise(posteriors)
    np.testing.assert_allclose(mixture.weights, posteriors.mean(axis=-1))
    for place in np.ndindex(NUM_SETS, NUM_STARTS, NUM_COMPONENTS):
        data, shares = samples[place[0]], posteriors[place]
        np.testing.assert_allclose(mixture.means[place], np.average(data, axis=0, weights=shares))
        covariance = np.cov(data.T, aweights=shares, ddof=0) + FLOOR * np.eye(DIMENSIONS)
        expected = covariance if form is FullGaussians else np.diag(covariance)
        np.testing.assert_allclose(mixture.covariances[place], expected)


@pytest.mark.parametrize("form", [FullGaussians, DiagonalGaussians])
def test_log_densities_equal_those_of_scipy(form):
    samples, posteriors = samples_and_posteriors(1)
    gaussians = form.of_samples(samples, FLOOR)
    mixture = gaussians.maximise(posteriors)
    result = gaussians.log_densities(mixture)
    assert result.shape == posteriors.shape
    for place in np.ndindex(NUM_SETS, NUM_STARTS, NUM_COMPONENTS):
        covariance = mixture.covariances[place]
        reference = multivariate_normal(
            mixture.means[place], covariance if form is FullGaussians else np.diag(covariance)
        )
        np.testing.assert_allclose(result[place], reference.logpdf(samples[place[0]]), rtol=1e-10)


@pytest.mark.parametrize("form", [FullGaussians, DiagonalGaussians])
def test_some_of_the_data_sets_have_the_same_mixtures(form):
    samples, posteriors = samples_and_posteriors(2)
    gaussians = form.of_samples(samples, FLOOR)
    second = gaussians.only(np.array([False, True]))
    assert (second.num_sets, second.num_samples) == (1, NUM_SAMPLES)
    result, expected = second.maximise(posteriors[1:]), gaussians.maximise(posteriors)
    np.testing.assert_array_equal(result.means, expected.means[1:])
    np.testing.assert_array_equal(result.covariances, expected.covariances[1:])


def test_an_empty_component_of_full_covariance_stays_finite():
    samples, posteriors = samples_and_posteriors(3)
    posteriors[:, :, 0] = 0
    mixture = FullGaussians.of_samples(samples, FLOOR).maximise(posteriors)
    assert (mixture.weights[:, :, 0] == 0).all()
    assert np.isfinite(mixture.means).all()
    np.testing.assert_allclose(mixture.covariances[0, 0, 0], FLOOR * np.eye(DIMENSIONS))


def test_a_mixture_over_one_number_has_one_set_one_start_and_one_dimension():
    mixture = Mixture.in_one_dimension((0.7, 0.3), (0.2, 2.0), (0.04, 0.5))
    assert mixture.weights.tolist() == [[[0.7, 0.3]]]
    assert mixture.means.tolist() == [[[[0.2], [2.0]]]]
    assert mixture.covariances.tolist() == [[[[0.04], [0.5]]]]
