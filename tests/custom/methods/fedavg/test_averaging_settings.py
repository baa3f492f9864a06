"""Settings of federated averaging alone: what fits together, and the network that carries a control variate."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from fedannot.custom.methods.fedavg.averaging_settings import (
    ClassificationAveragingSettings,
    SegmentationAveragingSettings,
)
from fedannot.custom.methods.fedavg.local_progress import accumulated_steps, summed_rates
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.networks.building import assign_blocks, layer_blocks
from fedannot.custom.networks.described import described_network
from fedannot.custom.settings import ClassifierTrainingSettings, SettingsError, TrainingSettings
from fedannot.custom.training.schedules import LearningRate

SGD = {"optimizer": "sgd", "momentum": 0.0}
RISING = {"_target_": "OneCycleLR", "max_lr": 1.0, "total_steps": 10}
SCAFFOLD = {"drift_correction": "scaffold", "training": SGD}


def test_by_default_there_is_nothing_of_them() -> None:
    settings = SegmentationAveragingSettings()
    assert not settings.needs_server
    assert not settings.network.wrapper
    assert settings.server_optimizer.name == "none"


def test_what_only_a_server_can_do_is_named() -> None:
    values = SCAFFOLD | {"fraction": 0.5, "server_optimizer": {"name": "fedyogi"}}
    needs = SegmentationAveragingSettings.model_validate(values).needs_server
    assert needs == ("server_optimizer.name", "drift_correction", "fraction")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"drift_correction": "scaffold"}, "'training.optimizer' is 'adam' and 'training.momentum' 0.9"),
        (SCAFFOLD | {"training": SGD | {"momentum": 0.5}}, "'sgd' and 'training.momentum' 0.5"),
        (SCAFFOLD | {"training": SGD | {"learning_rate_warmup": 0.1}}, "learning_rate_warmup = 0"),
        (SCAFFOLD | {"training": SGD | {"gradient_clipping": 12.0}}, "'training.gradient_clipping' is 12, but"),
        (SCAFFOLD | {"aggregation": {"rule": "median"}, "min_sites": 3}, "expected aggregation.rule = mean"),
        ({"drift_correction": "fednova", "influence": {"max_share": 0.5}}, "key 'influence' cannot be set"),
        (
            {"drift_correction": "fednova", "training": {"optimizer": "sgd", "proximal_weight": 0.1}},
            "key 'training.proximal_weight' cannot be set with 'drift_correction' 'fednova' and a momentum",
        ),
        (
            {"drift_correction": "fednova", "training": {"optimizer": "sgd", "keep_optimizer": True}},
            "key 'training.keep_optimizer' cannot be set",
        ),
        (
            {"drift_correction": "fednova", "training": SGD | {"proximal_weight": 10.0, "learning_rate": 0.2}},
            "'training.proximal_weight' have the product 2 with 'drift_correction' 'fednova'; expected less than 2",
        ),
        (
            {"drift_correction": "fednova", "training": SGD | {"proximal_weight": 0.1, "schedule": RISING}},
            "and a schedule of your own, which may raise the learning rate",
        ),
        (SCAFFOLD | {"training": SGD | {"precision": "fp16"}}, "'scaffold', which divides by the number of steps"),
        ({"drift_correction": "fednova", "training": {"precision": "auto"}}, "expected fp32 or bf16"),
        ({"fraction": 0.0}, "fraction"),
        ({"server_optimizer": {"name": "adam"}}, "'none', 'fedavgm', 'fedadagrad', 'fedadam' or 'fedyogi'"),
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SegmentationAveragingSettings.model_validate(values)
    assert text in str(caught.value)


def test_a_classifier_with_a_momentum_has_no_formula_with_fedprox_either() -> None:
    values = {"drift_correction": "fednova", "training": {"proximal_weight": 0.1}}
    with pytest.raises(ValidationError, match=r"key 'training.proximal_weight' cannot be set"):
        ClassificationAveragingSettings.model_validate(values)


def test_other_methods_do_not_have_them() -> None:
    with pytest.raises(SettingsError, match="drift_correction"):
        read_job_settings({"method": "fedia", "drift_correction": "fednova"})


@pytest.mark.parametrize(
    "network", [{"features": [4, 4, 8, 8, 8, 4]}, {"_target_": "UNet", "channels": [4, 8], "strides": [2]}]
)
def test_scaffolds_network_carries_a_variate_and_is_written_as_the_plain_one(network: dict[str, Any]) -> None:
    settings = SegmentationAveragingSettings.model_validate(SCAFFOLD | {"network": network})
    plain = SegmentationAveragingSettings.model_validate({"network": network})
    written = settings.model_dump(mode="json")
    assert written["network"] == plain.model_dump(mode="json")["network"]
    again = SegmentationAveragingSettings.model_validate(written)
    built, without = (described_network(of.network, seed=3).state_dict() for of in (again, plain))
    added = {name: value for name, value in built.items() if name not in without}
    assert all(torch.equal(built[name], value) for name, value in without.items())
    assert all(name.startswith("control_variates.variate_") and not value.any() for name, value in added.items())
    parameters = sorted(described_network(plain.network).named_parameters())
    assert [tuple(added[f"control_variates.variate_{index}"].shape) for index in range(len(added))] == [
        tuple(parameter.shape) for _, parameter in parameters
    ]
    blocks = layer_blocks(described_network(again.network))
    assert assign_blocks(built, blocks)["control_variates.variate_0"] == "control_variates"


def test_a_classifier_carries_one_too() -> None:
    values = SCAFFOLD | {"network": {"depth": 10, "widths": [4, 4, 8, 8]}}
    settings = ClassificationAveragingSettings.model_validate(values)
    assert "control_variates.variate_0" in described_network(settings.network).state_dict()


# --- what local steps add up to


@pytest.mark.parametrize("kind", [TrainingSettings, ClassifierTrainingSettings])
@pytest.mark.parametrize(
    ("training", "steps", "expected"),
    [
        ({"optimizer": "sgd", "momentum": 0.0}, 3, 3.0),
        ({"optimizer": "sgd", "momentum": 0.9}, 3, 5.61),
        ({"optimizer": "sgd", "momentum": 0.0, "proximal_weight": 2.0, "learning_rate": 0.05}, 3, 2.71),
        ({"optimizer": "adam", "momentum": 0.9}, 3, 3.0),
    ],
)
def test_steps_add_up_as_in_fednova(training: dict[str, Any], steps: int, expected: float, kind: Any) -> None:
    settings = kind.model_validate(training)
    assert accumulated_steps(settings, LearningRate(settings, 1, 4), steps) == pytest.approx(expected)


def test_momentum_adds_up_to_what_the_optimizer_does() -> None:
    """A constant gradient of 1, at rate 1."""
    value = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([value], lr=1.0, momentum=0.7)
    for _ in range(5):
        value.grad = torch.ones(1)
        optimizer.step()
    settings = TrainingSettings(optimizer="sgd", momentum=0.7)
    assert accumulated_steps(settings, LearningRate(settings, 1, 4), 5) == pytest.approx(-value.item())


def test_learning_rates_of_a_round_are_summed() -> None:
    constant = TrainingSettings(learning_rate=0.1, schedule="constant")
    assert summed_rates(LearningRate(constant, 2, 4), 5) == pytest.approx(0.5)
    falling = TrainingSettings(learning_rate=0.1, schedule="polynomial", learning_rate_power=1.0)
    # Steps 2 and 3 of 8.
    assert summed_rates(LearningRate(falling, 2, 4), 2) == pytest.approx(0.1 * (6 / 8 + 5 / 8))
