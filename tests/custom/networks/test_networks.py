"""Network and layer blocks: the order is the order in which the blocks run, the size is FedA³I's."""

import inspect

import pytest
import torch
from torch import nn

from fedannot.custom.networks.building import assign_blocks, build_network, layer_blocks
from fedannot.custom.settings import NetworkSettings

SMALL = (2, 2, 4, 4, 4, 2)
TEN_BLOCKS = (
    "conv_0",
    "down_1",
    "down_2",
    "down_3",
    "down_4",
    "upcat_4",
    "upcat_3",
    "upcat_2",
    "upcat_1",
    "final_conv",
)


@pytest.mark.parametrize("spatial_dims", [2, 3])
def test_blocks_are_in_the_order_in_which_they_run(spatial_dims):
    network = build_network(features=SMALL, spatial_dims=spatial_dims).eval()
    order: list[str] = []
    for name, module in network.named_children():
        module.register_forward_pre_hook(lambda *_, name=name: order.append(name))
    with torch.no_grad():
        network(torch.zeros(1, 1, *[32] * spatial_dims))
    assert layer_blocks(network) == TEN_BLOCKS == tuple(order)


@pytest.mark.parametrize("upsample", ["nontrainable", "deconv"])
def test_every_entry_belongs_to_one_of_the_ten_blocks(upsample):
    state = build_network(features=SMALL, upsample=upsample).state_dict()
    blocks = assign_blocks(state, TEN_BLOCKS)
    assert set(blocks) == set(state)
    assert set(blocks.values()) == set(TEN_BLOCKS)
    assert all(name.split(".")[0] == block for name, block in blocks.items())


def convolution(inputs, outputs, side=3):
    return inputs * outputs * side**2 + outputs


def two_convolutions(inputs, outputs):
    """Two 3×3 convolutions, each with scale and shift of its normalisation."""
    return convolution(inputs, outputs) + convolution(outputs, outputs) + 4 * outputs


def parameter_count(upsampling):
    """Parameters of the U-Net with widths 16..256, 16, counted by hand; the last upsampling keeps its width."""
    encoder = two_convolutions(1, 16) + sum(two_convolutions(w, 2 * w) for w in (16, 32, 64, 128))
    decoder = sum(two_convolutions(2 * w, w) + upsampling(2 * w, w) for w in (128, 64, 32))
    last = two_convolutions(16 + 32, 16) + upsampling(32, 32)
    return encoder + decoder + last + convolution(16, 2, side=1)


@pytest.mark.parametrize(
    ("upsample", "upsampling", "millions"),
    [
        ("deconv", lambda inputs, outputs: convolution(inputs, outputs, side=2), 1.95),
        (
            "nontrainable",
            lambda inputs, outputs: 0 if inputs == outputs else convolution(inputs, outputs, side=1),
            1.81,
        ),
    ],
)
def test_default_widths_have_the_size_counted_by_hand(upsample, upsampling, millions):
    count = sum(parameter.numel() for parameter in build_network(upsample=upsample).parameters())
    assert count == parameter_count(upsampling)
    assert round(count / 1e6, 2) == millions


def test_default_network_learns_its_upsampling_and_has_the_published_size():
    network = build_network()
    assert any(isinstance(module, nn.ConvTranspose2d) for module in network.modules())
    assert round(sum(parameter.numel() for parameter in network.parameters()) / 1e6, 2) == 1.95


@pytest.mark.parametrize(
    ("in_channels", "num_classes", "spatial_dims", "shape"),
    [(1, 1, 2, (2, 1, 32, 48)), (3, 4, 2, (2, 3, 32, 32)), (1, 2, 3, (1, 1, 16, 16, 32))],
)
def test_network_gives_a_channel_per_class_and_the_background(in_channels, num_classes, spatial_dims, shape):
    network = build_network(in_channels, num_classes, SMALL, spatial_dims).eval()
    with torch.no_grad():
        logits = network(torch.zeros(shape))
    assert logits.shape == (shape[0], num_classes + 1, *shape[2:])


def test_defaults_are_those_of_the_settings():
    # The server builds its network from the settings as they stand in the job, the sites from the completed ones.
    defaults = {name: part.default for name, part in inspect.signature(build_network).parameters.items()}
    assert defaults | NetworkSettings().model_dump() == defaults


def test_seed_decides_every_bit_of_the_start_weights():
    first, again, other = (build_network(features=SMALL, seed=seed).state_dict() for seed in (5, 5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["conv_0.conv_0.conv.weight"], other["conv_0.conv_0.conv.weight"])


def test_building_neither_uses_nor_changes_the_global_random_state():
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    first = build_network(features=SMALL, seed=5).state_dict()
    assert torch.equal(torch.rand(4), expected)
    torch.manual_seed(2)
    again = build_network(features=SMALL, seed=5).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)


class Declared(nn.Module):
    layer_blocks = ("body", "head")

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 2)
        self.body = nn.Linear(2, 2)


def test_network_may_declare_its_blocks_and_prefixes_come_first():
    assert layer_blocks(Declared()) == ("body", "head")
    assert layer_blocks(Declared(), ["head", "body"]) == ("head", "body")
    assert layer_blocks(Declared(), []) == ("body", "head")
    assert layer_blocks(nn.Linear(2, 2), ["weight", "bias"]) == ("weight", "bias")


def test_network_that_declares_no_blocks_is_refused():
    with pytest.raises(ValueError, match=r"Linear has no attribute 'layer_blocks'; name the .* setting 'blocks'"):
        layer_blocks(nn.Linear(2, 2))


def test_prefixes_may_reach_into_the_names_and_do_not_match_half_words():
    names = ["up.1.weight", "up.10.weight", "up.10.bias", "head"]
    assert assign_blocks(names, ["up.1", "up.10", "head"]) == {
        "up.1.weight": "up.1",
        "up.10.weight": "up.10",
        "up.10.bias": "up.10",
        "head": "head",
    }


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (["up"], r"Expected exactly one layer block for 'head\.weight' among \['up'\], but found \[\]\."),
        (["up", "up.1", "head"], r"for 'up\.1\.weight' among \['up', 'up\.1', 'head'\], but found \['up', 'up\.1'\]\."),
        (["up", "head", "down"], r"Expected parameters in every layer block, but found none in \['down'\]\."),
    ],
)
def test_blocks_that_do_not_divide_the_entries_are_refused(blocks, message):
    with pytest.raises(ValueError, match=message):
        assign_blocks(["up.1.weight", "head.weight"], blocks)
