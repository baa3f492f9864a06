"""Noise for privacy: its distribution, its precision against many digits, and the attack that takes it away."""

import math
import os
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from fedannot.custom.outbound.noise_source import standard_normal, with_noise

NUMBER = 1_000_000


def seeded(seed):
    """A source of bytes that can be repeated, for tests."""
    return np.random.default_rng(seed).bytes


@pytest.fixture(scope="module", params=["seeded", "system"])
def drawn(request):
    """Many numbers. Those of the system differ from run to run: every check below has a bound that a right source
    misses once in a billion runs.
    """
    return standard_normal(NUMBER, seeded(7)) if request.param == "seeded" else standard_normal(NUMBER)


def test_moments_are_those_of_the_normal_distribution(drawn):
    """The deviations of mean, variance, skewness and kurtosis of n numbers are the roots of 1, 2, 6 and 24 by n."""
    result = [drawn.mean(), drawn.var() - 1, stats.skew(drawn), stats.kurtosis(drawn)]
    for moment, variance in zip(result, (1, 2, 6, 24), strict=True):
        assert abs(moment) < 6.2 * math.sqrt(variance / NUMBER)


def test_no_difference_to_the_normal_distribution_is_found(drawn):
    assert stats.kstest(drawn, "norm").pvalue > 1e-9


@pytest.mark.parametrize("beyond", [2.0, 3.0, 4.0, 4.5])
def test_both_tails_have_their_share(drawn, beyond):
    share = stats.norm.sf(beyond)
    for count in (int((drawn > beyond).sum()), int((drawn < -beyond).sum())):
        assert stats.binomtest(count, NUMBER, share).pvalue > 1e-9


