"""Which entries of a network are trained, which are running statistics, and in which layer block each is."""

import pytest
import torch
from torch import nn

from fedannot.custom.networks.building import build_classifier, build_network
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
    result = layout()
    assert result.blocks == ("stem", "head")
    assert {name: block for name, block in result.block_of.items() if block != name.split(".")[0]} == {}
    assert set(result.block_of) == set(Network().state_dict())


def test_a_job_may_name_the_blocks() -> None:
    result = layout(("head.weight", "head.bias", "stem"))
    assert result.blocks == ("head.weight", "head.bias", "stem")
    assert result.block_of["head.bias"] == "head.bias"


def test_parameters_are_trained_and_other_floating_entries_are_statistics() -> None:
    """An integer, the number of batches, is neither."""
    result = layout()
    assert result.trained == ("head.bias", "head.weight", "stem.bias", "stem.weight")
    assert result.statistics == ("stem.running_mean", "stem.running_var")


def test_weights_biases_normalisation_and_statistics_of_a_block_are_groups_of_their_own() -> None:
    assert layout().group_of == {
        "head.weight": "head/weights",
        "head.bias": "head/biases",
        "stem.weight": "stem/normalisation",
        "stem.bias": "stem/normalisation",
        "stem.running_mean": "stem/statistics",
        "stem.running_var": "stem/statistics",
        "stem.num_batches_tracked": "stem/statistics",
    }


@pytest.mark.parametrize("classifies", [False, True])
def test_groups_of_the_projects_networks(classifies: bool) -> None:
    """The last layer's biases stand alone, and every normalisation is found though only its class says what it is."""
    network = build_classifier(depth=10, widths=(4, 4, 8, 8)) if classifies else build_network(features=(4,) * 6)
    result, last = NetworkLayout.of(network, network.state_dict(), ()), "fc" if classifies else "final_conv"
    assert [name for name, group in result.group_of.items() if group == f"{last}/biases"] == [f"{last}.bias"]
    normalised = {
        f"{name}.{entry}"
        for name, module in network.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        for entry in ("weight", "bias")
    }
    assert {name for name, group in result.group_of.items() if group.endswith("/normalisation")} == normalised
    kinds = {name: group.split("/")[1] for name, group in result.group_of.items()}
    assert {network.get_parameter(name).ndim for name, kind in kinds.items() if kind == "biases"} == {1}
    assert set(kinds.values()) == {"weights", "biases", "normalisation", "statistics"}


def test_a_parameter_with_two_names_has_its_group_under_both() -> None:
    network = Network()
    network.stem.tied = network.head.weight
    groups = NetworkLayout.of(network, network.state_dict(), ()).group_of
    assert (groups["head.weight"], groups["stem.tied"]) == ("head/weights", "stem/normalisation")


def test_an_entry_without_a_block_is_an_error() -> None:
    network = Network()
    params = network.state_dict() | {"extra": torch.zeros(1)}
    with pytest.raises(ValueError, match="'extra'"):
        NetworkLayout.of(network, params, ())
