"""FedCurv at the server: a site learns of how many sites the mean is, of how many samples, and whether of its own."""

import pytest
from support.rounds import round_of

from fedannot.custom.aggregation.settings import InfluenceSettings
from fedannot.custom.methods.fedcurv.server import CURVATURE_SAMPLES, IN_MEAN, NUM_CURVATURES, FedCurvServer
from fedannot.custom.methods.fedcurv.settings import FedCurvSettings
from fedannot.custom.settings import SettingsError

REPORTS = {"b": {"num_samples": 30}, "a": {"num_samples": 10}}


def trained() -> FedCurvServer:
    server = FedCurvServer(FedCurvSettings())
    server.after_training(round_of(1, reports=REPORTS))
    return server


def test_nothing_goes_out_before_the_first_mean() -> None:
    server = FedCurvServer(FedCurvSettings())
    assert (server.message(round_of(1)), server.own_messages(round_of(1))) == ({}, {})


def test_all_learn_the_size_of_the_mean_and_those_in_it_that_they_are() -> None:
    server = trained()
    assert server.message(round_of(2)) == {NUM_CURVATURES: 2, CURVATURE_SAMPLES: 40}
    assert server.own_messages(round_of(2)) == {"a": {IN_MEAN: True}, "b": {IN_MEAN: True}}
    server.after_training(round_of(2, reports={"b": {"num_samples": 30}}))
    assert server.message(round_of(3)) == {NUM_CURVATURES: 1, CURVATURE_SAMPLES: 30}
    assert server.own_messages(round_of(3)) == {"b": {IN_MEAN: True}}


def test_a_restart_goes_on_with_the_same_sites() -> None:
    again = FedCurvServer(FedCurvSettings())
    again.restore(trained().state(), [])
    assert again.message(round_of(2)) == trained().message(round_of(2))
    assert again.own_messages(round_of(2)) == trained().own_messages(round_of(2))
    again.restore({}, [])
    assert again.message(round_of(2)) == {}


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "multi_krum"])
def test_another_rule_than_the_mean_is_refused(rule: str) -> None:
    settings = FedCurvSettings.model_validate({"aggregation": {"rule": rule}, "min_sites": 5})
    with pytest.raises(SettingsError, match=f"key 'aggregation.rule' is '{rule}', expected 'mean' for fedcurv"):
        FedCurvServer(settings)


@pytest.mark.parametrize("bounds", [{"max_share": 0.5}, {"min_share": 0.1}, {"max_update_ratio": 3.0}])
def test_bounds_on_influence_are_refused(bounds: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match="key 'influence' cannot be set for fedcurv"):
        FedCurvServer(FedCurvSettings(influence=InfluenceSettings.model_validate(bounds)))
