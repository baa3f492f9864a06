"""A network that would take minutes to build is refused after moments, whatever the depth that its arguments give."""

from typing import Any

import pytest
import torch
from torch import nn

from fedannot.custom.components.component import ComponentError
from fedannot.custom.networks import size_check
from fedannot.custom.networks.block_order import blocks_in_order
from fedannot.custom.networks.component_network import component_network
from fedannot.custom.settings import NetworkSettings

_UNET = {"_target_": "UNet", "channels": [4, 8], "strides": [2]}


def modules_of(units: int) -> int:
    return sum(
        1 for _ in component_network(NetworkSettings.model_validate({**_UNET, "num_res_units": units})).modules()
    )


@pytest.mark.parametrize("calls", [10**9, 300])
def test_a_network_with_too_many_modules_is_refused(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their number after it is counted; or while it is built, by the calls of PyTorch."""
    assert modules_of(20) > 120 > modules_of(4)
    monkeypatch.setattr(size_check, "MOST_MODULES", 120)
    monkeypatch.setattr(size_check, "_MOST_CALLS", calls)
    before = torch.get_rng_state()
    with pytest.raises(
        ComponentError, match=r"UNet has more than 120 modules with the arguments .*'num_res_units': 20"
    ):
        modules_of(20)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    assert modules_of(4) <= 120


def test_depth_stops_the_building(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100,000 layers some are made; all would take minutes."""
    made: list[nn.Module] = []
    original = nn.Conv2d.__init__

    def noted(self: nn.Conv2d, *arguments: Any, **options: Any) -> None:
        made.append(self)
        original(self, *arguments, **options)

    monkeypatch.setattr(nn.Conv2d, "__init__", noted)
    monkeypatch.setattr(size_check, "_MOST_CALLS", 1_000)
    with pytest.raises(ComponentError, match="has more than 4000 modules"):
        modules_of(100_000)
    assert 0 < len(made) < 1_000
    assert torch.is_grad_enabled()


def test_the_order_of_blocks_takes_no_values() -> None:
    """A pass of it on values would make a quadrillion products."""
    network = nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.Conv3d(8, 2, 1))
    extents = ((100_000,) * 3,)
    assert blocks_in_order(network, 1, extents) == ("0", "1")
    assert network[0].weight.device.type == "cpu"


class _Table(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.register_buffer("table", torch.zeros(rows))


def test_buffers_count_as_parameters_do() -> None:
    with pytest.raises(ComponentError, match=r"Table has 3\.0e\+09 parameters and buffers with the arguments"):
        size_check.build_of_checked_size(lambda: _Table(3 * 10**9), "Table", "{}")
    assert (
        sum(entry.numel() for entry in size_check.build_of_checked_size(lambda: _Table(9), "Table", "{}").buffers())
        == 9
    )
