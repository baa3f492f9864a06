"""What numbers of samples in answers count: as far as the first, each kind of data by itself."""

from types import SimpleNamespace

import pytest

from fedannot.custom.flare.asking_controller import AskingController
from fedannot.custom.flare.federated_averaging import FedAvgController
from fedannot.custom.outbound import CORRECT_ANNOTATIONS, ESTIMATE_QUALITY, VALIDATE


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
