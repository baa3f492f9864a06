"""What reviewed cases of several sites say together, and what a site's own add to its estimate: by hand."""

import math

import pytest
from scipy import stats

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.reviewed_cases import pooled_reference, refined

# Student's t of two degrees of freedom beside a normal distribution, of one side and 5 %.
OF_THREE = 2.92 / 1.6449


def of(value, half=1.0, patients=3):
    return Estimate(patients, value, value - half, value + half)


def half_of(estimate):
    return (estimate.high - estimate.low) / 2


def test_all_patients_together_have_the_narrower_interval():
    level = pooled_reference([of(value) for value in (0.2, -0.1, 0.4, 0.1, 0.0, 0.3)])
    assert (level.patients, level.value) == (18, pytest.approx(0.15))
    # Six equal weights, and a median in place of a mean.
    assert half_of(level) == pytest.approx(OF_THREE / math.sqrt(6) * math.sqrt(math.pi / 2), rel=1e-3)


def test_one_site_is_what_it_says_and_two_are_their_weighted_mean():
    alone = pooled_reference([of(0.4, patients=12), Estimate.unknown()])
    assert (alone.patients, alone.value) == (12, 0.4)
    assert half_of(alone) == pytest.approx(stats.t.ppf(0.95, 11) / 1.6449)
    two = pooled_reference([of(0.0, patients=3), of(1.0, patients=9)])
    assert two.value == pytest.approx(0.75)
    assert pooled_reference([Estimate.unknown()]) is None
    assert pooled_reference([of(1.0, patients=1)]) is None


@pytest.mark.parametrize("lie", [1e6, -1e6])
def test_a_site_that_claims_more_than_it_has_moves_no_level_beyond_the_next_site(lie):
    honest = [of(value) for value in (0.0, 0.1, 0.2, 0.3)]
    level = pooled_reference([*honest, of(lie, half=0.0, patients=10**6)])
    assert 0.0 <= level.value <= 0.3


def test_a_weighted_median_counts_patients():
    # Of 3 + 3 + 9 patients more than half are of the last site.
    assert pooled_reference([of(0.0), of(1.0), of(2.0, patients=9)]).value == 2.0
    assert pooled_reference([of(0.0), of(1.0), of(2.0, patients=6)]).value == pytest.approx(1.5)


def test_both_count_by_their_precision():
    """By hand: standard errors 0.6 and, of 12 patients with a t of 1.796 and 0.2 px, 0.3."""
    reviewed = math.sqrt(0.3**2 - 0.2**2) * 1.6449 / (stats.t.ppf(0.95, 11) / 1.6449)
    both = refined(of(2.0, 0.6 * 1.6449, 14), of(2.5, reviewed, 12), pixel_size=1.0)
    weights = 1 / 0.36, 1 / 0.09
    assert both.value == pytest.approx((2.0 * weights[0] + 2.5 * weights[1]) / sum(weights))
    assert half_of(both) == pytest.approx(1.6449 / math.sqrt(sum(weights)))
    assert both.patients == 14


def test_where_they_disagree_the_interval_grows():
    """Three cases that a reviewer left as they were, and fourteen that say 6 px: 0.2 px of errors at the first."""
    both = refined(of(6.0, 1.6449, 14), of(0.0, 0.0), pixel_size=1.0)
    errors = 1.0, 0.2
    disagreement = 6.0 / math.hypot(*errors)
    assert both.value == pytest.approx(6.0 / (1 + 25))
    assert half_of(both) == pytest.approx(1.6449 * disagreement / math.sqrt(1 + 25))


def test_one_reviewed_patient_adds_nothing():
    estimate = of(2.0, 1.0, 14)
    assert refined(estimate, of(5.0, patients=1), pixel_size=1.0) is estimate
