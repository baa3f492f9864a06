"""FedNoRo at a site: adjusted logits, what a noisy site makes small, what is reported of classes."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.labelled_pictures import Brightness
from support.labelled_pictures import make_data as make_classes
from support.pictures import Threshold, make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.interface.method import SiteMethod
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.fednoro import METHODS
from fedannot.custom.methods.fednoro.distillation import DistillationObjective, mean_divergence
from fedannot.custom.methods.fednoro.prior import AdjustedNetwork, log_frequencies
from fedannot.custom.methods.fednoro.server import DISTILLATION
from fedannot.custom.methods.fednoro.site import FedNoRoSite
from fedannot.custom.networks.outputs import all_outputs, give_main_output
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import ESTIMATE_CLASS_LOSSES
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.losses import ClassCrossEntropy
from fedannot.custom.training.objectives import Step, SupervisedObjective

CELLS = make_classes([0, 0, 0, 0, 1, 1, 1, 2], [0.1, 0.2, 0.0, 1.0, 1.0, 1.1, 0.9, 2.0])
PICTURES = make_data([(1, 2)] * 4)
TRAINING = {"batch_size": 4, "local_epochs": 2, "learning_rate": 0.05}
STEP = Step(0, 0, 1)


def site_part(task: str = "classification", **settings: Any) -> FedNoRoSite:
    num_classes = {"classification": 3, "segmentation": 2}[task]
    values = {"rounds": 30, "network": {"in_channels": 1, "num_classes": num_classes}, "training": TRAINING}
    declared = next(method for method in METHODS if method.task == task)
    made = declared.site_part(declared.settings.model_validate(values | settings))
    assert isinstance(made, FedNoRoSite)
    return made


def trained(method: SiteMethod, folder: Path, network: nn.Module, data: Any, **message: Any) -> list[torch.Tensor]:
    method.train(network, HandmadeSite(folder, data).view(method, 12, message))
    return [parameter.detach().clone() for parameter in network.parameters()]


@pytest.mark.parametrize(
    ("task", "network", "data"),
    [("classification", Brightness(), CELLS), ("segmentation", Threshold(2), PICTURES)],
)
def test_without_adjustment_a_clean_site_trains_as_in_federated_averaging(
    task: str, network: nn.Module, data: Any, tmp_path: Path
) -> None:
    start = network.state_dict()
    method = site_part(task, logit_adjustment=False)
    results = []
    for half in (method, FedAvgSite(method.settings)):
        network.load_state_dict({name: torch.ones_like(value) for name, value in start.items()})
        results.append(trained(half, tmp_path, network, data))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize(
    ("task", "make", "data"),
    [("classification", Brightness, CELLS), ("segmentation", lambda: Threshold(2), PICTURES)],
)
def test_a_noisy_site_trains_otherwise_and_twice_the_same(task: str, make: Any, data: Any, tmp_path: Path) -> None:
    method = site_part(task)
    clean = trained(method, tmp_path, make(), data)
    noisy = [trained(method, tmp_path, make(), data, **{DISTILLATION: 0.8}) for _ in range(2)]
    assert torch.equal(noisy[0][0], noisy[1][0])
    assert not torch.equal(noisy[0][0], clean[0])


@pytest.mark.parametrize("weight", [math.nan, -0.1, 1.1, True, "0.5", None])
def test_a_weight_that_is_none_is_refused(weight: object, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected a weight of distillation from 0 to 1 from the server"):
        trained(site_part(), tmp_path, Brightness(), CELLS, **{DISTILLATION: weight})


def test_frequencies_are_of_what_is_not_ignored_and_finite_without_a_class() -> None:
    labels = [torch.tensor([[0, 0, 0, 1]]), torch.tensor([[255, 255, 0, 1]])]
    expected = [math.log(4 / 6), math.log(2 / 6), math.log(1e-7)]
    assert log_frequencies(labels, 3).tolist() == pytest.approx(expected, rel=1e-6)


def test_adjusted_logits_have_the_frequencies_of_all_outputs_added() -> None:
    class Deep(nn.Module):
        def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
            return [images, images[..., ::2, ::2]]

    outputs = all_outputs(AdjustedNetwork(give_main_output(Deep()), torch.tensor([0.5, -1.0])), torch.zeros(1, 2, 4, 4))
    assert outputs.main[0, :, 0, 0].tolist() == [0.5, -1.0]
    assert [logits[0, :, 1, 1].tolist() for logits in outputs.further] == [[0.5, -1.0]]


def test_the_loss_of_a_noisy_site_is_the_stated_one() -> None:
    """For one sample of class 0 with the student's logits (2, 1, 0), the teacher's (0, 1, 2), π = (1/2, 1/4, 1/4)."""

    class Fixed(nn.Module):
        def __init__(self, *logits: float) -> None:
            super().__init__()
            self.logits = nn.Parameter(torch.tensor([logits]))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.logits.expand(len(images), -1)

    prior = torch.tensor([0.5, 0.25, 0.25]).log()
    objective = DistillationObjective(
        SupervisedObjective(ClassCrossEntropy()), Fixed(0.0, 1.0, 2.0), log_prior=prior, weight=0.3, temperature=0.8
    )
    student = Fixed(2.0, 1.0, 0.0)
    batch = Batch(torch.zeros(1, 1, 1, 1), torch.tensor([0]), torch.tensor([0]))
    q = np.exp([2.0, 1.0, 0.0]) * [0.5, 0.25, 0.25]
    q /= q.sum()
    s = np.exp(np.array([0.0, 1.0, 2.0]) / 0.8)
    s /= s.sum()
    loss = objective(student, batch, STEP)
    assert loss.item() == pytest.approx(0.3 * np.sum(s * np.log(s / q)) - 0.7 * np.log(q[0]), rel=1e-5)
    loss.backward()
    # The gradient of both parts is q minus their target.
    expected = 0.3 * (q - s) + 0.7 * (q - np.array([1.0, 0.0, 0.0]))
    assert student.logits.grad is not None
    assert student.logits.grad[0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_loss_of_a_clean_site_is_that_of_its_adjusted_logits() -> None:
    """Federated averaging with logit adjustment: CE(z + ln π), value and gradient."""
    network = nn.Linear(2, 3)
    prior = torch.tensor([0.5, 0.25, 0.25]).log()
    images, labels = torch.tensor([[1.0, -2.0], [0.5, 3.0]]), torch.tensor([2, 0])
    objective = DistillationObjective(
        SupervisedObjective(ClassCrossEntropy()), network, log_prior=prior, weight=0.0, temperature=0.8
    )
    loss = objective(network, Batch(images, labels, torch.arange(2)), STEP)
    expected = nn.functional.cross_entropy(network(images) + prior, labels)
    assert torch.equal(loss, expected)
    parameters = list(network.parameters())
    gradients = [torch.autograd.grad(value, parameters) for value in (loss, expected)]
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_ignored_pixels_have_no_part_in_the_divergence() -> None:
    log_s, log_q = (torch.tensor([[[[a, 0.5]], [[1 - a, 0.5]]]]).log() for a in (0.9, 0.5))
    labels = torch.tensor([[[[0, 255]]]])
    alone = 0.9 * math.log(1.8) + 0.1 * math.log(0.2)
    assert float(mean_divergence(log_s, log_q, labels)) == pytest.approx(alone, rel=1e-6)
    assert float(mean_divergence(log_s, log_q, torch.full((1, 1, 1, 2), 255))) == 0.0


def test_mean_losses_of_classes_with_enough_patients_leave(tmp_path: Path) -> None:
    method = site_part()
    answer = method.answer(ESTIMATE_CLASS_LOSSES, Brightness(), HandmadeSite(tmp_path, CELLS).view(method, 11))
    fields = dict(answer.fields)
    OutboundRegistry(METHODS[1].outbound_fields).check(ESTIMATE_CLASS_LOSSES, fields)
    assert fields["num_loss_patients"] == [4, 3, 1]
    assert math.isnan(fields["class_losses"][2])
    levels = np.array([0.1, 0.2, 0.0, 1.0])
    logits = -((levels[:, None] - np.arange(3)) ** 2)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[:, 0]
    assert fields["class_losses"][0] == pytest.approx(losses.mean(), rel=1e-5)


def test_slices_of_few_patients_are_few_patients(tmp_path: Path) -> None:
    cases = tuple(replace(case, unit=str(number // 2)) for number, case in enumerate(CELLS.cases))
    method = site_part()
    view = HandmadeSite(tmp_path, replace(CELLS, cases=cases)).view(method, 11)
    answer = method.answer(ESTIMATE_CLASS_LOSSES, Brightness(), view)
    assert answer.fields["num_loss_patients"] == [2, 2, 1]
    assert all(map(math.isnan, answer.fields["class_losses"]))
