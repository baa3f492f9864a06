"""Federated averaging at the server, which other methods begin with."""

import pytest
from support.rounds import round_of

from fedannot.custom.methods.fedavg.server import FedAvgServer
from fedannot.custom.methods.fedavg.settings import ClassificationSettings, FedAvgSettings
from fedannot.custom.settings import RunSettings


@pytest.mark.parametrize(
    ("settings", "expected"), [(ClassificationSettings(), {"stability": 2.5}), (FedAvgSettings(), {})]
)
def test_how_far_sites_move_the_model_is_recorded_in_classification(
    settings: RunSettings, expected: dict[str, float]
) -> None:
    """The mean of ‖θ_k − θ‖², 1 and 4."""
    server = FedAvgServer(settings)
    assert server.record(round_of(1, drifts={"a": 1.0, "b": 4.0})) == expected
    assert server.measures_drifts is bool(expected)
    assert server.record(round_of(1)) == {}, "in a round without usable results"


def test_what_a_method_does_not_override_is_averaging_by_numbers_of_samples() -> None:
    server, this_round = FedAvgServer(FedAvgSettings()), round_of(1, num_samples={"a": 1})
    assert server.stage(this_round) == "federated averaging"
    assert server.weights(this_round) is None
    assert server.weights_rule(this_round) is None
    assert (server.message(this_round), server.state(), server.describe(this_round)) == ({}, {}, {})
    assert (server.rounds_of_averaging, server.is_scored_at_server) == (0, True)
    server.before_round(this_round)
    server.after_rounds(this_round)
