"""FedA³I at the server: when it estimates, and weights by quality where there are two groups or evidence for them."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from support.rounds import round_of
from test_feda3i_estimate import answers_of_one_direction

from fedannot.custom.methods.feda3i.estimate import QualityAnswer, QualityEstimate
from fedannot.custom.methods.feda3i.records import NoGroups
from fedannot.custom.methods.feda3i.server import FedA3IServer, mean_predicted_share
from fedannot.custom.methods.feda3i.settings import FedA3ISettings
from fedannot.custom.task_names import ESTIMATE_QUALITY

BLOCKS = ("first", "middle", "last")
SAMPLES = {"a": 30, "b": 10, "c": 40, "d": 20}


def server(**settings: Any) -> FedA3IServer:
    return FedA3IServer(FedA3ISettings.model_validate(settings))


def estimated(p_value: float, reason: NoGroups | None = None, **settings: Any) -> FedA3IServer:
    """After the warm-up; a and b draw larger (strengths 1 and 3), c and d smaller (1 and 2)."""
    made = server(**settings)
    made.estimate = QualityEstimate(
        inner={"a": [2.0], "b": [4.0], "c": [1.0], "d": [1.0]},
        outer={"a": [1.0], "b": [1.0], "c": [2.0], "d": [3.0]},
        larger=() if reason else ("a", "b"),
        smaller=() if reason else ("c", "d"),
        reason=reason,
        p_value=p_value,
    )
    return made


def matrix(made: FedA3IServer) -> dict[str, list[float]]:
    weights = made.weights(round_of(7, num_samples=SAMPLES, blocks=BLOCKS))
    assert weights is not None
    return {site: list(weights.of(site).values()) for site in weights.sites}


def test_quality_counts_more_in_deeper_blocks():
    # Eq. 6: all of its group's half for the better of two sites. Eq. 7 with λ = 0, 1/2, 1.
    result = matrix(estimated(0.01))
    assert result == {
        "a": pytest.approx([0.3, 0.4, 0.5]),
        "b": pytest.approx([0.1, 0.05, 0.0]),
        "c": pytest.approx([0.4, 0.45, 0.5]),
        "d": pytest.approx([0.2, 0.1, 0.0]),
    }


def test_with_shrinkage_quality_counts_by_the_evidence():
    # e = 1 − p = 3/4, so λ = 0, 3/8, 3/4.
    result = matrix(estimated(0.25, group_decision="shrink"))
    assert result == {
        "a": pytest.approx([0.3, 0.375, 0.45]),
        "b": pytest.approx([0.1, 0.0625, 0.025]),
        "c": pytest.approx([0.4, 0.4375, 0.475]),
        "d": pytest.approx([0.2, 0.125, 0.05]),
    }


def test_shrinkage_meets_federated_averaging_and_the_published_form_at_its_ends():
    everything = matrix(estimated(0.0, group_decision="shrink"))
    assert everything == matrix(estimated(0.01))
    nothing = matrix(estimated(1.0, group_decision="shrink"))
    assert nothing == {site: pytest.approx([count / 100] * 3) for site, count in SAMPLES.items()}


@pytest.mark.parametrize("decision", ["test", "shrink"])
def test_without_groups_sites_weigh_by_quantity(decision):
    made = estimated(0.5, reason=NoGroups.NOT_CONVERGED, group_decision=decision)
    assert made.weights(round_of(7, num_samples=SAMPLES, blocks=BLOCKS)) is None


def test_the_weights_that_are_described_are_those_that_count():
    """In the last block c has half by quality, 0.4 by quantity; d has nothing, of 0.2."""
    bounded = {"max_quality_ratio": 2.0}
    this_round = round_of(7, num_samples=SAMPLES, blocks=BLOCKS, influence=bounded)
    described = estimated(0.01, influence=bounded).describe(this_round)["weights"]
    last = {site: row[-1] for site, row in zip(described["sites"], described["values"], strict=True)}
    # b and d stay at half of theirs, 0.05 and 0.1; a and c divide the rest, 0.85, equally.
    assert last == pytest.approx({"a": 0.425, "b": 0.05, "c": 0.425, "d": 0.1})


@pytest.mark.parametrize(
    ("shares", "expected"),
    [((0.25, 0.75), 0.5), ((1e9, 0.0), 0.5), ((-1e9, 1.0), 0.5), ((math.nan, 0.5), 0.5), ((math.nan,), 0.0)],
)
def test_a_share_that_cannot_be_one_decides_nothing_alone(shares, expected):
    answers = {f"site-{number}": QualityAnswer((), (), share) for number, share in enumerate(shares)}
    assert mean_predicted_share(answers) == pytest.approx(expected)


class Sites:
    """Six sites, three of which draw larger and three smaller, and how often they were asked."""

    def __init__(self, share: float = 1.0) -> None:
        self.share, self.asked = share, 0

    def __call__(self, task: str, sites: object = None) -> dict[str, dict[str, Any]]:
        assert (task, sites) == (ESTIMATE_QUALITY, None)
        self.asked += 1
        inner = {"a": 1.0, "b": 1.1, "c": 0.9, "d": 0.1, "e": 0.12, "f": 0.08}
        return {
            site: {
                "num_samples": 10,
                "num_annotated": 10,
                "num_estimated": [10],
                "inner_difficulty": [value],
                "outer_difficulty": [1.1 - value],
                "predicted_share": self.share,
            }
            for site, value in inner.items()
        }


def test_the_estimate_is_made_once_after_the_warm_up() -> None:
    made, sites = server(warmup_rounds=2, rounds=9), Sites()
    said: list[str] = []
    for number in (1, 2):
        made.before_round(round_of(number, ask=sites, said=said))
        assert (made.stage(round_of(number)), made.weights(round_of(number, num_samples=SAMPLES))) == ("warm-up", None)
    assert sites.asked == 0
    made.before_round(round_of(3, ask=sites, said=said))
    assert made.estimate is not None
    assert (set(made.estimate.larger), set(made.estimate.smaller)) == ({"a", "b", "c"}, {"d", "e", "f"})
    assert made.stage(round_of(3)) == "quality-aware"
    assert said == ["Drawing larger: ['a', 'b', 'c']; smaller: ['d', 'e', 'f']."]
    made.before_round(round_of(4, ask=sites))
    assert sites.asked == 1


@pytest.mark.parametrize(("scale", "found"), [("difficulty", True), ("log", False)])
def test_groups_are_looked_for_on_the_scale_that_the_settings_say(scale: str, found: bool) -> None:
    """Sites that all draw larger, by evenly spread offsets."""
    made = server(warmup_rounds=2, rounds=9, min_predicted_fraction=0.0, group_scale=scale)
    made.before_round(round_of(3, ask=lambda *_: answers_of_one_direction()))
    assert made.estimate is not None
    assert made.estimate.has_groups == found


@pytest.mark.parametrize(("extra", "estimated_before"), [(0, 3), (2, 5)])
def test_a_warm_up_model_that_finds_nothing_goes_on_training_for_a_while(extra: int, estimated_before: int) -> None:
    made, sites = server(warmup_rounds=2, rounds=9, max_extra_warmup_rounds=extra), Sites(share=0.2)
    said: list[str] = []
    for number in range(3, estimated_before):
        made.before_round(round_of(number, ask=sites, said=said))
        assert made.estimate is None
    made.before_round(round_of(estimated_before, ask=sites, said=said))
    assert made.estimate is not None
    warnings = [text for text in said if text.startswith("The warm-up model finds something in only 20%")]
    assert (len(warnings), sites.asked) == (extra, extra + 1)


def test_a_stop_while_sites_are_asked_decides_nothing() -> None:
    made = server(warmup_rounds=2, rounds=9)
    made.before_round(round_of(3, ask=Sites(), stopped=True))
    assert made.estimate is None


def test_without_two_groups_the_reason_is_said() -> None:
    made = server(warmup_rounds=2, rounds=9, max_extra_warmup_rounds=0)
    said: list[str] = []
    made.before_round(round_of(3, ask=lambda task: {}, said=said))
    assert made.estimate is not None
    assert said == [f"No groups of sites ({made.estimate.reason}): weights by quantity."]
    assert made.estimate.reason


def test_weights_without_balance_between_the_groups_are_the_ablation() -> None:
    """The margins to the noisiest of their group, 2, 0 and 1, 0, over their sum."""
    last = {site: row[-1] for site, row in matrix(estimated(0.01, weighting="intra")).items()}
    assert last == pytest.approx({"a": 2 / 3, "b": 0.0, "c": 1 / 3, "d": 0.0})


def test_a_restart_goes_on_with_the_same_estimate() -> None:
    made, again = estimated(0.01), server()
    again.restore(made.state(), [])
    assert again.estimate == made.estimate
    assert matrix(again) == matrix(made)


@pytest.mark.parametrize("state", [{}, {"estimate": None}])
def test_a_run_that_branches_from_federated_averaging_has_no_estimate(state: Mapping[str, Any]) -> None:
    made = server(warmup_rounds=3, rounds=9)
    made.restore(state, [])
    assert made.estimate is None
    assert made.rounds_of_averaging == 3
    assert made.describe(round_of(3)) == {"estimate": None, "weights": None}
