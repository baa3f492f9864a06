"""A second network beside the first: names, blocks, different starts, and which networks cannot have one."""

from pathlib import Path

import pytest
import torch
from any_networks import settings_of
from torch import nn

from fedannot.custom.components.component import ComponentError
from fedannot.custom.methods.rmd.settings import RmdSettings, TwoNetworksSettings
from fedannot.custom.networks.building import assign_blocks, build_network, layer_blocks
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.dry_run import dry_run
from fedannot.custom.networks.outputs import all_outputs
from fedannot.custom.networks.second_network import (
    SECOND_NETWORK,
    first_network,
    has_second_network,
    second_network,
    with_second_network,
)
from fedannot.custom.networks.start_weights import read_start_weights

FEATURES = (2, 2, 2, 2, 2, 2)


@pytest.mark.parametrize("name", ["BasicUNet", "UNet", "DynUNet"])
def test_the_first_network_is_as_it_is_alone(name: str) -> None:
    alone = described_network(settings_of(name), seed=3)
    both = described_network(TwoNetworksSettings.model_validate(settings_of(name).model_dump()), seed=3)
    first, second = first_network(both), second_network(both)
    assert first.state_dict().keys() == alone.state_dict().keys() == second.state_dict().keys()
    assert set(both.state_dict()) == {
        *alone.state_dict(),
        *(f"{SECOND_NETWORK}.network.{n}" for n in alone.state_dict()),
    }
    assert all(torch.equal(value, first.state_dict()[entry]) for entry, value in alone.state_dict().items())
    blocks = layer_blocks(alone)
    assert layer_blocks(first) == layer_blocks(second) == blocks
    assert layer_blocks(both) == (*(f"{SECOND_NETWORK}.network.{block}" for block in blocks), *blocks)
    assert set(assign_blocks(both.state_dict(), layer_blocks(both)).values()) == set(layer_blocks(both))
    images = torch.randn(2, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    expected = alone.eval()(images)
    assert torch.equal(both.eval()(images), expected)
    assert torch.equal(all_outputs(first.eval(), images).main, expected)
    assert not torch.equal(second(images), expected)
    # What is trained of the view is trained of the network.
    assert {id(value) for value in first.parameters()} < {id(value) for value in both.parameters()}
    assert first_network(alone) is alone
    assert not has_second_network(first)


def test_a_component_is_tried_without_the_second_network() -> None:
    network = settings_of("UNet").model_dump()
    result = dry_run(RmdSettings.model_validate({"network": network}), (32, 32))
    assert result.parameters == 2 * sum(value.numel() for value in described_network(settings_of("UNet")).parameters())


def test_equal_starts_and_networks_that_run_all_their_parts_are_refused() -> None:
    with pytest.raises(ComponentError, match="always has the same start weights"):
        with_second_network(build_network(features=FEATURES), build_network(features=FEATURES))
    one, other = (nn.Sequential(nn.Conv2d(1, 2, 1)) for _ in range(2))
    with pytest.raises(ComponentError, match=r"a torch\.nn\.Sequential"):
        with_second_network(one, other)


def test_a_run_may_begin_with_a_single_network(tmp_path: Path) -> None:
    weights = build_network(features=FEATURES, seed=5).state_dict()
    torch.save(weights, tmp_path / "model.pt")
    start = described_network(TwoNetworksSettings(features=FEATURES), seed=1).state_dict()
    result = read_start_weights(tmp_path / "model.pt", start)
    assert all(torch.equal(value, result[name]) for name, value in weights.items())
    assert all(torch.equal(result[name], start[name]) for name in start if name.startswith(f"{SECOND_NETWORK}."))
