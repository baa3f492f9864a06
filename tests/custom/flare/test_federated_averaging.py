"""What numbers of samples in answers count, and what is said of weights that nearly are one site's."""

from types import SimpleNamespace

import pytest

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.flare.asking_controller import AskingController
from fedannot.custom.flare.federated_averaging import FedAvgController
from fedannot.custom.outbound.registry import CORRECT_ANNOTATIONS, ESTIMATE_QUALITY, VALIDATE


@pytest.fixture
def controller(monkeypatch):
    """Of four sites, whose answers are what the attribute `answers` holds."""
    made = FedAvgController({"method": "fedavg"})
    made.engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name=f"site-{n}") for n in range(4)])
    made.warning = lambda _: None
    monkeypatch.setattr(made._claims["training"], "_warn", lambda _: None)
    monkeypatch.setattr(made._claims["validation"], "_warn", lambda _: None)
    monkeypatch.setattr(AskingController, "ask_sites", lambda self, *_: self.answers)
    return made


@pytest.fixture
def warnings(controller):
    """What the controller warns of, before its first round."""
    said = []
    controller.warning = said.append
    controller.state = SimpleNamespace(history=[])
    return said


def weights_of(*values):
    sites = [f"site-{number}" for number in range(len(values))]
    return LayerWeights.same_in_all_blocks(dict(zip(sites, values, strict=True)), ("first", "last"))


def test_weights_of_one_site_are_noted_and_warned_of_once_in_a_row(controller, warnings):
    controller._note_weights(weights_of(0.02, 0.98))
    # 1 / (0.02² + 0.98²)
    assert controller._of_weights == {
        "effective_sites": pytest.approx(1.0407993),
        "dominant": {"site": "site-1", "weight": 0.98},
    }
    assert warnings == [
        "site-1 nearly decides alone: it has 0.98 of the weight in a layer block, 1.04 effective sites of 2."
    ]
    controller.state.history.append(dict(controller._of_weights))
    controller._note_weights(weights_of(0.02, 0.98))
    assert len(warnings) == 1


@pytest.mark.parametrize(("values", "effective"), [((0.25,) * 4, 4.0), ((0.79, 0.21), 1.4965579), ((1.0,), 1.0)])
def test_only_weights_of_fewer_than_one_and_a_half_sites_are_warned_of(controller, warnings, values, effective):
    controller._note_weights(weights_of(*values))
    assert controller._of_weights["effective_sites"] == pytest.approx(effective)
    assert bool(warnings) == (len(values) == 2)


def asked(controller, task, **claims):
    controller.answers = {site: {"num_samples": claim} for site, claim in claims.items()}
    return {site: answer["num_samples"] for site, answer in controller.ask_sites(task, 1).items()}


def test_validation_cases_count_up_to_the_first_claim_and_the_limit(controller):
    assert asked(controller, VALIDATE, a=5, b=0, c=10**9) == {"a": 5, "b": 0, "c": 2**22}
    assert asked(controller, VALIDATE, a=10**6, b=4, c=7) == {"a": 5, "b": 4, "c": 7}


def test_training_samples_are_claimed_apart_from_validation_cases(controller):
    controller._claims["training"].counted("a", 12, 100)
    assert asked(controller, ESTIMATE_QUALITY, a=10**6) == {"a": 12}
    assert asked(controller, VALIDATE, a=40) == {"a": 40}


def test_an_answer_without_a_number_of_samples_stays_as_it_is(controller):
    controller.answers = {"a": {"has_corrected": True}}
    assert controller.ask_sites(CORRECT_ANNOTATIONS, 1) == {"a": {"has_corrected": True}}
