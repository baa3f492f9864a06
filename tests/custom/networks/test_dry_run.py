"""A pass without values before a run: shapes, errors, memory."""

from typing import Any

import pytest
import torch
from any_networks import settings_of

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
