"""Local training of a classifier: it learns what can be learnt, seeds decide the bits, the learning rate falls."""

import pytest
import torch

from fedannot.custom.networks.building import build_classifier
from fedannot.custom.settings import ClassifierTrainingSettings
from fedannot.custom.training.class_training import cross_entropy, train_classifier
from fedannot.custom.training.local_training import TrainingStopped

SMALL = {"in_channels": 1, "num_classes": 2, "depth": 10, "widths": (4, 4, 8, 8), "stem": "small"}
SETTINGS = ClassifierTrainingSettings(batch_size=8, local_epochs=4, learning_rate=0.05)


def problem(count=32):
    """Bright squares and dark ones."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    images = 0.3 * torch.randn(count, 1, 16, 16, generator=generator) + 2.0 * labels.view(-1, 1, 1, 1)
    return images, labels


def trained(seed=0, settings=SETTINGS, **options):
    network = build_classifier(**SMALL)
    outcome = train_classifier(network, *problem(), settings, learning_rate=0.05, seed=seed, **options)
    return network, outcome


def test_it_learns_bright_from_dark():
    network, outcome = trained()
    images, labels = problem()
    with torch.no_grad():
        assert (network.eval()(images).argmax(dim=1) == labels).float().mean() > 0.95
    assert outcome.steps == 4 * 4
    assert outcome.mean_loss < 0.5


def test_the_same_seed_gives_the_same_bits_and_another_others():
    first, again, other = (trained(seed)[0].state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_the_first_step_is_that_of_gradient_descent_by_hand():
    network, reference = build_classifier(**SMALL), build_classifier(**SMALL)
    images, labels = problem(8)
    settings = ClassifierTrainingSettings(batch_size=8, local_epochs=1, augmentation=False, weight_decay=0.1)
    train_classifier(network, images, labels, settings, learning_rate=0.2, seed=0)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    loss = cross_entropy(reference.train()(images[order]), labels[order])
    loss.backward()
    for (name, one), other in zip(network.named_parameters(), reference.parameters(), strict=True):
        expected = other - 0.2 * (other.grad + 0.1 * other)
        torch.testing.assert_close(one, expected, msg=name)


def test_another_loss_is_used_as_it_is():
    calls = []

    def zero(logits, labels):
        calls.append(tuple(labels.shape))
        return (0.0 * logits).sum()

    network, outcome = trained(loss_function=zero, settings=SETTINGS.model_copy(update={"weight_decay": 0.0}))
    start = build_classifier(**SMALL)
    assert calls == [(8,)] * 16
    assert outcome.mean_loss == 0
    assert all(torch.equal(one, other) for one, other in zip(network.parameters(), start.parameters(), strict=True))


def test_it_stops_when_it_should():
    with pytest.raises(TrainingStopped):
        trained(should_stop=lambda: True)


def test_the_learning_rate_is_a_tenth_after_each_step():
    settings = ClassifierTrainingSettings(learning_rate=0.01, learning_rate_steps=(0.7, 0.9))
    rates = [settings.learning_rate_at(number, 10) for number in range(1, 11)]
    assert rates == pytest.approx([0.01] * 7 + [0.001] * 2 + [0.0001])
