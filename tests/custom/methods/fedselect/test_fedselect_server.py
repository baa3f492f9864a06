"""FedSelect at the server: who trains, whose gradient V follows, and a restart."""

import math
from typing import Any

import pytest
from support.rounds import round_of

from fedannot.custom.methods.fedselect.server import IS_SELECTIVE, SCORER, TRAINED_ROUND, FedSelectServer
from fedannot.custom.methods.fedselect.settings import FedSelectSettings
from fedannot.custom.task_names import MEASURE_SCORER_GRADIENT

SITES = [f"site-{number}" for number in range(1, 11)]


def server(**settings: Any) -> FedSelectServer:
    return FedSelectServer(FedSelectSettings.model_validate({"warmup_rounds": 1, "rounds": 9} | settings))


def reports(weights: dict[str, float | None]) -> dict[str, dict[str, Any]]:
    known = {site: {} if weight is None else {"selection_weight": weight} for site, weight in weights.items()}
    return {site: {"num_samples": 9} | fields for site, fields in known.items()}


class Asked:
    """Answers with a gradient, and takes note of who was asked."""

    def __init__(self, value: float | None) -> None:
        self.value, self.calls = value, []

    def __call__(self, task: str, sites: Any = None, *, own_messages: Any = None) -> dict[str, dict[str, Any]]:
        assert task == MEASURE_SCORER_GRADIENT
        self.calls.append((list(sites), own_messages))
        answer = {} if self.value is None else {"scorer_gradient": [self.value] * 301, "num_proxy_patients": 3}
        return {site: answer for site in sites if answer}


def test_four_of_ten_sites_train_as_equals_and_the_heavier_ones_more_often() -> None:
    made = server()
    chosen = made.sites_to_train(round_of(1), SITES)
    assert len(chosen) == 4
    assert made.weights(round_of(1)).of(chosen[0]) == {"first": 0.25, "last": 0.25}
    made.after_training(round_of(1, reports=reports(dict.fromkeys(SITES, 0.0) | {"site-3": 0.5, "site-8": 0.5})))
    drawn = [made.sites_to_train(round_of(number), SITES) for number in range(2, 9)]
    assert all({"site-3", "site-8"} <= set(sites) for sites in drawn)
    assert len({tuple(sites) for sites in drawn}) > 1
    # The warm-up does not look at weights.
    early = server(warmup_rounds=8)
    early._weights = made._weights
    assert not all({"site-3", "site-8"} <= set(early.sites_to_train(round_of(n), SITES)) for n in range(1, 9))


def test_the_site_of_largest_weight_that_has_trained_says_how_the_scorer_changes() -> None:
    made = server()
    made.before_round(round_of(1))
    made.sites_to_train(round_of(1), SITES)
    before = list(made.message(round_of(1))[SCORER])
    # One without a weight, as its statistics are private, counts as 1; those that have not trained are not asked.
    made.after_training(round_of(1, reports=reports({"site-2": 0.4, "site-5": 0.6})))
    assert made.own_messages(round_of(2)) == {"site-2": {TRAINED_ROUND: 1}, "site-5": {TRAINED_ROUND: 1}}
    ask = Asked(1.0)
    made.before_round(round_of(2, ask=ask))
    assert ask.calls == [(["site-5"], {"site-5": {TRAINED_ROUND: 1}})]
    # Adam's first step is the learning rate against the gradient's sign.
    after = made.message(round_of(2))
    assert after[SCORER] == pytest.approx([value - 1e-3 for value in before], abs=1e-6)
    assert (made.message(round_of(1))[IS_SELECTIVE], after[IS_SELECTIVE]) == (False, True)
    assert made.record(round_of(2))["scorer_site"] == "site-5"


@pytest.mark.parametrize("value", [None, math.nan])
def test_without_a_gradient_the_scorer_stays_and_that_is_said(value: float | None) -> None:
    made, said = server(), []
    made.after_training(round_of(1, reports=reports({"site-2": None})))
    before = made.message(round_of(2))[SCORER]
    made.before_round(round_of(2, ask=Asked(value), said=said))
    assert made.message(round_of(2))[SCORER] == before
    assert made.record(round_of(2))["scorer_site"] is None
    assert "site-2 gave no gradient of the scorer" in said[0]
    assert made.describe(round_of(2))["scorer_steps"] == 0


def test_a_restart_goes_on_with_the_same_scorer_and_sites() -> None:
    made, again = server(), server(seed=5)
    made.after_training(round_of(1, reports=reports({"site-2": 0.4, "site-5": 0.6})))
    made.before_round(round_of(2, ask=Asked(1.0)))
    again.restore(made.state(), [])
    assert again.state() == made.state()
    for part in (made, again):
        part.before_round(round_of(3, ask=Asked(-0.5)))
    assert again.message(round_of(3)) == made.message(round_of(3))
    assert again.describe(round_of(3)) == made.describe(round_of(3))
    assert made.describe(round_of(3))["site_weights"] == {"site-2": 0.4, "site-5": 0.6}
