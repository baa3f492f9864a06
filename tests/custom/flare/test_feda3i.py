"""The controller's weights: by quality where there are two groups, or by the evidence for them."""

import math

import pytest

from fedannot.custom.flare.feda3i import FedA3IController, mean_predicted_share
from fedannot.custom.methods.feda3i.estimate import QualityEstimate
from fedannot.custom.run.state import RunState

BLOCKS = ("first", "middle", "last")
SAMPLES = {"a": 30, "b": 10, "c": 40, "d": 20}


def controller(p_value, reason="", **settings):
    """After the warm-up; a and b draw larger (strengths 1 and 3), c and d smaller (1 and 2)."""
    made = FedA3IController({"method": "feda3i", **settings})
    made._blocks, made.num_samples = BLOCKS, SAMPLES
    made.estimate = QualityEstimate(
        inner={"a": [2.0], "b": [4.0], "c": [1.0], "d": [1.0]},
        outer={"a": [1.0], "b": [1.0], "c": [2.0], "d": [3.0]},
        larger=() if reason else ("a", "b"),
        smaller=() if reason else ("c", "d"),
        reason=reason,
        p_value=p_value,
    )
    return made


def matrix(made):
    weights = made.aggregation_weights(7)
    return {site: list(weights.of(site).values()) for site in weights.sites}


def test_quality_counts_more_in_deeper_blocks():
    # Eq. 6: all of its group's half for the better of two sites. Eq. 7 with λ = 0, 1/2, 1.
    found = matrix(controller(0.01))
    assert found == {
        "a": pytest.approx([0.3, 0.4, 0.5]),
        "b": pytest.approx([0.1, 0.05, 0.0]),
        "c": pytest.approx([0.4, 0.45, 0.5]),
        "d": pytest.approx([0.2, 0.1, 0.0]),
    }


def test_with_shrinkage_quality_counts_by_the_evidence():
    # e = 1 − p = 3/4, so λ = 0, 3/8, 3/4.
    found = matrix(controller(0.25, group_decision="shrink"))
    assert found == {
        "a": pytest.approx([0.3, 0.375, 0.45]),
        "b": pytest.approx([0.1, 0.0625, 0.025]),
        "c": pytest.approx([0.4, 0.4375, 0.475]),
        "d": pytest.approx([0.2, 0.125, 0.05]),
    }


def test_shrinkage_meets_federated_averaging_and_the_published_form_at_its_ends():
    everything = matrix(controller(0.0, group_decision="shrink"))
    assert everything == matrix(controller(0.01))
    nothing = matrix(controller(1.0, group_decision="shrink"))
    assert nothing == {site: pytest.approx([count / 100] * 3) for site, count in SAMPLES.items()}


@pytest.mark.parametrize("decision", ["test", "shrink"])
def test_without_groups_sites_weigh_by_quantity(decision):
    assert (
        controller(0.5, reason="The mixture did not converge.", group_decision=decision).aggregation_weights(7) is None
    )


def test_the_weights_that_are_described_are_those_that_count():
    """In the last block c has half by quality, 0.4 by quantity; d has nothing, of 0.2."""
    made = controller(0.01, influence={"max_quality_ratio": 2.0})
    made.state = RunState("feda3i", {}, 7, {})
    described = made.describe()["weights"]
    last = {site: row[-1] for site, row in zip(described["sites"], described["values"], strict=True)}
    # b and d stay at half of theirs, 0.05 and 0.1; a and c divide the rest, 0.85, equally.
    assert last == pytest.approx({"a": 0.425, "b": 0.05, "c": 0.425, "d": 0.1})


@pytest.mark.parametrize(
    ("shares", "expected"),
    [((0.25, 0.75), 0.5), ((1e9, 0.0), 0.5), ((-1e9, 1.0), 0.5), ((math.nan, 0.5), 0.5), ((math.nan,), 0.0)],
)
def test_a_share_that_cannot_be_one_decides_nothing_alone(shares, expected):
    answers = {f"site-{number}": {"predicted_share": share} for number, share in enumerate(shares)}
    assert mean_predicted_share(answers) == pytest.approx(expected)
