"""Differential privacy: the update's length and noise, and the account against quadrature and another accountant."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from fedannot.custom.outbound.private_updates import (
    is_finite_update,
    patient_mu_squared,
    privatised,
    spent_delta,
    spent_epsilon,
)


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


def test_updates_and_statistics_of_a_patient_are_more_together_than_apart():
    """Two updates with σ = 2 and one estimate with σ = 1; a patient replaced changes an update by twice its length."""
    updates, statistics = 2 / 2.0**2, 1.0
    assert spent_epsilon(updates, 1e-5) == pytest.approx(2.94, abs=0.005)
    assert spent_epsilon(statistics, 1e-5) == pytest.approx(4.38, abs=0.005)
    together = spent_epsilon(patient_mu_squared(updates, statistics), 1e-5)
    assert together == pytest.approx(8.39, abs=0.005)
    # The same from the definition: three Gaussian mechanisms whose means differ by 2/2, 2/2 and 1.
    mean = np.array([2 / 2.0, 2 / 2.0, 1.0])
    assert hockey_stick(together, float(np.linalg.norm(mean))) == pytest.approx(1e-5, rel=1e-4)


def seeded(seed):
    return np.random.default_rng(seed).bytes


def states():
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(200, 100, generator=generator)
    reference = {"w": weight, "n.running_var": torch.zeros(4), "n.count": torch.tensor(2)}
    trained = {"w": reference["w"] + 0.5, "n.running_var": torch.full((4,), 2.0), "n.count": torch.tensor(9)}
    return reference, trained


def test_a_long_update_is_cut_and_keeps_its_direction():
    reference, trained = states()
    sent = privatised(trained, reference, clip_norm=1.0, noise_multiplier=1e-9)
    length = math.sqrt(200 * 100 * 0.25 + 4 * 4.0)
    torch.testing.assert_close(sent["w"] - reference["w"], torch.full((200, 100), 0.5 / length), atol=1e-6, rtol=0)
    torch.testing.assert_close(sent["n.running_var"], torch.full((4,), 2.0 / length), atol=1e-6, rtol=0)
    assert sent["n.count"] == 2, "entries that are no floating numbers stay as they were received"
    assert sent["n.count"].dtype == trained["n.count"].dtype


def test_a_short_update_stays():
    reference, trained = states()
    sent = privatised(trained, reference, clip_norm=1e3, noise_multiplier=1e-12)
    torch.testing.assert_close(sent["w"], trained["w"])


def test_the_noise_has_the_stated_deviation_and_no_variance_is_negative():
    reference, _ = states()
    sent = privatised(dict(reference), reference, clip_norm=3.0, noise_multiplier=0.5, random_bytes=seeded(0))
    noise = sent["w"] - reference["w"]
    # 20,000 draws: the deviation's own is 1.5 / √40000.
    assert float(noise.std()) == pytest.approx(1.5, abs=5 * 1.5 / 200)
    assert float(noise.mean()) == pytest.approx(0.0, abs=5 * 1.5 / math.sqrt(20000))
    assert bool((sent["n.running_var"] >= 0).all())
    assert bool((sent["n.running_var"] > 0).any())


def test_what_is_received_changes_nothing_but_where_the_noise_is_added():
    """Update and noise are added and rounded relative to zero, so that no last bit of θ tells one from the other."""
    zero = {"w": torch.zeros(500, dtype=torch.float64)}
    far = {"w": torch.full((500,), 2.0**20, dtype=torch.float64)}
    update = torch.randn(500, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2.0**-10
    # A multiple of 2⁻²⁰, so that the update is the same in both.
    update = (update * 2.0**20).round() / 2.0**20
    sent = [
        privatised({"w": of["w"] + update}, of, clip_norm=1.0, noise_multiplier=1.0, random_bytes=seeded(2))["w"]
        - of["w"]
        for of in (zero, far)
    ]
    assert torch.equal(*sent)
    cells = sent[0] * 2.0**8
    assert torch.equal(cells, cells.round())


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_no_update_is_longer_than_the_bound_by_rounding(size):
    """In exact arithmetic; next to no noise is drawn, whose grid is as fine."""
    rng = np.random.default_rng(size)
    for scale in (1.0, 1e-30, 1e30, 2.0 * (1 + 1e-12) / math.sqrt(size), 2.0 / math.sqrt(size)):
        update = torch.from_numpy(scale * rng.choice([-1.0, 1.0], size) * rng.uniform(0.999, 1.0, size))
        reference = {"w": torch.zeros(size, dtype=torch.float64)}
        sent = privatised(
            {"w": update}, reference, clip_norm=2.0, noise_multiplier=1e-9, random_bytes=bytes_of_no_noise
        )
        assert sum(Fraction(value) ** 2 for value in sent["w"].tolist()) <= Fraction(2) ** 2


def bytes_of_no_noise(number):
    return b"\xff" * number


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e200])
def test_an_update_that_is_not_finite_counts_as_zero_all_of_it(value):
    """A NaN would make the factor 1, and the rest would leave as long as it is; so would squares that overflow."""
    reference = {"w": torch.zeros(2000, dtype=torch.float64), "b": torch.ones(1, dtype=torch.float64)}
    trained = {"w": torch.full((2000,), 50.0, dtype=torch.float64), "b": torch.tensor([value], dtype=torch.float64)}
    sent, noise = (
        privatised(params, reference, clip_norm=2.0, noise_multiplier=0.5, random_bytes=seeded(4))
        for params in (trained, reference)
    )
    assert all(torch.equal(sent[name], noise[name]) for name in reference)
    assert float(sent["w"].std()) == pytest.approx(1.0, abs=5 / math.sqrt(4000))
    assert (is_finite_update(trained, reference), is_finite_update(reference, reference)) == (False, True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_result_beyond_the_largest_number_is_that_number(dtype):
    """Near the largest number noise decides on which side a sum ends: neither side may be infinite."""
    largest = torch.finfo(dtype).max
    reference = {"w": torch.full((100,), largest, dtype=dtype), "v": torch.full((100,), -largest, dtype=dtype)}
    sent = privatised(reference, reference, clip_norm=largest / 16, noise_multiplier=2.0, random_bytes=seeded(6))
    for name, tensor in sent.items():
        assert tensor.dtype == dtype
        assert bool(torch.isfinite(tensor).all())
        assert 0 < int((tensor == reference[name]).sum()) < 100


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_received_model_that_is_not_finite_is_refused_whatever_was_trained(value):
    received = {"w": torch.zeros(3), "n.running_mean": torch.tensor([0.0, value])}
    for trained in (received, {"w": torch.ones(3), "n.running_mean": torch.zeros(2)}):
        with pytest.raises(ValueError, match="Expected a finite received model, but its 'n\\.running_mean'"):
            privatised(trained, received, clip_norm=2.0, noise_multiplier=1.0)


def test_types_are_those_that_were_received():
    received = {"w": torch.zeros(3, dtype=torch.float64), "n": torch.tensor([1, 2])}
    trained = {"w": torch.ones(3), "n": torch.tensor([1.5, math.nan])}
    sent = privatised(trained, received, clip_norm=2.0, noise_multiplier=1.0)
    assert sent["w"].dtype == torch.float64
    assert torch.equal(sent["n"], received["n"])


@pytest.mark.parametrize("other", [{"w": torch.zeros(3)}, {"v": torch.zeros(2)}, {}])
def test_models_of_different_networks_are_refused(other):
    with pytest.raises(ValueError, match="Expected entries of the same names and shapes"):
        privatised({"w": torch.zeros(2)}, other, clip_norm=2.0, noise_multiplier=1.0)
