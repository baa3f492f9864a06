"""Mixtures from pairs of samples as starts: against the best of scikit-learn's starts and a closed form."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from fedannot.custom.methods.feda3i.paired_starts import fit_from_pairs


@pytest.mark.parametrize("dimensions", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_mixture_agrees_with_scikit_learn(seed, dimensions):
    generator = np.random.default_rng(seed)
    floor = 0.05
    samples = generator.standard_normal((40, dimensions))
    samples[:15, 0] += 2.5
    fit = fit_from_pairs(samples[None], floor, 40, np.random.default_rng(seed), tolerance=1e-9)
    reference = GaussianMixture(2, reg_covar=floor, n_init=20, tol=1e-9, max_iter=2000, random_state=seed).fit(samples)

    assert fit.converged[0]
    assert fit.log_likelihood[0] >= 40 * reference.score(samples) - 1e-5
    reference.means_init, reference.weights_init = fit.means[0], fit.weights[0]
    reference.precisions_init = np.linalg.inv(fit.covariances[0])
    reference.set_params(n_init=1).fit(samples)  # EM of scikit-learn from our optimum stays there
    np.testing.assert_allclose(fit.means[0], reference.means_, atol=1e-3)
    np.testing.assert_allclose(fit.weights[0], reference.weights_, atol=1e-3)
    np.testing.assert_allclose(fit.covariances[0], reference.covariances_, atol=1e-3)
    np.testing.assert_allclose(fit.posteriors[0].T, reference.predict_proba(samples), atol=2e-3)
    assert fit.log_likelihood[0] == pytest.approx(40 * reference.score(samples), abs=1e-5)


def test_mixture_of_separated_clusters_has_the_closed_form():
    generator = np.random.default_rng(3)
    left, right = generator.standard_normal((12, 2)), 100 + generator.standard_normal((8, 2))
    fit = fit_from_pairs(np.concatenate((left, right))[None], 0.01, 20, np.random.default_rng(0))
    order = fit.means[0, :, 0].argsort()
    np.testing.assert_allclose(fit.weights[0, order], [0.6, 0.4])
    for component, cluster in zip(order, (left, right), strict=True):
        np.testing.assert_allclose(fit.means[0, component], cluster.mean(axis=0))
        expected = np.cov(cluster.T, bias=True) + 0.01 * np.eye(2)
        np.testing.assert_allclose(fit.covariances[0, component], expected, atol=1e-8)


def test_a_data_set_is_fitted_the_same_alone_and_in_company():
    samples = np.random.default_rng(6).standard_normal((30, 6, 2))  # 15 pairs: every start is made
    together = fit_from_pairs(samples, 0.1, 20, np.random.default_rng(0))
    for index in (0, 29):
        alone = fit_from_pairs(samples[index : index + 1], 0.1, 20, np.random.default_rng(1))
        assert alone.log_likelihood[0] == pytest.approx(together.log_likelihood[index], abs=1e-3)
