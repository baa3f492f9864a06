"""Local objectives: what each adds up to on one batch, and FedProx's effect on training."""

import pytest
import torch
from torch import nn

from fedannot.custom.networks.building import build_network
from fedannot.custom.settings import ClassifierTrainingSettings, TrainingSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.loop import train
from fedannot.custom.training.losses import DiceRecord, build_loss
from fedannot.custom.training.objectives import (
    ProximalPenalty,
    Step,
    Sum,
    SupervisedObjective,
    proximal_term,
    training_objective,
    with_penalty,
)

STEP = Step(0, 0, 1)


class Near(nn.Module):
    """The proximal term as a module's output."""

    def __init__(self, network, reference):
        super().__init__()
        self.network, self.reference = network, reference

    def forward(self):
        return proximal_term(self.network, self.reference)


CPU = torch.device("cpu")


def make_batch():
    generator = torch.Generator().manual_seed(0)
    labels = torch.zeros(3, 1, 4, 4, dtype=torch.uint8)
    labels[1, :, 1:3, 1:3] = 1
    return Batch(torch.randn(3, 1, 4, 4, generator=generator), labels, torch.tensor([7, 2, 5]))


def test_the_supervised_objective_is_the_loss_of_the_logits():
    batch, network = make_batch(), nn.Conv2d(1, 2, 1)
    expected = nn.functional.cross_entropy(network(batch.images), batch.labels[:, 0].long())
    assert torch.equal(training_objective(TrainingSettings())(network, batch, STEP), expected)


def test_that_of_a_classifier_is_the_cross_entropy():
    batch, network = Batch(torch.randn(2, 1, 3, 3), torch.tensor([0, 1]), torch.arange(2)), nn.Flatten()
    expected = nn.functional.cross_entropy(network(batch.images), batch.labels)
    assert torch.equal(training_objective(ClassifierTrainingSettings())(network, batch, STEP), expected)


def test_the_dice_loss_is_recorded_with_the_samples_it_is_of():
    batch, network = make_batch(), nn.Conv2d(1, 2, 1)
    record = DiceRecord(annotated_only=True, device=CPU)
    SupervisedObjective(build_loss(TrainingSettings()), record)(network, batch, STEP)
    probabilities = network(batch.images).detach().double().softmax(dim=1)[1, 1]
    truth = batch.labels[1, 0].double()
    expected = 1 - 2 * (probabilities * truth).sum() / (probabilities.sum() + truth.sum())
    assert record.mean == pytest.approx(float(expected), rel=1e-4)
    assert record.samples == {2}


def test_objectives_are_added():
    batch, network = make_batch(), nn.Conv2d(1, 2, 1)
    parts = [lambda model, of, step, number=number: torch.tensor(number) for number in (1.0, 20.0, 300.0)]
    assert Sum(*parts)(network, batch, STEP).item() == 321.0


def test_the_proximal_term_by_hand():
    """½ (3² + 4² + 0²) over three numbers."""
    network = nn.Linear(2, 1)
    reference = [parameter.detach().clone() for parameter in network.parameters()]
    with torch.no_grad():
        network.weight += torch.tensor([[3.0, 4.0]])
    term = proximal_term(network, reference)
    assert float(term) == pytest.approx(12.5)
    term.backward()
    # The gradient is the difference.
    torch.testing.assert_close(network.weight.grad, torch.tensor([[3.0, 4.0]]))


def test_the_proximal_term_and_its_gradient_are_those_of_the_sum_over_tensors():
    """The gradient bit for bit, also of a frozen parameter's neighbours and with a weight; the value up to rounding."""
    network = build_network(features=(4, 4, 8, 8, 8, 4))
    generator = torch.Generator().manual_seed(0)
    reference = [torch.randn(tensor.shape, generator=generator) for tensor in network.parameters()]
    frozen, *trained = network.parameters()
    frozen.requires_grad_(False)
    term = 0.3 * proximal_term(network, reference)
    found = torch.autograd.grad(term, trained)
    pairs = zip(network.parameters(), reference, strict=True)
    expected = 0.3 * (0.5 * torch.stack([(tensor - fixed).square().sum() for tensor, fixed in pairs]).sum())
    assert float(term) == pytest.approx(float(expected), rel=1e-6)
    for one, other in zip(found, torch.autograd.grad(expected, trained), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match="There are 1 tensors to keep"):
        proximal_term(network, reference[:1])


def test_the_gradient_of_the_proximal_term_is_differentiated_again():
    """As in a penalty of gradients, beside the loss, whose own second derivative would hide a part that is missing."""
    network = nn.Linear(2, 3).double()
    reference = [torch.randn_like(parameter) for parameter in network.parameters()]
    network.bias.requires_grad_(False)

    def term(weight):
        return torch.func.functional_call(Near(network, reference), {"network.weight": weight}, ())

    weight = network.weight.detach().requires_grad_()
    assert torch.autograd.gradcheck(term, weight)
    assert torch.autograd.gradgradcheck(term, weight)
    (gradient,) = torch.autograd.grad(3 * term(weight) + weight.pow(3).sum(), weight, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), weight)
    torch.testing.assert_close(second, 3 + 6 * weight)


def test_the_proximal_penalty_keeps_the_parameters_as_they_were_and_has_a_weight():
    network = nn.Linear(2, 1)
    penalty = ProximalPenalty(0.2, network)
    assert float(penalty(network, make_batch(), STEP)) == 0
    with torch.no_grad():
        network.weight += torch.tensor([[3.0, 4.0]])
    assert float(penalty(network, make_batch(), STEP)) == pytest.approx(2.5)


def distance_from_start(weight=0.0, penalty=None):
    """Train a small network, and give the proximal term afterwards."""
    settings = TrainingSettings(batch_size=2, local_epochs=5, learning_rate=0.01, proximal_weight=weight)
    network = build_network(features=(4, 4, 8, 8, 8, 4))
    reference = [parameter.detach().clone() for parameter in network.parameters()]
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 1, 16, 16, generator=generator)
    batches = SampleBatches(images, (images[:, 0] > 0).to(torch.uint8), 2, CPU)
    objective = training_objective(settings)
    if penalty is not None:
        objective = Sum(objective, penalty(network))
    train(network, batches, objective, settings, learning_rate=0.01, seed=0)
    return float(proximal_term(network, reference).detach())


def test_fedprox_keeps_training_near_the_received_model():
    assert distance_from_start(10.0) < 0.7 * distance_from_start()


def test_without_a_weight_there_is_no_penalty():
    """Federated averaging keeps all its bits: the objective is the same one."""
    objective, network = training_objective(ClassifierTrainingSettings()), nn.Linear(2, 1)
    assert with_penalty(objective, ClassifierTrainingSettings(proximal_weight=0), network) is objective


def test_a_penalty_is_added_to_the_loss():
    """FedProx's own, given as a penalty, has the same effect to the bit."""
    assert distance_from_start(penalty=lambda network: ProximalPenalty(10.0, network)) == distance_from_start(10.0)
