"""A site that does not annotate a class: the probabilities of that class and of the background are one."""

import numpy as np
import pytest
import torch

from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.losses import DiceRecord, segmentation_loss
from fedannot.custom.training.marginal_classes import MarginalClasses
from fedannot.custom.training.objectives import Step, SupervisedObjective, training_objective
from fedannot.transforms.ignored_label import IGNORED_LABEL

NAMES = ("ce", "dice", "batch_dice", "ce_dice", "ce_batch_dice", "nr_dice")
STEP = Step(0, 0, 1)
CLASSES = 4


class Logits(torch.nn.Module):
    """A network whose output is a parameter."""

    def __init__(self, seed=0, extents=(6, 5)):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.values = torch.nn.Parameter(3 * torch.randn(3, CLASSES + 1, *extents, generator=generator))

    def forward(self, images):
        return self.values


def a_batch(annotated, extents=(6, 5)):
    """Labels of the annotated classes, some of them ignored."""
    values = np.random.default_rng(1).choice([0, *annotated, IGNORED_LABEL], (3, 1, *extents)).astype(np.uint8)
    return Batch(torch.zeros(3, 1, *extents), torch.from_numpy(values), torch.arange(3))


def brute_force(name, logits, labels, annotated):
    """The losses written out with the sums of probabilities, pixel by pixel, in double precision."""
    p = torch.from_numpy(logits).softmax(1).numpy()
    counts = labels[:, 0] != IGNORED_LABEL
    others = [c for c in range(1, CLASSES + 1) if c not in annotated]
    background = p[:, 0] + sum(p[:, c] for c in others)
    entropies = []
    for place in zip(*np.nonzero(counts), strict=True):
        label = labels[place[0], 0][place[1:]]
        q = background[place] if label == 0 else p[(place[0], label, *place[1:])]
        entropies.append(-np.log(q))
    pairs = [(p[:, c] * counts, (labels[:, 0] == c) * counts) for c in annotated]
    samples = [[_dice(a[i], b[i]) for a, b in pairs] for i in range(len(p))]
    losses = {
        "ce": np.mean(entropies),
        "dice": np.mean(samples),
        "batch_dice": np.mean([_dice(a, b) for a, b in pairs]),
        "nr_dice": np.mean([(abs(a - b) ** 1.5).sum() / ((a**2).sum() + b.sum() + 1e-5) for a, b in pairs]),
    }
    return losses["ce"] + losses[name.removeprefix("ce_")] if name.startswith("ce_") else losses[name]


def _dice(p, g):
    return 1 - (2 * (p * g).sum() + 1e-5) / (p.sum() + g.sum() + 1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("annotated", [(1,), (2, 4), (1, 2, 3)])
def test_the_loss_is_that_of_summed_probabilities(name, annotated):
    network, batch = Logits(), a_batch(annotated)
    objective = SupervisedObjective(segmentation_loss(name), marginal=MarginalClasses(annotated, CLASSES))
    expected = brute_force(name, network.values.detach().double().numpy(), batch.labels.numpy(), annotated)
    assert objective(network, batch, STEP).item() == pytest.approx(expected, rel=1e-5)


def test_the_gradient_is_that_of_the_brute_force_and_zero_at_ignored_pixels():
    annotated, network = (2, 4), Logits()
    batch = a_batch(annotated)
    SupervisedObjective(segmentation_loss("ce_dice"), marginal=MarginalClasses(annotated, CLASSES))(
        network, batch, STEP
    ).backward()
    gradient = network.values.grad
    ignored = (batch.labels == IGNORED_LABEL).expand_as(gradient)
    assert ignored.any()
    assert not gradient[ignored].any()
    values = network.values.detach().double().numpy()
    for place in [(0, 1, 2, 3), (1, 0, 0, 0), (2, 4, 5, 4), (1, 3, 3, 1)]:
        both = []
        for step in (1e-5, -1e-5):
            moved = values.copy()
            moved[place] += step
            both.append(brute_force("ce_dice", moved, batch.labels.numpy(), annotated))
        assert gradient[place].item() == pytest.approx((both[0] - both[1]) / 2e-5, rel=1e-3, abs=1e-7)


def test_background_teaches_nothing_of_how_it_is_shared_with_a_class_that_is_not_annotated():
    marginal, labels = MarginalClasses([1], 2), torch.zeros(1, 1, 2, 2, dtype=torch.uint8)
    logits = torch.tensor([5.0, -2.0, 5.0]).view(1, 3, 1, 1).expand(1, 3, 2, 2).clone().requires_grad_()
    segmentation_loss("ce")(marginal.logits(logits), marginal.labels(labels)).backward()
    # The same for both, and downward for what is annotated alone.
    assert torch.equal(logits.grad[:, 0], logits.grad[:, 2])
    assert (logits.grad[:, 0] < 0).all()
    assert (logits.grad[:, 1] > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_where_all_classes_are_annotated_it_is_the_ordinary_loss(name):
    everything = range(1, CLASSES + 1)
    batch, ordinary, marginal = a_batch(everything), Logits(), Logits()
    settings = TrainingSettings(loss=name)
    first = training_objective(settings)(ordinary, batch, STEP)
    # A site that annotates all has no marginal classes; with them the numbers are the same.
    of_all = MarginalClasses(everything, CLASSES)
    assert torch.equal(of_all.logits(ordinary.values), torch.cat([ordinary.values], dim=1))
    second = training_objective(settings, marginal=of_all)(marginal, batch, STEP)
    assert torch.equal(first, second)
    first.backward()
    second.backward()
    assert torch.equal(ordinary.values.grad, marginal.values.grad)


def test_the_recorded_dice_loss_is_of_the_annotated_classes():
    annotated, network = (2, 4), Logits()
    batch = a_batch(annotated)
    record = DiceRecord(annotated_only=False, device=torch.device("cpu"))
    SupervisedObjective(segmentation_loss("ce"), record, marginal=MarginalClasses(annotated, CLASSES))(
        network, batch, STEP
    )
    values = network.values.detach().double().numpy()
    assert record.mean == pytest.approx(brute_force("dice", values, batch.labels.numpy(), annotated), rel=1e-5)


def test_a_label_that_is_not_annotated_is_an_error():
    marginal = MarginalClasses([1], 2)
    labels = marginal.labels(torch.tensor([0, 1, 2, 255], dtype=torch.uint8).view(1, 1, 2, 2))
    assert labels.flatten().tolist() == [0, 1, 254, 255]
    with pytest.raises(IndexError):
        segmentation_loss("ce")(torch.zeros(1, 2, 2, 2), labels)


@pytest.mark.parametrize("annotated", [(), (0,), (2, 1), (1, 1), (3,)])
def test_wrong_classes_are_refused(annotated):
    with pytest.raises(ValueError, match="Expected ascending classes from 1 to 2, but got annotated="):
        MarginalClasses(annotated, 2)


def test_a_completeness_and_classes_that_are_not_annotated_are_refused_together():
    with pytest.raises(ValueError, match="Expected a completeness of all classes"):
        SupervisedObjective(segmentation_loss("ce"), None, torch.ones(1, 2), MarginalClasses([1], 2))
