"""The residual network for classification: names and sizes of the typical one, blocks in order, checkpoints."""

import pytest
import torch

from fedannot.custom.networks.building import assign_blocks, build_classifier, layer_blocks
from fedannot.custom.networks.described import described_network
from fedannot.custom.settings import ClassifierSettings
from fedannot.transforms.errors import DataError

SMALL = {"in_channels": 1, "num_classes": 3, "depth": 10, "widths": (4, 4, 8, 8), "stem": "small"}


def test_the_default_has_the_parameters_of_the_standard_resnet50():
    network = build_classifier(num_classes=1000)
    # He et al. (2016) as PyTorch has it: 25,557,032 parameters.
    assert sum(parameter.numel() for parameter in network.parameters()) == 25_557_032
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert shapes["conv1.weight"] == (64, 3, 7, 7)
    assert shapes["layer1.0.downsample.0.weight"] == (256, 64, 1, 1)
    assert shapes["layer4.2.conv3.weight"] == (2048, 512, 1, 1)
    assert shapes["fc.weight"] == (1000, 2048)
    assert "layer1.0.downsample.0.bias" not in shapes


@pytest.mark.parametrize(("depth", "millions"), [(18, 11.69), (34, 21.80)])
def test_the_shallower_ones_as_well(depth, millions):
    count = sum(parameter.numel() for parameter in build_classifier(num_classes=1000, depth=depth).parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.01)


@pytest.mark.parametrize("stem", ["large", "small"])
def test_blocks_are_in_the_order_in_which_they_run(stem):
    network = build_classifier(**(SMALL | {"stem": stem})).eval()
    order: list[str] = []
    for name, module in network.named_children():
        module.register_forward_pre_hook(lambda *_, name=name: order.append(name))
    assert network(torch.zeros(2, 1, 32, 32)).shape == (2, 3)
    blocks = layer_blocks(network)
    assert blocks == ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc")
    assert [name for name in order if name in blocks] == list(blocks)
    assert set(assign_blocks(network.state_dict(), blocks).values()) == set(blocks)


def test_start_weights_follow_from_the_seed_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, again, other = (build_classifier(**SMALL, seed=seed).state_dict() for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("wrapped", [None, "state_dict", "model"])
def test_a_checkpoint_gives_the_weights(tmp_path, wrapped):
    given = build_classifier(**SMALL, seed=3).state_dict()
    file = tmp_path / "weights.pt"
    torch.save(given if wrapped is None else {wrapped: {f"module.{name}": given[name] for name in given}}, file)
    result = build_classifier(**SMALL, checkpoint=str(file), seed=9).state_dict()
    assert all(torch.equal(result[name], given[name]) for name in given)


def test_the_last_layer_of_other_classes_is_not_taken(tmp_path):
    given = build_classifier(**SMALL, seed=3).state_dict()
    torch.save(given, tmp_path / "weights.pt")
    options = SMALL | {"num_classes": 5}
    result = build_classifier(**options, checkpoint=str(tmp_path / "weights.pt"), seed=9).state_dict()
    fresh = build_classifier(**options, seed=9).state_dict()
    for name in result:
        assert torch.equal(result[name], (fresh if name.startswith("fc.") else given)[name])


def test_a_checkpoint_that_does_not_fit_says_why(tmp_path):
    given = build_classifier(**(SMALL | {"widths": (4, 4, 8, 16)})).state_dict()
    torch.save(given, tmp_path / "wide.pt")
    with pytest.raises(DataError, match=r"wide\.pt: does not fit the network; missing \[\], unknown \[\], of another"):
        build_classifier(**SMALL, checkpoint=str(tmp_path / "wide.pt"))
    del given["bn1.weight"]
    torch.save(given | {"extra": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(DataError, match=r"missing \['bn1.weight'\], unknown \['extra'\]"):
        build_classifier(**SMALL, checkpoint=str(tmp_path / "other.pt"))
    for name, content in (("broken.pt", b"no zip"), ("absent.pt", None)):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name}: is no checkpoint that can be read"):
            build_classifier(**SMALL, checkpoint=str(tmp_path / name))
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(DataError, match=r"list\.pt: holds list; expected a state dict"):
        build_classifier(**SMALL, checkpoint=str(tmp_path / "list.pt"))


def test_sites_need_no_checkpoint():
    network = described_network(ClassifierSettings(**SMALL, checkpoint="/only/at/the/server.pt"))
    assert network.state_dict()["fc.weight"].shape == (3, 8)
