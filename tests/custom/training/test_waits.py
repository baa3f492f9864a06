"""What a step of training would wait for on a GPU, counted on tensors without values."""

import pytest
import torch
from support.counted_steps import DEVICE, StepCounts, as_on_gpu, counted
from torch import nn

from fedannot.custom.networks.building import build_network
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.losses import DiceRecord
from fedannot.custom.training.objectives import Step, training_objective, with_penalty
from fedannot.custom.training.optimizers import build_optimizer
from fedannot.custom.training.steps import SingleSteps


def counts_of_a_step(training: TrainingSettings, *, with_dice: bool = False) -> StepCounts:
    network = build_network(features=(2, 2, 2, 2, 2, 2), upsample="nontrainable").to(DEVICE)
    dice = DiceRecord(annotated_only=training.dice_loss_over == "annotated", device=DEVICE) if with_dice else None
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    objective = with_penalty(training_objective(training, dice=dice), training, network)
    batch = Batch(
        torch.empty(4, 1, 16, 16, device=DEVICE),
        torch.empty(4, 1, 16, 16, dtype=torch.uint8, device=DEVICE),
        torch.arange(4),
    )
    with as_on_gpu():
        steps = SingleSteps(
            network, objective, build_optimizer(network, training, 1e-3), scaler, training.gradient_clipping
        )
    return counted(lambda: steps.step(batch, Step(0, 0, 1)))


@pytest.mark.parametrize(
    ("settings", "with_dice"),
    [
        ({"loss": "ce"}, False),
        ({"loss": "ce_dice", "proximal_weight": 0.01, "gradient_clipping": 1.0}, False),
        ({"loss": "ce", "dice_loss_over": "annotated"}, True),
        ({"loss": "dice", "dice_loss_over": "all"}, True),
    ],
    ids=["FedAvg and FedA³I", "FedProx with clipping", "FedIA", "FedIA of all samples"],
)
def test_a_step_waits_for_nothing(settings, with_dice):
    counts = counts_of_a_step(TrainingSettings(**settings), with_dice=with_dice)
    assert (counts.copies, counts.waits) == (0, 0)
    assert counts.kernels["aten.convolution.default"] == 22
    assert counts.kernels["aten._fused_adam_.default"] == 1


def test_fedprox_launches_a_few_kernels_more_and_one_for_each_parameter():
    """The distance and its gradient are of all parameters at once; only their sums with the loss's are single ones."""
    without, with_penalty_ = (
        counts_of_a_step(TrainingSettings(loss="ce", proximal_weight=weight)).kernels.total() for weight in (0.0, 0.01)
    )
    parameters = list(build_network(features=(2, 2, 2, 2, 2, 2), upsample="nontrainable").parameters())
    assert with_penalty_ - without <= len(parameters) + 20


@pytest.mark.parametrize(
    ("read", "copies", "waits"),
    [
        (lambda values: float(values.sum()), 1, 1),
        (lambda values: bool((values > 0).any()), 1, 1),
        (lambda values: values[values > 0].sum(), 0, 1),
        (lambda values: values[torch.arange(2)], 1, 1),
        (lambda values: values.cpu(), 1, 1),
        (lambda values: values + torch.zeros(4).to(DEVICE), 1, 1),
        (lambda values: values.copy_(torch.zeros(4)), 1, 1),
        (lambda values: values.copy_(torch.ones_like(values)), 0, 0),
        (lambda values: values.__setitem__(values > 0, torch.zeros_like(values)), 0, 1),
        (lambda values: values.__setitem__(values > 0, 0.0), 0, 0),
        (lambda values: values.__setitem__(torch.arange(2), torch.zeros(2, device=DEVICE)), 1, 1),
        (torch.nonzero, 0, 1),
        (lambda values: torch.where(values > 0, values, 0.0).sum(), 0, 0),
    ],
)
def test_what_reads_a_value_is_counted(read, copies, waits):
    values = torch.empty(4, device=DEVICE)
    counts = counted(lambda: read(values))
    assert (counts.copies, counts.waits) == (copies, waits)


def test_kernels_are_counted_without_views():
    values = torch.empty(4, 4, device=DEVICE)
    assert counted(lambda: nn.functional.relu(values.flatten()[2:] + 1)).kernels == {
        "aten.add.Tensor": 1,
        "aten.relu.default": 1,
    }
