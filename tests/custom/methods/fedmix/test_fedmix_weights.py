"""FedMix: weights by numbers of samples and losses; without losses federated averaging."""

import pytest
from support.rounds import BLOCKS, NoModels, round_of

from fedannot.custom.methods.fedmix.server import FedMixServer
from fedannot.custom.methods.fedmix.settings import FedMixSettings
from fedannot.custom.methods.fedmix.weights import loss_weights

SAMPLES = {"a": 100, "b": 200, "c": 300}
QUANTITY = {"a": 1 / 6, "b": 1 / 3, "c": 1 / 2}


def test_a_larger_loss_weighs_more():
    """By hand: 0.2, 0.4, 0.6 to the power of 1.5 are 0.0894427, 0.2529822, 0.4647580, together 0.8071829."""
    weights = loss_weights(SAMPLES, {"a": 0.2, "b": 0.4, "c": 0.6}, 10, 1.5)
    assert weights == pytest.approx({"a": 0.115887, "b": 0.315225, "c": 0.568889}, abs=1e-6)
    assert sum(weights.values()) == pytest.approx(1)


def test_equal_losses_add_equal_shares():
    weights = loss_weights(SAMPLES, dict.fromkeys("abc", 0.3), 10, 2.5)
    assert weights == pytest.approx({site: (share + 10 / 3) / 11 for site, share in QUANTITY.items()})


@pytest.mark.parametrize("losses", [{}, dict.fromkeys("abc", 0.0)])
def test_losses_that_say_nothing_leave_the_numbers_of_samples(losses):
    assert loss_weights(SAMPLES, losses, 10, 1.5) == QUANTITY


def test_without_a_weight_losses_do_not_count():
    assert loss_weights(SAMPLES, {"a": 0.2, "b": 0.4, "c": 0.6}, 0, 1.5) == QUANTITY
    assert FedMixServer(FedMixSettings(loss_weight=0)).weights_rule(None) is None


def test_a_site_without_a_loss_weighs_by_quantity():
    weights = loss_weights(SAMPLES, {"a": 0.4, "b": 0.4}, 1, 1)
    assert weights == pytest.approx({"a": (1 / 3 + 1 / 2) / 4, "b": (2 / 3 + 1 / 2) / 4, "c": 1 / 2})


def test_a_site_without_samples_beside_a_loss_takes_nothing():
    assert loss_weights({"a": 0, "b": 5}, {"a": 0.4}, 10, 1) == {"a": 0.0, "b": 1.0}


def test_a_large_exponent_does_not_underflow():
    weights = loss_weights(SAMPLES, {"a": 1e-3, "b": 2e-3, "c": 1e-3}, 1, 500)
    assert weights["b"] == pytest.approx((1 / 3 + 1) / 2)


def test_the_rule_weighs_by_the_losses_that_sites_report():
    """A site that withholds its loss, and one where nothing is annotated, weigh by quantity: 4 of 10 samples each."""
    server = FedMixServer(FedMixSettings(loss_weight=1, loss_exponent=2))
    reports = {
        "a": {"num_samples": 1, "dice_loss": 0.6},
        "b": {"num_samples": 1, "dice_loss": 0.8},
        "c": {"num_samples": 4},
        # What a record has of a NaN.
        "d": {"num_samples": 4, "dice_loss": None},
    }
    this_round = round_of(1, reports=reports)
    weights = server.weights_rule(this_round)(NoModels())
    assert weights.blocks == BLOCKS
    assert {site: weights.of(site)[BLOCKS[0]] for site in reports} == pytest.approx(
        {"a": 0.2 * (0.5 + 0.36) / 2, "b": 0.2 * (0.5 + 0.64) / 2, "c": 0.4, "d": 0.4}
    )
    assert server.stage(this_round) == "loss-weighted"
