"""FedHAC's prototypes: their loss, where features come from, and that networks are left as they are."""

import math

import pytest
import torch
from support.pictures import Threshold
from torch import nn

from fedannot.custom.components.component import ComponentError
from fedannot.custom.methods.fedhac.prototypes import (
    HeadInputs,
    PrototypeObjective,
    fixed_prototypes,
    heads_of,
    prototype_loss,
    separation_loss,
)
from fedannot.custom.networks.outputs import give_main_output
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.objectives import Step

# Two pixels in a row: features (2, 0) of class 0, and (1/2, 1/2) of class 1.
FEATURES = [[2.0, 0.5], [0.0, 0.5]]
LABELS = torch.tensor([[[[0, 1]]]], dtype=torch.uint8)


def features_of(values: list[list[float]]) -> torch.Tensor:
    return torch.tensor(values)[None, :, None].requires_grad_()


def test_the_loss_and_its_gradient_by_hand() -> None:
    features = features_of(FEATURES)
    loss = prototype_loss(features, LABELS, torch.eye(2))
    (gradient,) = torch.autograd.grad(loss, features)
    assert loss.item() == pytest.approx(0.8125)
    assert gradient[0, :, 0].T.tolist() == [[0.5, 0.0], [0.0, -0.25]]


def test_prototypes_that_lie_close_add_to_the_loss() -> None:
    prototypes = torch.tensor([[1.0, 0.0], [0.4, 0.0]])
    assert separation_loss(prototypes).item() == pytest.approx(0.8)
    assert prototype_loss(features_of(FEATURES), LABELS, prototypes).item() == pytest.approx(0.91 + 0.8)


def test_the_loss_is_that_of_loops_over_pixels_and_classes() -> None:
    """Three classes in volumes of two samples; one pixel in five is ignored."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, 4, 3, 2, 5, generator=generator)
    labels = torch.randint(0, 3, (2, 1, 3, 2, 5), generator=generator).to(torch.uint8)
    labels[..., 0] = 255
    prototypes = torch.randn(3, 4, generator=generator) / 3
    terms = []
    for sample in range(2):
        for place in torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(1, 5)).tolist():
            vector, label = features[(sample, slice(None), *place)], int(labels[(sample, 0, *place)])
            terms += [(float(vector @ prototypes[c]) * (c == label) - 1) ** 2 for c in range(3)]
    apart = [max(0.0, 1 - math.dist(prototypes[c], prototypes[d])) for c in range(3) for d in range(3) if c != d]
    expected = sum(terms) / len(terms) + sum(apart)
    assert prototype_loss(features, labels, prototypes).item() == pytest.approx(expected, rel=1e-5)


def test_coarser_features_take_the_nearest_labels() -> None:
    features = torch.tensor([2.0, 0.0])[None, :, None, None]
    labels = torch.tensor([[[[1, 1, 1], [1, 0, 1], [1, 1, 1]]]])
    # (2 - 1)^2 of class 0, and the constant of class 1.
    assert prototype_loss(features, labels, torch.eye(2)).item() == 1.0


def test_pixels_that_are_all_ignored_have_no_loss_and_no_gradient() -> None:
    features = features_of(FEATURES)
    loss = prototype_loss(features, torch.full((1, 1, 1, 2), 255), torch.eye(2))
    (gradient,) = torch.autograd.grad(loss, features)
    assert (loss.item(), gradient.abs().sum().item()) == (0.0, 0.0)


def test_prototypes_follow_from_the_seed_and_lie_apart() -> None:
    """With 64 features they lie 1.97 apart in the mean, so that nothing pushes them apart."""
    pairs = [fixed_prototypes(seed, 2, 64) for seed in range(100)]
    apart = torch.tensor([math.dist(*pair) for pair in pairs])
    assert torch.equal(pairs[3], fixed_prototypes(3, 2, 64))
    assert not torch.equal(pairs[3], pairs[4])
    assert apart.mean().item() == pytest.approx(1.97, abs=0.05)
    assert apart.min() > 1.4
    assert separation_loss(pairs[0]).item() == 0.0


class Net(nn.Module):
    """Two convolutions with two outputs: a deeply supervised, coarser one, which runs last, and the main one."""

    def __init__(self, coarse: bool = True) -> None:
        super().__init__()
        self.body = nn.Conv2d(1, 3, 3, padding=1)
        self.head = nn.Conv2d(3, 2, 1)
        self.further = nn.Conv2d(3, 2, 1) if coarse else None

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = self.body(images).relu()
        main = self.head(features)
        return (main,) if self.further is None else (main, self.further(features[..., ::2, ::2]))


def test_features_are_what_the_largest_logits_are_made_of() -> None:
    network, images = Net(), torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    heads = heads_of(network, 2)
    with HeadInputs(heads) as inputs:
        network(images)
    assert torch.equal(inputs.features, network.body(images).relu())
    assert all(not head._forward_hooks for head in heads)


def test_a_network_without_such_a_convolution_is_refused() -> None:
    with pytest.raises(ComponentError, match=r"^Threshold has no convolution with 2 outputs; expected one"):
        heads_of(Threshold(1), 2)


def test_the_objective_adds_the_weighted_loss_and_leaves_the_network_as_it_is() -> None:
    torch.manual_seed(0)
    network = give_main_output(Net(coarse=False))
    images = torch.randn(2, 1, 4, 4)
    labels = (images > 0).to(torch.uint8)
    batch = Batch(images, labels, torch.arange(2))
    names = list(network.state_dict())

    def supervised(network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        return torch.as_tensor(network(batch.images).square().mean())

    objective = PrototypeObjective(supervised, network, weight=0.5, num_outputs=2, seed=7)
    step = Step(0, 0, 1)
    features = network.body(images).relu()  # type: ignore[operator]
    expected = supervised(network, batch, step) + 0.5 * prototype_loss(features, labels, fixed_prototypes(7, 2, 3))
    assert torch.equal(objective(network, batch, step), expected)
    assert list(network.state_dict()) == names
    # An error in the network leaves no hook, either.
    with pytest.raises(RuntimeError):
        objective(network, Batch(images[:, :0], labels, torch.arange(2)), step)
    assert not network.head._forward_hooks  # type: ignore[union-attr]
