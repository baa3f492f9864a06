"""The mixture over losses: against scikit-learn, the closed form of the posterior, and what must not go wrong."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

from fedannot.custom.methods.fedgsca.sample_selector import SampleSelector, selector_coefficient


def losses_of(seed=0, clean=300, noisy=100):
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.gamma(2, 0.15, clean), generator.normal(2.5, 0.6, noisy).clip(0)])


def test_the_posterior_is_bayes_rule():
    selector = SampleSelector((0.3, 2.0), (0.04, 0.5), (0.7, 0.3))
    losses = np.array([0.0, 0.3, 0.9, 1.0, 3.0])
    clean = 0.7 * norm.pdf(losses, 0.3, 0.2)
    noisy = 0.3 * norm.pdf(losses, 2.0, math.sqrt(0.5))
    np.testing.assert_allclose(selector.clean_probability(losses), clean / (clean + noisy), rtol=1e-12)
    # Far from both nothing over- or underflows.
    assert np.isfinite(selector.clean_probability(np.array([1e4, -1e4]))).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_that_of_scikit_learn_from_the_same_start(seed):
    losses = losses_of(seed)
    start = SampleSelector.start(losses)
    fitted = start.fitted(losses)
    theirs = GaussianMixture(
        2,
        weights_init=start.priors,
        means_init=np.reshape(start.means, (2, 1)),
        precisions_init=np.reshape(1 / np.array(start.variances), (2, 1, 1)),
        tol=1e-9,
        max_iter=2000,
        reg_covar=0,
    ).fit(losses[:, None])
    np.testing.assert_allclose(fitted.means, theirs.means_.ravel(), rtol=2e-3)
    np.testing.assert_allclose(fitted.variances, theirs.covariances_.ravel(), rtol=5e-3)
    np.testing.assert_allclose(fitted.priors, theirs.weights_, rtol=2e-3)
    clean = fitted.clean_probability(losses) > 0.5
    assert clean[:300].mean() > 0.9
    assert clean[300:].mean() < 0.1


def test_the_first_round_starts_from_the_two_halves():
    start = SampleSelector.start(np.array([4.0, 0.0, 2.0, 1.0, 6.0]))
    assert start.means == (1.0, 5.0)
    assert start.variances == (pytest.approx(2 / 3), 1.0)
    assert start.priors == (0.5, 0.5)
    with pytest.raises(ValueError, match="at least two losses, but got 1"):
        SampleSelector.start(np.array([1.0]))


def test_components_come_in_the_order_of_their_means():
    losses = losses_of()
    fitted = SampleSelector.start(losses).fitted(losses)
    turned = SampleSelector(fitted.means[::-1], fitted.variances[::-1], fitted.priors[::-1])
    again = turned.fitted(losses)
    assert again.means[0] < again.means[1]
    np.testing.assert_allclose(again.means, fitted.means, rtol=1e-3)


@pytest.mark.parametrize(
    "losses", [np.full(50, 0.3), np.array([*np.full(400, 0.2), 9.0]), np.zeros(3)], ids=["equal", "one apart", "zeros"]
)
def test_a_collapsed_mixture_is_none(losses):
    assert SampleSelector.start(losses).fitted(losses) is None


def test_the_global_selector_is_the_weighted_mean_whatever_the_order():
    one = SampleSelector((0.2, 2.0), (0.1, 0.4), (0.9, 0.1))
    other = SampleSelector((0.6, 1.0), (0.3, 0.8), (0.5, 0.5))
    pooled = SampleSelector.pooled({"b": other, "a": one}, {"a": 300, "b": 100})
    assert pooled.means == pytest.approx((0.3, 1.75))
    assert pooled.variances == pytest.approx((0.15, 0.5))
    assert pooled.priors == pytest.approx((0.8, 0.2))
    assert pooled == SampleSelector.pooled({"a": one, "b": other}, {"b": 100, "a": 300})
    assert SampleSelector.pooled({"a": one}, {"a": 7}) == one


@pytest.mark.parametrize(
    "values",
    [
        ([1.0], [1.0, 1.0], [0.5, 0.5]),
        ([2.0, 1.0], [1.0, 1.0], [0.5, 0.5]),
        ([1.0, 2.0], [0.0, 1.0], [0.5, 0.5]),
        ([1.0, 2.0], [1.0, 1.0], [1.0, 0.0]),
        ([math.nan, 2.0], [1.0, 1.0], [0.5, 0.5]),
    ],
)
def test_what_is_no_mixture_is_refused(values):
    with pytest.raises(ValueError, match=r"mixture of two components|inhomogeneous"):
        SampleSelector.of_lists(*values)


def test_the_coefficient_by_hand():
    # Mean 2, deviation 1: 0.5 (1 + 1/2).
    assert selector_coefficient(np.array([1.0, 3.0])) == pytest.approx(0.75)
    assert selector_coefficient(np.array([0.0, 10.0])) == 0.8
    assert selector_coefficient(np.full(4, 0.7)) == 0.5
    assert selector_coefficient(np.zeros(4)) == 0.5
