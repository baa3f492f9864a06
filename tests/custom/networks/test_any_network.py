"""Networks in MONAI's form: their blocks, their outputs, their state dicts."""

import copy
from typing import Any

import pytest
import torch
from any_networks import BLOCKS, CLASSIFIERS, NEED_EINOPS, NETWORKS, settings_of
from torch import nn

from fedannot.custom.components.component import ComponentError
from fedannot.custom.methods.fedcurv.settings import CurvatureNetworkSettings
from fedannot.custom.networks.building import layer_blocks
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.networks.layout import NetworkLayout
from fedannot.custom.networks.outputs import all_outputs, labels_at, split_output, supervision_weights
from fedannot.custom.networks.parts import with_part
from fedannot.custom.networks.received import received_network
from fedannot.custom.networks.shared_entries import shared_entries
from fedannot.custom.settings import NetworkSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.objectives import Step, SupervisedObjective


def first_runs(network: nn.Module, images: torch.Tensor) -> list[str]:
    """The modules without children in the order in which they first run in training, by brute force."""
    order: list[str] = []
    copied = copy.deepcopy(network).train()
    for name, module in copied.named_modules():
        if not any(module.children()):
            module.register_forward_hook(lambda *_, name=name: order.append(name))
    copied(images)
    return list(dict.fromkeys(order))


@pytest.mark.parametrize("name", NETWORKS)
def test_blocks_run_one_after_the_other_and_hold_everything(name: str) -> None:
    settings = settings_of(name)
    network = described_network(settings)
    blocks = layer_blocks(network)
    assert " ".join(blocks) == BLOCKS[name]
    layout = NetworkLayout.of(network, network.state_dict(), ())
    assert set(layout.block_of) == set(network.state_dict())
    assert sorted((*layout.trained, *layout.statistics)) == sorted(
        entry for entry, tensor in network.state_dict().items() if tensor.is_floating_point()
    )
    # Server and sites build it for themselves.
    assert layer_blocks(described_network(settings, seed=7)) == blocks


@pytest.mark.parametrize("name", ["BasicUNet", "UNet", "SegResNet", "AttentionUnet", "DenseNet121"])
def test_the_order_is_that_of_the_layers(name: str) -> None:
    network = described_network(settings_of(name))
    order = first_runs(network, torch.zeros(2, 1, 64, 64))
    firsts = [next(i for i, leaf in enumerate(order) if f"{leaf}.".startswith(f"{b}.")) for b in layer_blocks(network)]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_returns_the_logits_of_the_task_alone(name: str) -> None:
    settings = settings_of(name, num_classes=3)
    network = described_network(settings)
    images = torch.randn(2, 1, *((32, 32) if name == "ViT" else (64, 64)))
    expected = (2, 3) if name in CLASSIFIERS else (2, 4, 64, 64)
    for mode in (True, False):
        assert tuple(network.train(mode)(images).shape) == expected


