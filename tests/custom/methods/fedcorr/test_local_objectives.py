"""What a site makes small in FedCorr: mixed images, and the distance from the received model."""

import copy

import numpy as np
import pytest
import torch
from support.pictures import make_data
from torch import nn
from torch.nn import functional

from fedannot.custom.methods.fedcorr.local_objectives import DistancePenalty, MixupObjective
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.outputs import all_outputs, give_main_output
from fedannot.custom.settings import NetworkSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.objectives import Objective, Step, SupervisedObjective

DATA = make_data([(1, 2), (1,), (2,), ()])
BATCH = Batch(
    torch.cat([case.image for case in DATA.cases]), torch.stack([case.label for case in DATA.cases]), torch.arange(4)
)
FIRST, LATER = Step(0, 0, 1), Step(1, 0, 1)


def network() -> nn.Module:
    torch.manual_seed(0)
    return described_network(NetworkSettings(features=(4, 4, 8, 8, 8, 4), num_classes=2)).eval()


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, labels.squeeze(1).long())


def test_mixed_images_count_for_both_labels() -> None:
    """By hand, with the share and the order that the same generator draws."""
    made = network()
    loss = MixupObjective(SupervisedObjective(cross_entropy), 1.0, 5)(made, BATCH, FIRST)
    generator = np.random.default_rng(5)
    share, order = generator.beta(1.0, 1.0), generator.permutation(4)
    assert sorted(order) != order.tolist()
    logits = made(share * BATCH.images + (1 - share) * BATCH.images[order])
    expected = share * cross_entropy(logits, BATCH.labels) + (1 - share) * cross_entropy(logits, BATCH.labels[order])
    torch.testing.assert_close(loss, expected)


def test_a_network_runs_once_for_both_labels_with_its_deep_supervision() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))
            self.runs = 0

        def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
            self.runs += 1
            logits = torch.cat([self.weight * images, -images, 0 * images], dim=1)
            return [logits, functional.avg_pool2d(logits, 2)]

    seen: list[list[torch.Tensor]] = []

    def objective(network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        del step
        outputs = all_outputs(network, batch.images)
        seen.append([outputs.main, *outputs.further])
        return outputs.main.mean()

    deep = give_main_output(Deep())
    MixupObjective(objective, 1.0, 0)(deep, BATCH, FIRST)
    assert deep.runs == 1
    assert [len(outputs) for outputs in seen] == [2, 2]
    assert all(one is other for one, other in zip(*seen, strict=True))


def test_the_distance_is_not_squared_and_begins_with_the_second_step() -> None:
    """Its gradient is β μ (w − w_t) / ‖w − w_t‖, of all parameters together."""
    made = network()
    penalty = DistancePenalty(1.5, made)
    assert float(penalty(made, BATCH, FIRST)) == 0
    assert set(gradient(penalty, made)) == {0.0}
    moved = copy.deepcopy(made)
    for parameter in moved.parameters():
        parameter.data += torch.randn(parameter.shape)
    pairs = zip(moved.parameters(), made.parameters(), strict=True)
    way = torch.cat([(one - other).detach().flatten() for one, other in pairs])
    assert float(penalty(moved, BATCH, LATER).detach()) == pytest.approx(1.5 * float(way.norm()), rel=1e-5)
    torch.testing.assert_close(torch.tensor(gradient(penalty, moved)), 1.5 * way / way.norm(), rtol=1e-4, atol=1e-6)


def gradient(penalty: Objective, network: nn.Module) -> list[float]:
    parts = torch.autograd.grad(penalty(network, BATCH, LATER), list(network.parameters()))
    result: list[float] = torch.cat([part.flatten() for part in parts]).tolist()
    return result
