"""The curvature that FedCurv's sites exchange: Fisher information by hand, and what the others ask of a site."""

import pytest
import torch
from torch import nn

from fedannot.custom.methods.fedcurv.curvature import (
    Curvature,
    CurvaturePenalty,
    OthersCurvature,
    fisher_diagonal,
    with_curvature,
)
from fedannot.custom.networks.building import build_network, layer_blocks
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.loop import TrainingStopped
from fedannot.custom.training.objectives import Step

SMALL = {"features": (4, 4, 8, 8, 8, 4), "upsample": "nontrainable"}


def curvature_of(network: nn.Module, seed: int) -> tuple[Curvature, list[torch.Tensor], list[torch.Tensor]]:
    """Random information, and the parameters around which it is."""
    generator = torch.Generator().manual_seed(seed)
    information = [torch.rand(p.shape, generator=generator) for p in network.parameters()]
    centre = [torch.randn(p.shape, generator=generator) for p in network.parameters()]
    curvature = Curvature(network)
    curvature.store(information, centre)
    return curvature, information, centre


def mean_of(curvatures: list[Curvature], network: nn.Module, shares: list[float]) -> Curvature:
    """What the server makes of them."""
    averaged = Curvature(network)
    states = [curvature.state_dict() for curvature in curvatures]
    averaged.load_state_dict(
        {name: sum(share * state[name] for share, state in zip(shares, states, strict=True)) for name in states[0]}
    )
    return averaged


def test_information_of_one_pixel_by_hand() -> None:
    """The gradient of the cross entropy is (p − y) x for the weights and p − y for the biases."""
    network = nn.Conv2d(1, 2, 1)
    images, labels = torch.tensor([2.0, -1.0, 0.5]).reshape(3, 1, 1, 1), torch.tensor([1, 0, 1]).reshape(3, 1, 1)
    batches = SampleBatches(images, labels, 2, torch.device("cpu"))
    weight, bias = fisher_diagonal(network, batches, torch.Generator())
    with torch.no_grad():
        probabilities = network(images).softmax(dim=1).flatten(1)
    error = probabilities - torch.nn.functional.one_hot(labels.flatten(), 2)
    torch.testing.assert_close(weight.flatten(), (error * images.reshape(3, 1)).square().mean(dim=0))
    torch.testing.assert_close(bias, error.square().mean(dim=0))


def test_what_is_not_trained_has_no_information() -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 1))
    images, labels = torch.tensor([2.0, -1.0, 0.5]).reshape(3, 1, 1, 1), torch.tensor([1, 0, 1]).reshape(3, 1, 1)
    batches = SampleBatches(images, labels, 2, torch.device("cpu"))
    of_all = fisher_diagonal(network, batches, torch.Generator())
    network[0].requires_grad_(requires_grad=False)
    of_trained = fisher_diagonal(network, batches, torch.Generator())
    assert not any(information.any() for information in of_trained[:2])
    assert all(torch.equal(one, other) for one, other in zip(of_trained[2:], of_all[2:], strict=True))
    assert not any(information.requires_grad for information in of_trained)


def test_ignored_pixels_have_no_information() -> None:
    """A picture of which a pixel is ignored is a picture without it; one of which all are adds a zero to the mean."""
    network, cpu = nn.Conv2d(1, 2, 1), torch.device("cpu")
    images = torch.tensor([[2.0, -1.0, 9.0], [4.0, 4.0, 4.0]]).reshape(2, 1, 1, 3)
    labels = torch.tensor([[1, 0, 255], [255, 255, 255]], dtype=torch.uint8).reshape(2, 1, 3)
    result = fisher_diagonal(network, SampleBatches(images, labels, 2, cpu), torch.Generator())
    alone = SampleBatches(images[:1, ..., :2], labels[:1, ..., :2], 2, cpu)
    for one, expected in zip(result, fisher_diagonal(network, alone, torch.Generator()), strict=True):
        torch.testing.assert_close(one, expected / 2)


