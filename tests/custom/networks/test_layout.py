"""Which entries of a network are trained, which are running statistics, and in which layer block each is."""

import pytest
import torch
from torch import nn

from fedannot.custom.networks.layout import NetworkLayout


class Network(nn.Module):
    layer_blocks = ("stem", "head")

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 1)
        self.stem = nn.BatchNorm1d(2)


def layout(blocks: tuple[str, ...] = ()) -> NetworkLayout:
    network = Network()
    return NetworkLayout.of(network, network.state_dict(), blocks)


def test_entries_have_their_blocks_in_forward_order() -> None:
    found = layout()
    assert found.blocks == ("stem", "head")
    assert {name: block for name, block in found.block_of.items() if block != name.split(".")[0]} == {}
    assert set(found.block_of) == set(Network().state_dict())


def test_a_job_may_name_the_blocks() -> None:
    found = layout(("head.weight", "head.bias", "stem"))
    assert found.blocks == ("head.weight", "head.bias", "stem")
    assert found.block_of["head.bias"] == "head.bias"


def test_parameters_are_trained_and_other_floating_entries_are_statistics() -> None:
    """An integer, the number of batches, is neither."""
    found = layout()
    assert found.trained == ("head.bias", "head.weight", "stem.bias", "stem.weight")
    assert found.statistics == ("stem.running_mean", "stem.running_var")


def test_an_entry_without_a_block_is_an_error() -> None:
    network = Network()
    params = network.state_dict() | {"extra": torch.zeros(1)}
    with pytest.raises(ValueError, match="'extra'"):
        NetworkLayout.of(network, params, ())