def test_numbers_that_are_made_together_are_independent(drawn):
    first, second = drawn[: NUMBER // 2], drawn[NUMBER // 2 :]
    for one, other in (
        (first, second),
        (first**2, second**2),
        (first[:-1], first[1:]),
        (first[:-1] ** 2, first[1:] ** 2),
    ):
        assert abs(stats.pearsonr(one, other).statistic) < 6.2 / math.sqrt(len(one))


def words(*values):
    return lambda number: np.array(values, dtype="<u8").tobytes()[:number]


def test_numbers_by_hand():
    """u = 1/2 is the radius √(2 ln 2); an eighth of a turn has cosine and sine √½."""
    root = math.sqrt(math.log(2.0))
    assert standard_normal(2, words(2**63, 0, 2**61)) == pytest.approx([root, root])
    assert standard_normal(1, words(2**63, 0, 0)) == pytest.approx([math.sqrt(2.0) * root])


def test_no_bytes_give_a_number_that_is_none():
    largest = 2**64 - 1
    assert standard_normal(2, words(0, 0, 0)) == pytest.approx([math.sqrt(2 * 128 * math.log(2.0)), 0.0])
    assert standard_normal(2, words(largest, largest, largest)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_as_many_numbers_and_bytes_as_are_asked_for(number):
    asked = []

    def source(wanted):
        asked.append(wanted)
        return bytes(wanted)

    assert standard_normal(number, source).shape == (number,)
    assert asked == [24 * math.ceil(number / 2)]


@pytest.mark.parametrize("smaller_by", [0, 8, 30, 60, 64])
def test_numbers_are_right_to_the_stated_precision(smaller_by):
    """Against 60 digits, in the bulk and in tails; the first word is divided, which leads to a radius of 10."""
    rng = np.random.default_rng(smaller_by)
    high, low, turn = (rng.integers(0, 2**64, size=300, dtype=np.uint64) for _ in range(3))
    high = high >> np.uint64(smaller_by) if smaller_by < 64 else np.zeros_like(high)
    low = low >> np.uint64(11) if smaller_by == 64 else low
    result = standard_normal(600, words(*high, *low, *turn)).reshape(2, 300)
    with mpmath.workdps(60):
        for index in range(300):
            uniform = mpmath.mpf(int(high[index])) / 2**64 + mpmath.mpf(int(low[index]) + 1) / 2**128
            radius = mpmath.sqrt(-2 * mpmath.log(uniform))
            angle = 2 * mpmath.pi * int(turn[index]) / 2**64
            for row, exact in enumerate((radius * mpmath.cos(angle), radius * mpmath.sin(angle))):
                # The error of the radius is larger where that is small, by its share; a border of a cell moves by it.
                assert abs(result[row, index] - exact) < 2.0**-48 * (radius + 1 / radius)


@pytest.mark.parametrize("deviation", [1.0, 1.9, 3e-7, 5e11])
def test_sums_lie_on_a_grid_that_the_values_do_not_change(deviation):
    values = np.random.default_rng(0).normal(size=1000) * deviation
    cell = 2.0 ** math.floor(math.log2(deviation) - 8)
    assert deviation * 2.0**-9 < cell <= deviation * 2.0**-8
    sums = with_noise(values, deviation, seeded(1))
    assert all((Fraction(value) / Fraction(cell)).denominator == 1 for value in sums.tolist())
    exact = values + deviation * standard_normal(1000, seeded(1))
    assert np.abs(sums - exact).max() <= cell / 2 * (1 + 1e-9)
    assert len(np.unique(sums)) > 500


@pytest.mark.parametrize("values", [[math.nan], [0.0, math.inf], [-math.inf]])
def test_what_is_not_finite_gets_no_noise(values):
    with pytest.raises(ValueError, match="Expected finite values and a finite deviation above 0"):
        with_noise(np.array(values), 1.0)


@pytest.mark.parametrize("deviation", [0.0, -1.0, math.nan, math.inf])
def test_no_deviation_is_no_noise(deviation):
    with pytest.raises(ValueError, match=f"but got the deviation {deviation}"):
        with_noise(np.zeros(2), deviation)


# --- the attack: who has the sent and the received model tries seeds on the first entries

CLIP, MULTIPLIER, WINDOW = 1.0, 1.0, range(20_000, 24_000)
UPDATE = np.random.default_rng(5).normal(size=4000) * CLIP / math.sqrt(4000)


def by_torch(seed):
    return torch.randn(16, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).numpy()


def by_numpy(seed):
    return np.random.default_rng(seed).standard_normal(16)


def seeds_found(sent, noise_of):
    """The seeds whose noise leaves of the first sixteen entries what can be an update.

    Entries of a wrong seed are as far away as the difference of two draws, of length 5.7 on average.
    """
    return [seed for seed in WINDOW if np.linalg.norm(sent[:16] - CLIP * MULTIPLIER * noise_of(seed)) < 0.5 * CLIP]


def test_the_noise_of_pytorchs_generator_can_be_taken_away():
    seed = 22_222
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(4000, generator=generator, dtype=torch.float64).numpy()
    sent = (UPDATE + CLIP * MULTIPLIER * noise).astype(np.float32)
    assert seeds_found(sent, by_torch) == [seed]
    assert np.array_equal(by_torch(seed), by_torch(seed + 2**32)), "it keeps 32 bits of its seed"


def test_the_noise_of_a_seed_can_be_taken_away_whatever_the_generator():
    """The attack on this construction, given a seed as no filter gives it."""

    def by_this(seed):
        # The first halves of pairs come first: the sixteen first numbers depend on how many there are.
        return standard_normal(4000, seeded(seed))[:16]

    sent = with_noise(UPDATE, CLIP * MULTIPLIER, seeded(23_456))
    assert seeds_found(sent, by_this) == [23_456]


@pytest.mark.parametrize("noise_of", [by_torch, by_numpy])
def test_the_noise_of_the_system_is_of_no_seed_that_is_tried(noise_of):
    assert seeds_found(with_noise(UPDATE, CLIP * MULTIPLIER), noise_of) == []


def test_two_draws_of_the_system_differ():
    assert not np.isin(standard_normal(100), standard_normal(100)).any()


def test_every_bit_of_the_seed_of_a_test_counts():
    one, other = standard_normal(100, seeded(3)), standard_normal(100, seeded(3 + 2**32))
    assert not np.isin(one, other).any()
    assert np.array_equal(one, standard_normal(100, seeded(3)))


def test_the_system_is_the_source_where_none_is_given():
    for function in (standard_normal, with_noise):
        assert os.urandom in function.__defaults__
