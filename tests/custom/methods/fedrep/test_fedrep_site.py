"""FedRep at a site: the head is personal, and is trained apart from the representation."""

from collections.abc import Iterator
from pathlib import Path

import torch
from support.personal import DATA, changed, received, site_part, train_round, values
from support.site_views import HandmadeSite

from fedannot.custom.training.batch import Batch


def test_the_representation_is_shared_and_its_own_head_goes_back_as_it_came(tmp_path: Path) -> None:
    method = site_part("fedrep")
    network = received(method)
    before = values(network)
    personal, _ = train_round(method, network, tmp_path)
    blocks = {name.split(".")[0] for name in changed(before, values(network))}
    assert "final_conv" not in blocks
    assert {"conv_0", "down_4", "upcat_1"} <= blocks
    assert changed({name.removeprefix("final_conv."): value for name, value in before.items()}, personal)
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_what_a_network_does_not_train_stays(tmp_path: Path) -> None:
    method = site_part("fedrep")
    network = received(method)
    frozen = {name for name, _ in network.named_parameters() if name.startswith("conv_0")}
    network.get_submodule("conv_0").requires_grad_(requires_grad=False)
    before = values(network)
    train_round(method, network, tmp_path)
    of_others = changed(before, values(network))
    assert frozen.isdisjoint(of_others)
    assert any(name.startswith("down_4") for name in of_others)
    assert {name for name, parameter in network.named_parameters() if not parameter.requires_grad} == frozen


def test_the_head_is_trained_with_the_representation_fixed_and_then_the_other_way_round(tmp_path: Path) -> None:
    method = site_part("fedrep", head_epochs=2)
    network = received(method)
    personal = method.start(network, seed=1)
    model, batches = method.local_model(network, personal), method.batches(DATA, network)
    seen = []

    class Spy:
        samples_per_epoch = batches.samples_per_epoch

        def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
            seen.append({name for name, parameter in model.named_parameters() if parameter.requires_grad})
            return batches.epoch(generator)

    method.train_both(network, personal, Spy(), HandmadeSite(tmp_path, DATA).view(method))
    head, again, representation = seen
    assert head == again == {"final_conv.weight", "final_conv.bias"}
    assert head.isdisjoint(representation)
    assert head | representation == {name for name, _ in model.named_parameters()}
