"""FedCurv at the server: sites learn whose curvatures the mean is of, and their samples."""

import pytest
from support.rounds import round_of

from fedannot.custom.aggregation.settings import InfluenceSettings
from fedannot.custom.methods.fedcurv.server import CURVATURE_SAMPLES, CURVATURE_SITES, FedCurvServer
from fedannot.custom.methods.fedcurv.settings import FedCurvSettings
from fedannot.custom.settings import SettingsError

REPORTS = {"b": {"num_samples": 30}, "a": {"num_samples": 10}}


def trained() -> FedCurvServer:
    server = FedCurvServer(FedCurvSettings())
    server.after_training(round_of(1, reports=REPORTS))
    return server


def test_nothing_goes_out_before_the_first_mean() -> None:
    assert FedCurvServer(FedCurvSettings()).message(round_of(1)) == {}


def test_those_whose_models_make_up_the_mean_go_to_all() -> None:
    server = trained()
    assert server.message(round_of(2)) == {CURVATURE_SITES: ["a", "b"], CURVATURE_SAMPLES: 40}
    server.after_training(round_of(2, reports={"b": {"num_samples": 30}}))
    assert server.message(round_of(3)) == {CURVATURE_SITES: ["b"], CURVATURE_SAMPLES: 30}


def test_a_restart_goes_on_with_the_same_sites() -> None:
    again = FedCurvServer(FedCurvSettings())
    again.restore(trained().state(), [])
    assert again.message(round_of(2)) == trained().message(round_of(2))
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
