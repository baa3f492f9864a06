"""What estimates prove: Holm by hand, floors, and the word of the error injection."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedannot.custom.annotation_bias.estimate import Estimate, three_digits
from fedannot.custom.annotation_bias.parameters import ParameterKey, ParameterKind
from fedannot.custom.annotation_bias.significance import Criterion, effect_tests, holm
from fedannot.custom.annotation_bias.statuses import EvidenceCode, ReferenceKind, ReferenceLevel, Status

CONFIDENT = Estimate(12, 3.0, 2.5, 3.5, slope=1.0, auroc=0.9)
CRITERION = Criterion(reference=0.0, minimum_effect=0.5)
OFFSET, MISSING = ParameterKey(ParameterKind.OFFSET, 1), ParameterKey(ParameterKind.MISSING, 1)


def result_of(estimate, criterion=CRITERION, others=()):
    sites = {f"other-{index}": {OFFSET: one} for index, one in enumerate(others)}
    estimates = {"site": {OFFSET: estimate}, **sites}
    return effect_tests(estimates, {site: {OFFSET: criterion} for site in estimates})["site"][OFFSET]


def test_holm_by_hand():
    # 4 · 0.01, then 3 · 0.015 = 0.045, then 2 · 0.02 = 0.04 < 0.045, then 0.5.
    assert holm([0.5, 0.015, 0.01, 0.02]) == pytest.approx([0.5, 0.045, 0.04, 0.045])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def codes(result):
    return [item.code for item in result.evidence]


def test_a_sure_large_effect_is_confirmed():
    result = result_of(CONFIDENT)
    assert result.status is Status.CONFIRMED
    assert result.effect == 3.0
    # Half the interval is 1.6449 standard errors.
    assert result.standard_error == pytest.approx(0.5 / 1.6449)
    (thresholds,) = result.evidence
    assert (thresholds.code, thresholds.numbers) == (EvidenceCode.THRESHOLDS, {"level": 0.05, "minimum_effect": 0.5})


def test_the_p_value_is_that_of_a_t_test():
    # Half the interval is 1.6449 standard errors; 2.201 of them leave 5 % with 11 degrees of freedom.
    half = 1.6449 * 3.0 / 2.2010
    assert result_of(replace(CONFIDENT, low=3 - half, high=3 + half)).p_value == pytest.approx(0.05, abs=1e-4)


def test_zero_is_the_reference_level_and_its_own_error_counts():
    assert not result_of(CONFIDENT, Criterion(reference=2.9, minimum_effect=0.0)).is_confirmed
    assert not result_of(CONFIDENT, Criterion(reference=0.0, minimum_effect=0.5, standard_error=3.0)).is_confirmed


def test_more_sites_ask_for_more():
    unsure = replace(CONFIDENT, low=1.4, high=4.6)
    assert result_of(unsure).is_confirmed
    # The more evident sites come first in Holm's order, so others of the same evidence are needed.
    assert not result_of(unsure, others=[replace(unsure, value=0.1, low=-1.5, high=1.7)] * 9).is_confirmed


@pytest.mark.parametrize(
    ("deviations", "others_are_confirmed", "follows", "is_confirmed"),
    [(1.5, True, True, True), (1.35, True, True, False), (1.5, False, True, False), (1.5, True, False, False)],
)
def test_where_all_follow_an_effect_of_root_two_errors_is_enough(
    deviations, others_are_confirmed, follows, is_confirmed
):
    criterion = replace(CRITERION, follows=follows)
    half = 1.6449 * 3.0 / deviations
    other = CONFIDENT if others_are_confirmed else replace(CONFIDENT, value=0.1, low=-0.4, high=0.6)

    result = result_of(replace(CONFIDENT, low=3 - half, high=3 + half), criterion, [other])

    assert result.is_confirmed == is_confirmed
    assert (EvidenceCode.FOLLOWS_OTHERS in codes(result)) == is_confirmed


@pytest.mark.parametrize("true", [1.5, 2.0, 3.0])
def test_following_makes_the_mean_squared_error_smaller(true):
    """Of 600 sites with biases of 1.5 to 3 standard errors; corrected is what the test confirms."""
    measured = true + np.random.default_rng(0).standard_normal(600)
    sites = {
        f"site-{index}": Estimate(12, value, value - 1.6449, value + 1.6449) for index, value in enumerate(measured)
    }
    sites["sure"] = Estimate(12, 50.0, 49.9, 50.1)
    criterion = Criterion.of_offsets(0.0, 0.5)

    def mean_squared_error(follows: bool) -> float:
        criteria = {site: {OFFSET: replace(criterion, follows=follows)} for site in sites}
        tests = effect_tests(
            {site: {OFFSET: replace(one, slope=1.0, auroc=1.0)} for site, one in sites.items()}, criteria
        )
        moved = np.array([tests[f"site-{index}"][OFFSET].is_confirmed for index in range(len(measured))])
        return float(np.mean(np.where(moved, true - measured, true) ** 2))

    assert mean_squared_error(follows=True) < 0.9 * mean_squared_error(follows=False)


def test_a_site_without_bias_follows_in_one_case_of_six():
    """By chance, or since a site that lies is confirmed: P(|z| ≥ √2) = 0.157, and it moves by its own estimate."""
    measured = np.random.default_rng(1).standard_normal(600)
    sites = {
        f"site-{index}": Estimate(12, value, value - 1.6449, value + 1.6449) for index, value in enumerate(measured)
    }
    estimates = {site: {OFFSET: replace(one, slope=1.0, auroc=1.0)} for site, one in sites.items()}
    estimates["liar"] = {OFFSET: replace(CONFIDENT, value=50.0, low=49.9, high=50.1)}
    criterion = replace(Criterion.of_offsets(0.0, 0.5), follows=True)

    tests = effect_tests(estimates, {site: {OFFSET: criterion} for site in estimates})

    moved = [tests[site][OFFSET] for site in sites if tests[site][OFFSET].is_confirmed]
    assert len(moved) / len(sites) == pytest.approx(0.157, abs=0.04)
    assert all(result.effect == sites[site].value for site in sites if (result := tests[site][OFFSET]).is_confirmed)


def test_one_patient_follows_nobody():
    """Its interval has no width, and says nothing of how sure it is."""
    criterion = replace(CRITERION, follows=True)
    alone = Estimate(1, 3.0, 3.0, 3.0, slope=1.0, auroc=0.9)
    assert result_of(alone, criterion, [CONFIDENT]).status is Status.NOT_SIGNIFICANT
    unsure = Estimate(2, 3.0, 0.0, 6.0, slope=1.0, auroc=0.9)
    assert result_of(unsure, criterion, [CONFIDENT]).is_confirmed


def test_tests_of_missed_objects_make_no_boundary_bias_harder_to_prove():
    """p of the offset is 0.02 by hand: alone of its kind it is confirmed, as one of nine tests (0.18) it were not."""
    half = 1.6449 * 3.0 / 2.7181  # t of 11 degrees of freedom with p = 0.02
    undecided = Estimate(12, 0.1, -0.1, 0.3, slope=1.0, auroc=0.9)
    estimates = {"site": {OFFSET: replace(CONFIDENT, low=3 - half, high=3 + half)}}
    estimates |= {f"other-{index}": {MISSING: undecided} for index in range(8)}
    criteria = {site: dict.fromkeys(of_site, CRITERION) for site, of_site in estimates.items()}
    result = effect_tests(estimates, criteria)
    assert result["site"][OFFSET].p_value == pytest.approx(0.02, abs=1e-4)
    assert result["site"][OFFSET].is_confirmed
    # The others are a family of eight: none of them, at p = 0.42 each, is below 1.
    assert {result[site][MISSING].p_value for site in result if site != "site"} == {1.0}


def test_below_the_floor_nothing_is_done():
    result = result_of(Estimate(50, 0.4, 0.39, 0.41, slope=1.0, auroc=0.9))
    assert result.status is Status.SMALL


def test_less_than_the_reference_is_no_fault_of_a_fraction():
    fewer, more = (Estimate(50, 0.5 + sign * 0.3, 0.49 + sign * 0.3, 0.51 + sign * 0.3, 1.0, 0.9) for sign in (-1, 1))
    for kind in ParameterKind:
        key = ParameterKey(kind, 1)
        estimates, criterion = {"less": {key: fewer}, "more": {key: more}}, {key: Criterion(0.5, 0.1)}
        results = effect_tests(estimates, {"less": criterion, "more": criterion})
        assert results["more"][key].status is Status.CONFIRMED
        assert results["less"][key].status is (Status.SMALL if kind.is_fraction else Status.CONFIRMED)
        assert results["less"][key].effect == pytest.approx(-0.3)


@pytest.mark.parametrize(
    ("calibration", "code"),
    [
        ({"auroc": 0.69}, EvidenceCode.AUROC_LOW),
        ({"auroc": math.nan}, EvidenceCode.INJECTED_ERRORS_UNTRIED),
        ({"slope": 0.5}, EvidenceCode.SLOPE_OFF),
        ({"slope": 1.5}, EvidenceCode.SLOPE_OFF),
        ({"slope": math.nan}, EvidenceCode.INJECTED_ERRORS_UNTRIED),
    ],
)
def test_an_error_that_would_not_be_seen_cannot_be_confirmed(calibration, code):
    result = result_of(replace(CONFIDENT, **calibration))
    assert result.status is Status.UNKNOWN
    assert math.isnan(result.p_value)
    assert codes(result) == [code]


def test_a_test_that_does_not_reject_is_not_unknown():
    assert result_of(replace(CONFIDENT, value=0.2, low=-0.3, high=0.7)).status is Status.NOT_SIGNIFICANT


def test_nothing_is_confirmed_where_zero_is_not_known():
    level = ReferenceLevel(ReferenceKind.MEDIAN, 0.0, 0.1, is_confident=False)
    result = result_of(CONFIDENT, Criterion.of_reference_level(level, 0.5))
    assert (result.status, codes(result)) == (Status.UNKNOWN, [EvidenceCode.REFERENCE_UNSURE])
    assert result_of(CONFIDENT, Criterion.of_reference_level(replace(level, is_confident=True), 0.5)).is_confirmed


def test_no_estimate_and_one_patient_prove_nothing():
    assert codes(result_of(Estimate.unknown())) == [EvidenceCode.NO_ESTIMATE]
    assert not result_of(replace(CONFIDENT, patients=1)).is_confirmed


def test_parameters_without_criterion_are_not_assessed():
    assert effect_tests({"site": {MISSING: CONFIDENT}}, {"site": {OFFSET: CRITERION}}) == {"site": {}}


def test_what_leaves_has_three_digits_and_enough_patients():
    exact = Estimate(3, 1.23456, -0.0123456, 123.456, 0.98765, 0.7)
    assert exact.outbound() == Estimate(3, 1.23, -0.0123, 123.0, 0.988, 0.7)
    assert not replace(exact, patients=2).outbound().is_known
    assert replace(exact, patients=2).outbound().patients == 0
    assert math.isnan(three_digits(math.nan))


def test_the_slope_corrects_the_estimate():
    assert replace(CONFIDENT, slope=0.8).corrected() == Estimate(12, 3.75, 3.125, 4.375, 0.8, 0.9)
    assert replace(CONFIDENT, slope=math.nan).corrected().value == 3.0
