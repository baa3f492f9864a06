"""A received model comes into a network of its own, with the bits of one that was built for it."""

from typing import Any

import pytest
import torch
from torch import nn

from fedannot.custom.networks import received
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.networks.received import ModelDoesNotFitError, received_network
from fedannot.custom.settings import NetworkSettings

TINY = NetworkSettings(features=(2, 2, 2, 2, 2, 2))
PLACE = "fedannot.custom.networks.received"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[NetworkSettings]:
    """The settings of which networks were built, from a start without one."""
    made: list[NetworkSettings] = []

    def build(settings: NetworkSettings) -> nn.Module:
        made.append(settings)
        return described_network(settings)

    monkeypatch.setattr(f"{PLACE}.described_network", build)
    monkeypatch.setattr(f"{PLACE}._kept", {})
    return made


def params_of(settings: NetworkSettings, seed: int) -> dict[str, torch.Tensor]:
    return dict(described_network(settings, seed).state_dict())


def test_a_copied_network_is_like_a_built_one_and_nobody_elses(built: list[NetworkSettings]) -> None:
    first, second = params_of(TINY, 1), params_of(TINY, 2)
    one = received_network(TINY, first)
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.add_(1.0)
    one.add_module("penalty", nn.Linear(1, 1))
    other = received_network(TINY.model_copy(), second)
    assert built == [TINY]
    expected = ready_to_compute(described_network(TINY))
    expected.load_state_dict(second)
    images = torch.randn(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(other(images), expected(images))
    assert other.state_dict().keys() == second.keys()
    storages = [{tensor.data_ptr() for tensor in network.state_dict().values()} for network in (one, other)]
    assert not storages[0] & storages[1]


def test_other_settings_are_another_network(built: list[NetworkSettings]) -> None:
    wider = TINY.model_copy(update={"features": (4, 4, 4, 4, 4, 4)})
    for settings in (TINY, wider, TINY):
        received_network(settings, params_of(settings, 0))
    assert built == [TINY, wider, TINY]
    with pytest.raises(ModelDoesNotFitError, match="does not fit the network settings"):
        received_network(TINY, params_of(wider, 0))


def test_large_networks_are_not_kept(built: list[NetworkSettings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PLACE}._MOST_BYTES_KEPT", 100)
    for _ in range(2):
        received_network(TINY, params_of(TINY, 0))
    assert len(built) == 2
    assert received._kept == {}


def test_a_network_of_ones_own_is_built_each_time(monkeypatch: pytest.MonkeyPatch, built: list[Any]) -> None:
    component = NetworkSettings.model_validate({"_target_": "UNet", "channels": [2, 4], "strides": [2]})
    for _ in range(2):
        received_network(component, params_of(component, 0))
    assert built == [component, component]