def test_the_seed_gives_the_start_weights_and_leaves_the_global_state() -> None:
    settings = settings_of("UNet")
    before = torch.random.get_rng_state()
    one, other, same = (described_network(settings, seed=seed) for seed in (1, 2, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    pairs = list(zip(one.parameters(), other.parameters(), same.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b, _ in pairs)
    assert all(torch.equal(a, c) for a, _, c in pairs)


def test_a_parameter_with_several_names_is_in_the_state_dict_once() -> None:
    network = ready_to_compute(described_network(settings_of("DynUNet")))
    assert all(name.startswith("skip_layers.") for name in shared_entries(network))
    assert not any(name.startswith("skip_layers.") for name in network.state_dict())
    settings = settings_of("DynUNet")
    received = received_network(settings, network.state_dict())
    images = torch.randn(1, 1, 32, 32)
    assert torch.equal(received.eval()(images), network.eval()(images))
    copied = copy.deepcopy(received)
    with torch.no_grad():
        next(copied.parameters()).add_(1)
    assert set(copied.state_dict()) == set(network.state_dict())
    copied.load_state_dict(network.state_dict())
    assert torch.equal(copied.eval()(images), network(images))


def of(*shape: int, value: float = 0.0) -> torch.Tensor:
    return torch.full(shape, value)


IMAGES = of(2, 1, 8, 8)


@pytest.mark.parametrize(
    ("output", "main", "further"),
    [
        (of(2, 3, 8, 8), (2, 3, 8, 8), []),
        # DynUNet: outputs are an axis.
        (of(2, 4, 3, 8, 8), (2, 3, 8, 8), [(2, 3, 8, 8)] * 3),
        # SegResNetDS: from the finest to the coarsest.
        ([of(2, 3, 8, 8), of(2, 3, 4, 4), of(2, 3, 2, 2)], (2, 3, 8, 8), [(2, 3, 4, 4), (2, 3, 2, 2)]),
        ([of(2, 3, 2, 2), of(2, 3, 4, 4), of(2, 3, 8, 8)], (2, 3, 8, 8), [(2, 3, 4, 4), (2, 3, 2, 2)]),
        # ViT: logits and hidden states; SegResNetVAE: logits and a loss.
        ((of(2, 3), [of(2, 5, 7)]), (2, 3), []),
        ((of(2, 3, 8, 8), of(1)), (2, 3, 8, 8), []),
        ([of(2, 3, 8, 8), of(2, 9, 4, 4)], (2, 3, 8, 8), []),
        ({"out": of(2, 3, 8, 8)}, (2, 3, 8, 8), []),
    ],
)
def test_main_and_further_logits(output: Any, main: tuple[int, ...], further: list[tuple[int, ...]]) -> None:
    outputs = split_output(output, IMAGES)
    assert tuple(outputs.main.shape) == main
    assert [tuple(entry.shape) for entry in outputs.further] == further


def test_of_equal_extents_in_a_list_the_last_is_the_result() -> None:
    """BasicUNetPlusPlus."""
    outputs = split_output([of(2, 3, 8, 8, value=value) for value in (1.0, 2.0)], IMAGES)
    assert (float(outputs.main.max()), float(outputs.further[0].max())) == (2.0, 1.0)


def test_what_holds_no_tensor_is_refused() -> None:
    with pytest.raises(ComponentError, match=r"Own returned dict|Own returned list; expected logits"):
        split_output([{}], IMAGES, "Own")


def test_deeper_outputs_count_half_as_much_each() -> None:
    assert supervision_weights(1) == [1.0]
    assert supervision_weights(3) == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    labels = torch.tensor([[0, 1, 2, 3]]).repeat(4, 1)[None, None]
    assert labels_at(labels, of(1, 2, 2, 2)).flatten().tolist() == [1, 3, 1, 3]
    assert labels_at(labels, of(1, 2, 4, 4)) is labels


def test_the_loss_of_deep_supervision_is_the_weighted_sum() -> None:
    network = described_network(settings_of("DynUNet")).train()
    images, labels = torch.randn(2, 1, 32, 32), torch.randint(0, 2, (2, 1, 32, 32))
    batch = Batch(images, labels, torch.arange(2))

    def loss(logits: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits, given[:, 0])

    found = SupervisedObjective(loss)(network, batch, Step(0, 0, 1))
    outputs = all_outputs(network, images)
    first, second, third = (loss(entry, labels) for entry in (outputs.main, *outputs.further))
    torch.testing.assert_close(found, (4 * first + 2 * second + third) / 7)
    assert all(not entry.numel() for entry in network.heads)  # type: ignore[union-attr]
    # Nothing of a batch stays in the network.
    assert network.main_output.further == ()


def test_fedcurv_goes_round_any_network() -> None:
    settings = CurvatureNetworkSettings.model_validate({"_target_": "UNet", **NETWORKS["UNet"]})
    network = described_network(settings)
    assert layer_blocks(network) == ("curvature", *BLOCKS["UNet"].split())
    assert len(list(network.curvature.pairs())) == len(list(network.parameters()))


@pytest.mark.parametrize("name", ["UNet", "DynUNet", "AttentionUnet"])
def test_a_head_within_other_modules_is_personal(name: str) -> None:
    network = described_network(settings_of(name)).eval()
    head = copy.deepcopy(network.get_submodule(layer_blocks(network)[-1]))
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.zero_()
    together = with_part(network, layer_blocks(network)[-1], head)
    images = torch.randn(1, 1, 32, 32)
    assert not torch.equal(together(images), network(images))
    shared = {id(parameter) for parameter in network.parameters()}
    own = [parameter for parameter in together.parameters() if id(parameter) not in shared]
    assert len(own) == len(list(head.parameters()))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"_target_": "VarAutoEncoder", "in_shape": [1, 8, 8]}, "no argument for the channels of an image"),
        (
            {"_target_": "UNet", "channels": [4, 8], "strides": [2], "out_channels": 5},
            "'out_channels' is 5, but follows",
        ),
        (
            {"_target_": "UNet", "channels": [4096] * 30, "strides": [1] * 29},
            r"has 1\.\de\+10 parameters .*at most 2e\+09",
        ),
        # It reads values while it is built; this one takes 1.8 TB.
        ({"_target_": "SwinUNETR", "feature_size": 4092}, r"has \d\.\de\+11 parameters .*at most 2e\+09"),
        ({"_target_": "torch.nn.MaxPool2d", "kernel_size": 2}, "no argument for the channels of an image"),
    ],
)
def test_a_class_that_does_not_fit_the_task_is_refused(table: dict[str, Any], said: str) -> None:
    if table["_target_"] in NEED_EINOPS:
        pytest.importorskip("einops")
    with pytest.raises(ComponentError, match=said):
        described_network(NetworkSettings.model_validate(table))


def test_what_reads_large_tensors_is_stopped_when_it_makes_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDANNOT_COMPONENTS", "any_networks")
    table = {"_target_": "any_networks.ReadsItsWeights", "width": 200}
    assert len(list(described_network(NetworkSettings.model_validate(table)).parameters())) == 4
    with pytest.raises(ComponentError, match=r"reads values while it is built, .* makes more than 2e\+08 with"):
        described_network(NetworkSettings.model_validate(table | {"width": 200_000}))