def test_information_is_of_every_sample_alone_and_leaves_the_network() -> None:
    network = build_network(**SMALL)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 1, 16, 16, generator=generator)
    labels = torch.randint(2, (4, 16, 16), generator=generator)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    result = [
        fisher_diagonal(network, SampleBatches(images, labels, size, torch.device("cpu")), torch.Generator())
        for size in (1, 3)
    ]
    for one, other in zip(*result, strict=True):
        torch.testing.assert_close(one, other)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_it_is_given_up_when_the_run_is_stopped() -> None:
    batches = SampleBatches(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1), 1, torch.device("cpu"))
    with pytest.raises(TrainingStopped):
        fisher_diagonal(nn.Conv2d(1, 2, 1), batches, torch.Generator(), lambda: True)


def test_the_penalty_is_the_papers_less_that_of_the_received_parameters() -> None:
    """Σ_j (θ − θ_j)ᵀ diag(I_j) (θ − θ_j) over the other sites."""
    network = nn.Conv2d(1, 2, 3)
    parts = [curvature_of(network, seed) for seed in range(3)]
    mean = mean_of([curvature for curvature, _, _ in parts], network, [1 / 3] * 3)
    others = OthersCurvature.of(mean, parts[0][0], list(network.parameters()), share=1 / 3, num_sites=3)

    def asked(parameters: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(
            [
                (information * (parameter - centre).square()).sum()
                for _, all_information, all_centres in parts[1:]
                for information, centre, parameter in zip(all_information, all_centres, parameters, strict=True)
            ]
        ).sum()

    parameters = list(network.parameters())
    moved = [parameter.detach() + 0.3 for parameter in parameters]
    torch.testing.assert_close(others.penalty(moved), asked(moved) - asked(parameters))
    assert float(others.penalty(parameters)) == 0
    gradients = torch.autograd.grad(others.penalty(parameters), parameters)
    for one, other in zip(gradients, torch.autograd.grad(asked(parameters), parameters), strict=True):
        torch.testing.assert_close(one, other)


def test_the_penalty_has_a_weight_and_goes_with_the_networks_parameters() -> None:
    network = nn.Conv2d(1, 2, 1)
    parts = [curvature_of(network, seed) for seed in range(2)]
    others = OthersCurvature.of(parts[0][0], None, list(network.parameters()), share=0.5, num_sites=1)
    with torch.no_grad():
        network.bias += 0.3
    batch = Batch(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), torch.zeros(1, dtype=torch.int64))
    result = CurvaturePenalty(2.5, others)(network, batch, Step(0, 0, 1))
    torch.testing.assert_close(result, 2.5 * others.penalty(list(network.parameters())))
    assert float(result.detach()) != 0


def test_sites_count_by_their_samples() -> None:
    network = nn.Conv2d(1, 2, 1)
    parts = [curvature_of(network, seed) for seed in range(2)]
    mean = mean_of([curvature for curvature, _, _ in parts], network, [0.75, 0.25])
    others = OthersCurvature.of(mean, parts[0][0], list(network.parameters()), share=0.75, num_sites=2)
    for (information, weighted), expected, centre in zip(others.pairs, parts[1][1], parts[1][2], strict=True):
        torch.testing.assert_close(information, 0.5 * expected)
        torch.testing.assert_close(weighted, 0.5 * expected * centre)


def test_rounding_leaves_no_negative_information() -> None:
    network = nn.Conv2d(1, 2, 1)
    own, information, _ = curvature_of(network, 0)
    others = OthersCurvature.of(
        mean_of([own], network, [0.999]), own, list(network.parameters()), share=1.0, num_sites=2
    )
    assert all((left == 0).all() and (weighted == 0).all() for left, weighted in others.pairs)
    assert all((kept > 0).all() for kept in information)


def test_the_network_is_the_same_with_buffers_beside_it_in_a_block_of_their_own() -> None:
    network, plain = with_curvature(build_network(**SMALL, seed=3)), build_network(**SMALL, seed=3)
    own = {name: value for name, value in network.state_dict().items() if name.startswith("curvature.")}
    rest = {name: value for name, value in network.state_dict().items() if name not in own}
    assert rest.keys() == plain.state_dict().keys()
    assert all(torch.equal(value, plain.state_dict()[name]) for name, value in rest.items())
    assert len(own) == 2 * len(list(plain.parameters()))
    assert all(value.is_floating_point() and not value.any() for value in own.values())
    assert layer_blocks(network) == (*layer_blocks(plain), "curvature")
    images = torch.randn(1, 1, 16, 16)
    assert torch.equal(network.eval()(images), plain.eval()(images))
