"""A pass without values before a run: shapes, errors, memory."""

from typing import Any

import pytest
import torch
from any_networks import CLASSIFIERS, NETWORKS, settings_of
from torch import nn

from fedannot.apps.runs.own_code import own_network_changes
from fedannot.custom.components.component import ComponentError
from fedannot.custom.methods.fedavg.settings import ClassificationSettings, FedAvgSettings
from fedannot.custom.networks.dry_run import dry_run


def of_network(table: dict[str, Any], **training: Any) -> FedAvgSettings:
    return FedAvgSettings.model_validate({"network": table, "training": training})


def test_memory_is_that_of_a_convolution_by_hand() -> None:
    """A 3×3 convolution keeps its input for the gradient of its kernel."""
    result = dry_run(
        of_network({"_target_": "torch.nn.Conv2d", "kernel_size": 3, "padding": 1, "in_channels": 4}, batch_size=8),
        (64, 128),
    )
    assert result.parameters == 4 * 2 * 9 + 2
    assert (result.extents, result.batch_size) == ((64, 128), 8)
    assert result.activations_mb == 8 * 4 * 64 * 128 * 4 / 2**20
    assert result.memory_mb == pytest.approx(result.activations_mb + 4 * 4 * result.parameters / 2**20, abs=0.06)


def test_a_large_batch_costs_no_memory() -> None:
    table = {"_target_": "UNet", "channels": [64, 128, 256], "strides": [2, 2], "spatial_dims": 3}
    result = dry_run(of_network(table, patch=[256, 256, 256], batch_size=16))
    assert result.extents == (256, 256, 256)
    assert result.memory_mb > 50_000


def test_without_extents_the_first_is_taken_that_the_network_takes() -> None:
    settings = settings_of("UNet").model_dump()
    assert dry_run(of_network(settings)).extents == (32, 32)


@pytest.mark.parametrize(
    ("table", "extents", "said"),
    [
        (
            {"_target_": "DenseNet121", "block_config": [1, 1, 1, 1]},
            (64, 64),
            r"returns \(8, 2\) in training for .* \(8, 1, 64, 64\); expected \(8, 2, 64, 64\): the background and 1 cl",
        ),
        (
            {"_target_": "UNet", "channels": [4, 8, 16], "strides": [2, 2]},
            (65, 65),
            r"takes no batch of the shape \(2, 1, 65, 65\): RuntimeError: Sizes of tensors must match",
        ),
        ({"_target_": "torch.nn.Conv2d", "kernel_size": 3}, (64, 64), r"returns \(8, 2, 62, 62\) in training"),
        ({"_target_": "UNet", "channels": [4, 8], "stride": [2]}, (64, 64), "has no argument 'stride'; did you mean"),
    ],
)
def test_what_does_not_fit_is_said_before_the_run(table: dict[str, Any], extents: tuple[int, ...], said: str) -> None:
    with pytest.raises(ComponentError, match=said):
        dry_run(of_network(table), extents)


def test_a_classifier_returns_a_number_for_each_class() -> None:
    settings = ClassificationSettings.model_validate(
        {"network": settings_of("DenseNet121", num_classes=4).model_dump()}
    )
    assert dry_run(settings, (32, 32)).batch_size == settings.training.batch_size
    wrong = {"_target_": "UNet", "channels": [4, 8], "strides": [2]}
    with pytest.raises(ComponentError, match=r"expected \(128, 2\): 2 classes"):
        dry_run(ClassificationSettings.model_validate({"network": wrong}), (32, 32))


def test_a_pass_leaves_the_global_random_state() -> None:
    before = torch.random.get_rng_state()
    dry_run(of_network({"_target_": "UNet", "channels": [4, 8], "strides": [2], "dropout": 0.5}), (32, 32))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_own_network_of_the_same_name_is_another() -> None:
    found = []
    for width in (4, 8):

        def build(in_channels: int, out_channels: int, width: int = width) -> nn.Module:
            return nn.Sequential(nn.Conv2d(in_channels, width, 1), nn.Conv2d(width, out_channels, 1))

        table = {key.removeprefix("network."): value for key, value in own_network_changes(build).items()}
        found.append(dry_run(of_network(table), (32, 32)).parameters)
    assert found == [4 * 2 + 4 * 2 + 2, 8 * 2 + 8 * 2 + 2]


def test_parts_that_are_never_trained_are_refused() -> None:
    """The networks' loss of its autoencoder does not reach the training."""
    with pytest.raises(ComponentError, match=r"no parameter of vae_down\.0\.weight, vae_down\.0\.bias, .*, …, \d+% of"):
        dry_run(of_network({"_target_": "SegResNetVAE", "input_image_size": [32, 32]}), (32, 32))


@pytest.mark.parametrize("name", [*NETWORKS, "BasicUNetPlusPlus"])
def test_networks_whose_parts_are_trained_are_taken(name: str) -> None:
    # Without deep supervision BasicUNetPlusPlus has three heads that are not used, of few parameters.
    table = settings_of(name).model_dump() if name in NETWORKS else {"_target_": name, "features": [4, 4, 8, 8, 8, 4]}
    kind = ClassificationSettings if name in CLASSIFIERS else FedAvgSettings
    settings = kind.model_validate({"network": table, "training": {"batch_size": 2}})
    assert dry_run(settings, (32, 32) if name == "ViT" else (64, 64)).parameters > 0


def test_of_a_large_part_that_is_never_trained_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    dry_run(of_network({"_target_": "FlexibleUNet", "backbone": "efficientnet-b0"}), (64, 64))
    assert "24 % of its parameters are not trained" in caplog.text
    assert "encoder._conv_head.weight" in caplog.text
