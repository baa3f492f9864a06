"""Intervals over patients: coverage, and that patients are drawn, not cases."""

import numpy as np
import pytest

from fedannot.custom.annotation_bias.bootstrap import bootstrap_interval, median_interval, ratio_interval


@pytest.mark.parametrize("patients", [12, 30])
def test_nine_of_ten_intervals_of_a_median_hold_the_truth(patients):
    generator = np.random.default_rng(100)
    units = [str(index) for index in range(patients)]
    held = 0
    for repeat in range(150):
        result = median_interval(generator.normal(1.0, 0.7, patients), units, seed=repeat)
        held += result.low <= 1.0 <= result.high
    assert 0.80 <= held / 150 <= 0.97


def test_patients_are_drawn_with_all_their_cases():
    # Ten cases of a patient say the same: intervals are as wide as those of one case for each patient.
    generator = np.random.default_rng(100)
    means = generator.normal(size=15)
    units = [str(index) for index in range(15)]
    single = median_interval(means, units, seed=100)
    many = median_interval(np.repeat(means, 10), np.repeat(units, 10).tolist(), seed=100)
    assert (many.low, many.high) == (single.low, single.high)


def test_the_same_seed_gives_the_same_interval_and_the_order_decides_nothing():
    values, units = [3.0, 1.0, 2.0, 8.0], ["a", "b", "c", "d"]
    first = median_interval(values, units, seed=100)
    assert first == median_interval(values[::-1], units[::-1], seed=100)
    assert first.value == 2.5


def test_a_ratio_is_of_sums():
    result = ratio_interval([1, 2], [4, 4], ["a", "b"], seed=100)
    assert (result.value, result.low, result.high) == (3 / 8, 1 / 4, 1 / 2)


def test_draws_without_a_value_do_not_count():
    result = ratio_interval([1.0, 0.0], [2.0, 0.0], ["a", "b"], seed=100)
    assert (result.value, result.low, result.high) == (0.5, 0.5, 0.5)


def test_no_case_is_refused():
    with pytest.raises(ValueError, match="at least one case"):
        bootstrap_interval([], lambda chosen: 0.0, seed=100)
