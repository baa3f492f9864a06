"""The optimizer that the settings name, against PyTorch's own and by hand."""

import pytest
import torch
from torch import nn

from fedannot.custom.settings import ClassifierTrainingSettings, TrainingSettings
from fedannot.custom.training.optimizers import build_optimizer


def after_steps(optimizer_of):
    """Parameters after three steps on a seeded problem."""
    generator = torch.Generator().manual_seed(0)
    network = nn.Linear(5, 3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    optimizer = optimizer_of(network)
    for _ in range(3):
        optimizer.zero_grad()
        network(torch.randn(4, 5, generator=generator)).pow(2).mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in network.parameters()]


ADAM = {"betas": (0.9, 0.99), "fused": True}
CASES = [
    (TrainingSettings(), torch.optim.Adam, ADAM),
    (TrainingSettings(weight_decay=0.1, momentum=0.5), torch.optim.Adam, ADAM | {"weight_decay": 0.1}),
    (TrainingSettings(betas=(0.8, 0.95)), torch.optim.Adam, ADAM | {"betas": (0.8, 0.95)}),
    (TrainingSettings(optimizer="sgd"), torch.optim.SGD, {"momentum": 0.9}),
    (ClassifierTrainingSettings(), torch.optim.SGD, {"momentum": 0.9, "weight_decay": 1e-6}),
    (ClassifierTrainingSettings(momentum=0.0), torch.optim.SGD, {"weight_decay": 1e-6}),
    (ClassifierTrainingSettings(optimizer="adam"), torch.optim.Adam, ADAM | {"weight_decay": 1e-6}),
]


@pytest.mark.parametrize(("training", "kind", "options"), CASES)
def test_both_tasks_have_both_optimizers(training, kind, options):
    result = after_steps(lambda network: build_optimizer(network, training, 0.1))
    expected = after_steps(lambda network: kind(network.parameters(), lr=0.1, **options))
    assert all(map(torch.equal, result, expected))


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_what_is_fixed_is_not_trained(optimizer):
    network = nn.Linear(2, 1)
    network.weight.requires_grad_(False)
    built = build_optimizer(network, TrainingSettings(optimizer=optimizer, weight_decay=0.5), 0.1)
    assert [parameter for group in built.param_groups for parameter in group["params"]] == [network.bias]
