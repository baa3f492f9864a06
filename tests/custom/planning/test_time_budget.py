"""Rounds and steps of a time budget, against the time that they take by hand."""

import math

import pytest

from fedannot.custom.planning.time_budget import PartSeconds, Rounds, RunCost, fit_rounds

# Two sites; a round of n steps takes 2 (0.1 + 0.5 n) s, a scoring 10 s.
COST = RunCost(PartSeconds(0.5, 0.1, 1.0), num_sites=2, scored_cases=10, predicted_cases=0)


def test_a_run_takes_the_sum_of_its_parts() -> None:
    cost = RunCost(PartSeconds(0.5, 0.2, 2.0), num_sites=3, scored_cases=4, predicted_cases=5)
    # 5 cases, 2 scorings of 4 cases, 7 rounds of 3 sites with 6 steps.
    assert cost.seconds(rounds=7, local_steps=6, scorings=2) == pytest.approx(10 + 16 + 7 * 3 * (0.2 + 3))


@pytest.mark.parametrize(
    "given", [{}, {"rounds": 10}, {"local_steps": 30}, {"validate_every": 20}, {"rounds": 7, "validate_every": 2}]
)
@pytest.mark.parametrize("predicted", [0, 500])
def test_an_hour_stays_an_hour(given: dict[str, int], predicted: int) -> None:
    cost = RunCost(PartSeconds(0.5, 0.1, 1.0), num_sites=2, scored_cases=10, predicted_cases=predicted)
    fitted = fit_rounds(cost, 3600.0, **given)
    assert all(getattr(fitted, key) == value for key, value in given.items())
    taken = cost.seconds(fitted.rounds, fitted.local_steps, fitted.scorings)
    # One step or one round more would not fit, but for the last scoring.
    margin = max(fitted.rounds * 2 * cost.parts.step, cost.round_seconds(fitted.local_steps)) + cost.scoring
    assert 3600 - margin <= taken <= 3600


def test_scores_take_a_tenth_of_the_time() -> None:
    fitted = fit_rounds(COST, 1000.0)
    assert (fitted.rounds, fitted.validate_every, fitted.scorings) == (50, 5, 10)
    assert fit_rounds(COST, 100_000.0).validate_every == 1


def test_a_short_time_has_few_rounds_rather_than_few_steps() -> None:
    # 40 s: a scoring of 10 s, and 30 s for rounds of 5.2 s and more.
    fitted = fit_rounds(COST, 40.0)
    assert fitted == Rounds(rounds=5, local_steps=5, validate_every=5)
    assert fit_rounds(COST, 40.0, least_rounds=8) == Rounds(rounds=8, local_steps=3, validate_every=8)


def test_what_does_not_fit_is_as_short_as_can_be() -> None:
    assert fit_rounds(COST, 1.0) == Rounds(rounds=1, local_steps=1, validate_every=1)
    assert fit_rounds(COST, 1.0, rounds=4, local_steps=9).local_steps == 9


def test_predictions_leave_a_part_to_training() -> None:
    cost = RunCost(PartSeconds(1.0, 0.0, 1.0), num_sites=1, scored_cases=0, predicted_cases=5000)
    assert fit_rounds(cost, 1000.0) == Rounds(rounds=50, local_steps=math.floor(300 / 50), validate_every=1)
