"""Probabilities that scores stand for."""

import itertools

import numpy as np
import pytest

from fedannot.custom.audit.calibration import Calibration, area_under_curve, auroc_interval, calibrate


def test_the_area_counts_pairs_and_ties_by_half():
    wrong, right = np.array([0.9, 0.5]), np.array([0.5, 0.1])
    assert area_under_curve(wrong, right) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert area_under_curve(np.zeros(0), right) == 0.5


def test_the_probability_rises_with_the_score():
    generator = np.random.default_rng(0)
    known, given = generator.beta(6, 3, 20), generator.beta(2, 6, 60)
    result = calibrate(known, range(20), given, patients=20, threshold=0.5)
    probabilities = [result.probability(score) for score in np.linspace(0, 1, 21)]
    assert all(low < high for low, high in itertools.pairwise(probabilities))
    assert result.auroc > 0.9


def test_surely_reported_errors_have_a_high_probability_and_others_a_low_one():
    result = calibrate(np.full(20, 0.95), range(20), np.full(200, 0.02), patients=20, threshold=0.5)
    assert result.probability(0.95) > 0.5
    assert result.probability(0.02) < 0.02


def test_a_probability_is_kept_back_where_injected_errors_do_not_show():
    same = np.linspace(0.1, 0.9, 20)
    result = calibrate(same, range(20), same, patients=20, threshold=0.5)
    assert result.auroc == pytest.approx(0.5)
    assert result.probability(0.9) is None
    assert not result.tells


def test_four_patients_tell_nothing():
    result = calibrate(np.full(4, 0.9), range(4), np.full(4, 0.1), patients=4, threshold=0.5)
    assert result.probability(0.9) is None
    assert result.tells


def test_without_injected_errors_nothing_is_known():
    result = calibrate(np.zeros(0), (), np.full(4, 0.1), patients=0, threshold=0.5)
    assert result == Calibration(None, 0)
    assert result.probability(1.0) is None


def test_doubtful_cases_are_not_taken_for_right():
    known, given = np.full(10, 0.9), np.array([0.9] * 8 + [0.05] * 2)
    taken = calibrate(known, range(10), given, patients=10, threshold=0.5)
    doubted = calibrate(known, range(10), given, patients=10, threshold=0.5, doubts=np.array([1.0] * 8 + [0.0] * 2))
    assert taken.probability(0.9) is None
    assert taken.auroc == pytest.approx(0.8 * 0.5 + 0.2)
    assert doubted.auroc == 1.0
    assert doubted.probability(0.9) > 0.5


@pytest.mark.parametrize(("auroc", "positives", "negatives"), [(1.0, 1, 1), (0.93, 24, 24), (0.4, 5, 60), (0.0, 8, 8)])
def test_the_interval_of_an_auroc_is_what_a_search_over_a_grid_finds(auroc, positives, negatives):
    grid = np.linspace(0, 1, 200_001)
    extra = (positives + negatives) / 2 - 1
    # Hanley and McNeil's variance, with the same number for both groups, as Newcombe's method 5 has it.
    variance = grid * (1 - grid) * (1 + extra * (1 - grid) / (2 - grid) + extra * grid / (1 + grid))
    inside = np.abs(auroc - grid) <= 1.6448536 * np.sqrt(variance / (positives * negatives)) + 1e-12
    assert auroc_interval(auroc, positives, negatives) == pytest.approx((grid[inside][0], grid[inside][-1]), abs=2e-5)


def test_of_one_patient_the_interval_is_wilsons():
    assert auroc_interval(1.0, 1, 1) == pytest.approx((1 / (1 + 1.6448536**2), 1.0))
