"""Optimisers without PyTorch's compiler, against PyTorch's own."""

import subprocess
import sys

import pytest
import torch

from fedannot.custom.training.optimizers import SGD, Adam

TRAIN = """
import sys, torch
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.local_training import train_locally
from fedannot.custom.networks.building import build_network
from fedannot.custom.settings import TrainingSettings

images, labels = torch.randn(4, 1, 32, 32), torch.zeros(4, 32, 32, dtype=torch.uint8)
batches = SampleBatches(images, labels, 2, torch.device("cpu"))
train_locally(build_network(features=(4, 4, 8, 8, 8, 4)), batches, TrainingSettings(batch_size=2, local_epochs=1), 0)
print("torch._dynamo" in sys.modules)
"""


def trained(kind, **options):
    """Parameters and state after three steps on a seeded problem."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(5, 3, generator=generator, requires_grad=True), torch.zeros(3, requires_grad=True)]
    optimizer = kind(weights, lr=0.1, **options)
    for _ in range(3):
        optimizer.zero_grad()
        (torch.randn(4, 5, generator=generator) @ weights[0] + weights[1]).pow(2).mean().backward()
        optimizer.step()
    state = [value for entry in optimizer.state.values() for value in entry.values()]
    assert state
    return weights + state


@pytest.mark.parametrize(
    ("ours", "options"),
    [
        (Adam, {"betas": (0.9, 0.99), "fused": True}),
        (Adam, {"betas": (0.9, 0.99), "foreach": True}),
        (Adam, {"weight_decay": 0.1}),
        (SGD, {"momentum": 0.9, "weight_decay": 1e-2}),
        (SGD, {"momentum": 0.9, "fused": True}),
    ],
)
def test_steps_are_those_of_pytorch_bit_for_bit(ours, options):
    # PyTorch wraps its own class once more when the first one is made: before and after.
    theirs_kind = getattr(torch.optim, ours.__name__)
    first, theirs, second = (trained(kind, **options) for kind in (ours, theirs_kind, ours))
    assert all(map(torch.equal, first, theirs))
    assert all(map(torch.equal, second, theirs))


def test_a_step_is_no_part_of_the_graph():
    weight = torch.ones(1, requires_grad=True)
    optimizer = Adam([weight], lr=0.5)
    weight.backward()
    optimizer.step()
    assert weight.is_leaf
    assert weight.item() == pytest.approx(0.5)  # the first step of Adam is the learning rate


def test_a_process_that_trains_does_not_load_the_compiler():
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"
