"""Differential privacy: the update's length and noise, and the account against quadrature and another accountant."""

import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from fedannot.custom.privacy import privatised, spent_delta, spent_epsilon


def hockey_stick(epsilon, mu):
    """∫ max(0, p − e^ε q) for p = N(μ, 1) and q = N(0, 1): the definition of δ(ε)."""
    start = (epsilon + mu**2 / 2) / mu
    return quad(lambda x: norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), start, start + 30, epsabs=1e-14)[0]


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_delta_is_the_integral_that_defines_it(epsilon, mu):
    assert spent_delta(epsilon, mu) == pytest.approx(hockey_stick(epsilon, mu), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("mu_squared", [0.01, 1.0, 20.0, 400.0])
def test_epsilon_is_the_smallest_for_its_delta(mu_squared):
    epsilon = spent_epsilon(mu_squared, 1e-5)
    assert spent_delta(epsilon, math.sqrt(mu_squared)) == pytest.approx(1e-5, rel=1e-4)


def test_nothing_sent_spends_nothing_and_more_spends_more():
    assert spent_epsilon(0.0, 1e-5) == 0.0
    spent = [spent_epsilon(rounds / 4.0, 1e-5) for rounds in (1, 10, 100)]
    assert spent == sorted(spent)
    assert spent_epsilon(1e30, 1e-5) == math.inf


def test_renyi_accountants_bound_is_above_it_and_near():
    accountants = pytest.importorskip("opacus.accountants")
    accountant = accountants.RDPAccountant()
    for _ in range(20):
        accountant.step(noise_multiplier=2.0, sample_rate=1.0)
    exact = spent_epsilon(20 / 2.0**2, 1e-5)
    assert exact < accountant.get_epsilon(1e-5) < 1.1 * exact


def states():
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(200, 100, generator=generator)
    reference = {"w": weight, "n.running_var": torch.zeros(4), "n.count": torch.tensor(2)}
    trained = {"w": reference["w"] + 0.5, "n.running_var": torch.full((4,), 2.0), "n.count": torch.tensor(9)}
    return reference, trained


def test_a_long_update_is_cut_and_keeps_its_direction():
    reference, trained = states()
    sent = privatised(trained, reference, clip_norm=1.0, noise_multiplier=1e-9, generator=torch.Generator())
    length = math.sqrt(200 * 100 * 0.25 + 4 * 4.0)
    torch.testing.assert_close(sent["w"] - reference["w"], torch.full((200, 100), 0.5 / length), atol=1e-6, rtol=0)
    torch.testing.assert_close(sent["n.running_var"], torch.full((4,), 2.0 / length), atol=1e-6, rtol=0)
    assert sent["n.count"] == 9


def test_a_short_update_stays():
    reference, trained = states()
    sent = privatised(trained, reference, clip_norm=1e3, noise_multiplier=1e-12, generator=torch.Generator())
    torch.testing.assert_close(sent["w"], trained["w"])


def test_the_noise_has_the_stated_deviation_and_no_variance_is_negative():
    reference, _ = states()
    generator = torch.Generator().manual_seed(0)
    sent = privatised(dict(reference), reference, clip_norm=3.0, noise_multiplier=0.5, generator=generator)
    noise = sent["w"] - reference["w"]
    # 20,000 draws: the deviation's own is 1.5 / √40000.
    assert float(noise.std()) == pytest.approx(1.5, abs=5 * 1.5 / 200)
    assert float(noise.mean()) == pytest.approx(0.0, abs=5 * 1.5 / math.sqrt(20000))
    assert bool((sent["n.running_var"] >= 0).all())
    assert bool((sent["n.running_var"] > 0).any())
