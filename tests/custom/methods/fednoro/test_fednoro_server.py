"""FedNoRo at the server: the estimate after the warm-up, whom it tells, and a restart."""

from typing import Any

import pytest
import torch
from support.rounds import round_of
from test_noisy_sites import Models, model

from fedannot.custom.methods.fednoro.server import DISTILLATION, FedNoRoServer
from fedannot.custom.methods.fednoro.settings import FedNoRoClassificationSettings, FedNoRoSettings
from fedannot.custom.task_names import ESTIMATE_CLASS_LOSSES, ESTIMATE_QUALITY

LOSSES = {"a": [0.1, 0.2], "b": [0.2, 0.2], "c": [1.5, float("nan")]}
SAMPLES = {"a": 10, "b": 10, "c": 20}


def classes(task: str, sites: object = None) -> dict[str, dict[str, Any]]:
    assert (task, sites) == (ESTIMATE_CLASS_LOSSES, None)
    return {site: {"class_losses": row, "num_loss_patients": [9, 9]} for site, row in LOSSES.items()}


def pixels(share: float) -> Any:
    def ask(task: str, sites: object = None) -> dict[str, dict[str, Any]]:
        assert (task, sites) == (ESTIMATE_QUALITY, None)
        return {
            site: {"inner_difficulty": row[:1], "outer_difficulty": row[1:], "predicted_share": share}
            for site, row in LOSSES.items()
        }

    return ask


def estimated(**settings: Any) -> FedNoRoServer:
    made = FedNoRoServer(FedNoRoClassificationSettings.model_validate({"warmup_rounds": 10, "rounds": 60} | settings))
    made.before_round(round_of(10))
    assert made.noisy is None
    made.before_round(round_of(11, ask=classes))
    return made


def test_after_the_warm_up_noisy_sites_are_told_and_nobody_else() -> None:
    made = estimated()
    assert made.noisy == ("c",)
    weights = {number: made.own_messages(round_of(number)) for number in (11, 50, 60)}
    assert weights == {
        11: {"c": {DISTILLATION: pytest.approx(0.0054, abs=1e-4)}},
        50: {"c": {DISTILLATION: 0.8}},
        60: {"c": {DISTILLATION: 0.8}},
    }
    assert made.message(round_of(11)) == {}
    made.before_round(round_of(12))  # asks nobody again


def test_models_weigh_by_their_distances() -> None:
    rule = estimated().weights_rule(round_of(11, reports={site: {"num_samples": n} for site, n in SAMPLES.items()}))
    assert rule is not None
    weights = rule(Models({"a": model([0.0], 0.0), "b": model([1.0], 0.0), "c": model([3.0], 1.0)}))
    # 10, 10 and 20 / e.
    assert [weights.of(site)["last"] for site in "abc"] == pytest.approx([0.365529, 0.365529, 0.268941], abs=1e-6)


def test_without_noisy_sites_it_is_federated_averaging() -> None:
    made = estimated()
    made.noisy = ()
    assert made.weights_rule(round_of(12)) is None
    assert made.own_messages(round_of(12)) == {}
    assert estimated(model_distance="none").weights_rule(round_of(12)) is None


def test_a_restart_goes_on_with_the_same_sites() -> None:
    made, again = estimated(), FedNoRoServer(FedNoRoClassificationSettings(rounds=60))
    again.restore(made.state(), [])
    assert again.noisy == made.noisy
    assert again.own_messages(round_of(30)) == made.own_messages(round_of(30))
    assert again.describe(round_of(30)) == {
        "noisy_sites": ["c"],
        "class_losses": {"a": [0.1, 0.2], "b": [0.2, 0.2], "c": [1.5, None]},
    }


def test_the_warm_up_of_a_segmentation_waits_for_a_model_that_finds_something() -> None:
    made = FedNoRoServer(FedNoRoSettings(warmup_rounds=2, max_extra_warmup_rounds=1, rounds=9))
    assert made.rounds_of_averaging == 2
    made.before_round(round_of(3, ask=pixels(0.1)))
    assert (made.noisy, made.stage(round_of(3))) == (None, "warm-up")
    made.before_round(round_of(4, ask=pixels(0.1)))
    assert (made.noisy, made.stage(round_of(4))) == (("c",), "noise-robust")


def test_a_run_that_is_being_stopped_concludes_nothing() -> None:
    made = FedNoRoServer(FedNoRoClassificationSettings(warmup_rounds=1, rounds=9))
    made.before_round(round_of(2, ask=lambda task: {}, stopped=True))
    assert made.noisy is None


def test_all_sites_noisy_weigh_by_their_samples() -> None:
    made = estimated()
    made.noisy = ("a", "b", "c")
    rule = made.weights_rule(round_of(12, reports={site: {"num_samples": n} for site, n in SAMPLES.items()}))
    assert rule is not None
    same = {"w": torch.zeros(1)}
    assert rule(Models(dict.fromkeys("abc", same))).of("c")["first"] == 0.5
