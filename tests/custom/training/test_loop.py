"""Local training of both tasks against optimizers worked out by hand and a plain loop."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.networks.building import build_classifier, build_network
from fedannot.custom.settings import ClassifierTrainingSettings, TrainingSettings
from fedannot.custom.training.batches import ClassBatches, PatchBatches, SampleBatches
from fedannot.custom.training.loop import TrainingStopped, run_epochs, train
from fedannot.custom.training.losses import ClassCrossEntropy, DiceRecord, build_loss
from fedannot.custom.training.objectives import Step, SupervisedObjective, training_objective

torch.set_num_threads(1)

CPU = torch.device("cpu")
FROZEN = 1e-30  # a learning rate that changes no bit of weights of typical size


def make_data(num=10, side=16, num_classes=1, channels=1, seed=0, spatial_dims=2):
    generator = np.random.default_rng(seed)
    images = generator.normal(size=(num, channels, *[side] * spatial_dims)).astype(np.float32)
    labels = generator.integers(0, num_classes + 1, size=(num, *[side] * spatial_dims))
    return torch.from_numpy(images), torch.from_numpy(labels)


def make_network(seed=0, num_classes=1):
    return build_network(features=(2, 2, 4, 4, 4, 2), num_classes=num_classes, seed=seed)


def train_on(network, batches, settings, seed, should_stop=None, dice=None):
    objective = training_objective(settings, dice=dice)
    rate = settings.learning_rate
    outcome = train(network, batches, objective, settings, learning_rate=rate, seed=seed, should_stop=should_stop)
    return outcome.with_dice(dice)


def train_samples(network, images, labels, settings, seed, should_stop=None):
    batches = SampleBatches(images, labels, settings.batch_size, torch.device("cpu"))
    return train_on(network, batches, settings, seed, should_stop)


def pixel_classifier(seed=0, channels=1, num_classes=1):
    torch.manual_seed(seed)
    return nn.Conv2d(channels, num_classes + 1, 1)


def cross_entropy_gradient(weight, bias, images, labels):
    """Loss and gradient of the mean cross entropy of a 1×1 convolution, in float64 NumPy: (softmax - one-hot) xᵀ."""
    pixels = images.numpy().astype(np.float64).transpose(0, 2, 3, 1).reshape(-1, images.shape[1])
    targets = np.eye(weight.shape[0])[labels.numpy().reshape(-1)]
    logits = pixels @ weight.T + bias
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    difference = (probabilities - targets) / len(pixels)
    loss = -np.log((probabilities * targets).sum(axis=1)).mean()
    return loss, difference.T @ pixels, difference.sum(axis=0)


@pytest.mark.parametrize("epochs", [1, 3])
def test_full_batch_training_is_adam_worked_out_by_hand(epochs):
    images, labels = make_data(num=4, side=5, channels=2, num_classes=2)
    network = pixel_classifier(channels=2, num_classes=2)
    values = [p.detach().numpy().astype(np.float64) for p in (network.weight.flatten(1), network.bias)]
    first, second = ([np.zeros_like(value) for value in values] for _ in range(2))
    losses = []
    for step in range(1, epochs + 1):
        loss, *gradients = cross_entropy_gradient(*values, images, labels)
        losses.append(loss)
        for index, gradient in enumerate(gradients):
            first[index] = 0.9 * first[index] + 0.1 * gradient
            second[index] = 0.99 * second[index] + 0.01 * gradient**2
            corrected = first[index] / (1 - 0.9**step), second[index] / (1 - 0.99**step)
            values[index] = values[index] - 0.05 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
    settings = TrainingSettings(learning_rate=0.05, batch_size=8, local_epochs=epochs)
    outcome = train_samples(network, images, labels, settings, seed=0)
    np.testing.assert_allclose(network.weight.detach().flatten(1).numpy(), values[0], atol=1e-5)
    np.testing.assert_allclose(network.bias.detach().numpy(), values[1], atol=1e-5)
    assert outcome.mean_loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert outcome.steps == epochs


@pytest.mark.parametrize("loss", ["ce", "ce_dice"])
def test_training_gives_the_bits_of_a_plain_loop(loss):
    images, labels = make_data(num=7, side=32)
    trained, plain = make_network(), make_network()
    settings = TrainingSettings(loss=loss, learning_rate=0.01, batch_size=3, local_epochs=2)
    outcome = train_samples(trained, images, labels, settings, seed=11)

    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01, betas=(0.9, 0.99), fused=True)
    generator = torch.Generator().manual_seed(11)
    plain.train()
    for _ in range(2):
        order = torch.randperm(7, generator=generator)
        for start in range(0, 7, 3):
            chosen = order[start : start + 3]
            optimizer.zero_grad()
            build_loss(settings)(plain(images[chosen]), labels[chosen][:, None]).backward()
            optimizer.step()
    assert all(
        torch.equal(a, b) for a, b in zip(trained.state_dict().values(), plain.state_dict().values(), strict=True)
    )
    assert outcome.steps == 6
    assert trained.training


def test_the_seed_decides_every_bit_and_the_global_random_state_nothing():
    images, labels = make_data(num=6)
    settings = TrainingSettings(batch_size=2, local_epochs=2)
    results = []
    for seed, global_seed in ((1, 0), (1, 99), (2, 0)):
        network = make_network()
        torch.manual_seed(global_seed)
        outcome = train_samples(network, images, labels, settings, seed)
        results.append((outcome.mean_loss, network.state_dict()))
    weight = "conv_0.conv_0.conv.weight"
    assert results[0][0] == results[1][0]
    assert all(torch.equal(results[0][1][name], results[1][1][name]) for name in results[0][1])
    assert not torch.equal(results[0][1][weight], results[2][1][weight])


class Recorder(nn.Module):
    """Notes the first pixel of every image that it sees."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.batches: list[list[float]] = []

    def forward(self, images):
        self.batches.append(images[:, 0, 0, 0].tolist())
        return torch.cat([images, -images], dim=1) * self.scale


def test_every_epoch_sees_every_sample_once_in_a_new_order():
    images = torch.arange(10.0)[:, None, None, None].expand(10, 1, 2, 2).contiguous()
    recorder = Recorder()
    outcome = train_samples(
        recorder, images, torch.zeros(10, 2, 2), TrainingSettings(batch_size=4, local_epochs=3), seed=0
    )
    assert [len(batch) for batch in recorder.batches] == [4, 4, 2] * 3
    epochs = [list(itertools.chain(*recorder.batches[start : start + 3])) for start in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert outcome.steps == 9


def test_mean_loss_weighs_samples_equally_whatever_the_batches():
    images, labels = make_data(num=5, num_classes=2)
    network = pixel_classifier(num_classes=2)
    expected = nn.functional.cross_entropy(network(images), labels).item()
    for batch_size in (1, 2, 3, 5):
        settings = TrainingSettings(learning_rate=FROZEN, batch_size=batch_size, local_epochs=2)
        assert train_samples(network, images, labels, settings, seed=0).mean_loss == pytest.approx(expected, rel=1e-5)


def make_volumes(sizes, seed=0):
    generator = np.random.default_rng(seed)
    cases = []
    for number, size in enumerate(sizes):
        label = torch.zeros(1, *size, dtype=torch.uint8)
        label[:, 4:12, 4:12, 4:12] = 1
        image = torch.from_numpy(generator.normal(size=(1, 1, *size)).astype(np.float32)) + label[:, None]
        cases.append(LoadedCase(f"{number}.nii.gz", str(number), image, label, None, (1.0, 1.0, 1.0)))
    return cases


def test_patches_of_volumes_are_trained_on_with_bits_that_the_seed_decides():
    cases = make_volumes([(20, 18, 16), (16, 24, 14), (33, 16, 16)])
    settings = TrainingSettings(batch_size=4, local_epochs=2, patch=(16, 16, 32))
    states, outcomes = [], []
    for seed, global_seed in ((1, 0), (1, 99), (2, 0)):
        network = build_network(features=(2, 2, 2, 2, 2, 2), spatial_dims=3)
        torch.manual_seed(global_seed)
        batches = PatchBatches(cases, settings.patch, 2, settings.batch_size, torch.device("cpu"))
        outcomes.append(train_on(network, batches, settings, seed))
        states.append(network.state_dict())
    # Three volumes with two patches each, in batches of four and two.
    assert [outcome.steps for outcome in outcomes] == [4, 4, 4]
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    weight = "conv_0.conv_0.conv.weight"
    assert not torch.equal(states[0][weight], states[2][weight])


def test_the_dice_loss_names_the_volumes_whose_patches_have_an_object():
    """One patch of each of many volumes: in about half an object is in it, and the others stand behind no loss."""
    cases = make_volumes([(16, 16, 16)] * 12)
    for case in cases:
        case.label[:] = 0
        case.label[0, 0, 0, 0] = 1
    settings = TrainingSettings(learning_rate=FROZEN, local_epochs=1)
    batches = PatchBatches(cases, (2, 2, 2), 1, 4, torch.device("cpu"))
    drawn = PatchBatches(cases, (2, 2, 2), 1, 4, torch.device("cpu")).epoch(torch.Generator().manual_seed(0))
    outcome = train_on(nn.Conv3d(1, 2, 1), batches, settings, 0, dice=DiceRecord(annotated_only=True, device=CPU))
    assert len(outcome.dice_samples) == sum(int(batch.labels.flatten(1).any(dim=1).sum()) for batch in drawn)
    assert 1 < len(outcome.dice_samples) < 11
    outcome = train_on(nn.Conv3d(1, 2, 1), batches, settings, 0, dice=DiceRecord(annotated_only=False, device=CPU))
    assert outcome.dice_samples == frozenset(range(12))


def test_mean_loss_of_patches_weighs_them_equally_whatever_the_batches():
    cases = make_volumes([(8, 8, 8)] * 5)
    for case in cases:
        case.label[:] = 0
        case.image[:] = float(case.unit)
    network = nn.Conv3d(1, 2, 1)
    expected = [nn.functional.cross_entropy(network(case.image), case.label.long()).item() for case in cases]
    for batch_size in (1, 2, 10):
        settings = TrainingSettings(learning_rate=FROZEN, batch_size=batch_size, local_epochs=1)
        batches = PatchBatches(cases, (4, 4, 4), 2, batch_size, torch.device("cpu"))
        assert train_on(network, batches, settings, 0).mean_loss == pytest.approx(np.mean(expected), rel=1e-5)


@pytest.mark.parametrize("batches", [0, 3])
def test_training_stops_before_the_next_batch(batches):
    recorder, answers = Recorder(), iter([False] * batches + [True])
    images, labels = make_data(num=4, side=2)
    settings = TrainingSettings(batch_size=2, local_epochs=5)
    with pytest.raises(TrainingStopped):
        train_samples(recorder, images, labels, settings, seed=0, should_stop=lambda: next(answers))
    assert len(recorder.batches) == batches


def test_data_are_left_as_they_are():
    images, labels = make_data(num=3)
    copies = images.clone(), labels.clone()
    train_samples(make_network(), images, labels, TrainingSettings(local_epochs=1), seed=0)
    assert torch.equal(images, copies[0])
    assert torch.equal(labels, copies[1])


class Weight(nn.Module):
    """One parameter, w; what it is trained on does not matter."""

    def __init__(self, value=1.0):
        super().__init__()
        self.value = nn.Parameter(torch.tensor([value]))


def test_an_objective_gets_network_batch_and_step():
    images = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 1, 2, 2)
    batches = SampleBatches(images, torch.zeros(5, 2, 2), 2, CPU, used=torch.tensor([True, False, True, True, True]))
    network, seen = Weight(), []

    def objective(model, batch, step):
        assert model is network
        seen.append((step, batch.samples.tolist()))
        assert batch.images[:, 0, 0, 0].tolist() == batch.samples.tolist()
        return 3.0 * model.value.sum()

    outcome = run_epochs(network, batches, objective, torch.optim.SGD([network.value], lr=0.1), epochs=2, seed=0)
    assert [step for step, _ in seen] == [Step(0, 0, 2), Step(1, 0, 2), Step(2, 1, 2), Step(3, 1, 2)]
    assert all(sorted(seen[start][1] + seen[start + 1][1]) == [0, 2, 3, 4] for start in (0, 2))
    # w falls by 0.3 in each of four steps; the loss is three times what it is before a step.
    assert network.value.item() == pytest.approx(1.0 - 4 * 0.3)
    assert outcome.mean_loss == pytest.approx(3 * np.mean([1.0, 0.7, 0.4, 0.1]))


def test_a_memory_per_sample_needs_no_other_loop():
    """A mean over time of what the network says of each sample (as in ELR), by hand over three epochs."""
    images = torch.tensor([1.0, 2.0, 4.0]).view(3, 1, 1, 1)
    batches = SampleBatches(images, torch.zeros(3, 1, 1), 2, CPU)
    network, memory = Weight(0.5), torch.zeros(3)

    def objective(model, batch, step):
        del step
        said = model.value * batch.images.flatten()
        memory[batch.samples] = 0.5 * memory[batch.samples] + 0.5 * said.detach()
        return 0.0 * said.sum()

    run_epochs(network, batches, objective, torch.optim.SGD([network.value], lr=0.1), epochs=3, seed=0)
    assert memory.tolist() == pytest.approx([0.875 * 0.5 * value for value in (1.0, 2.0, 4.0)])


# --- classification

SMALL = {"in_channels": 1, "num_classes": 2, "depth": 10, "widths": (4, 4, 8, 8), "stem": "small"}
OF_CLASSES = ClassifierTrainingSettings(batch_size=8, local_epochs=4, learning_rate=0.05)


def bright_and_dark(count=32):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    return 0.3 * torch.randn(count, 1, 16, 16, generator=generator) + 2.0 * labels.view(-1, 1, 1, 1), labels


def train_classifier(network, images, labels, settings, seed=0, should_stop=None, loss=None):
    batches = ClassBatches(images, labels, settings.batch_size, CPU, augmentation=settings.augmentation)
    objective = SupervisedObjective(loss or build_loss(settings))
    rate = settings.learning_rate
    return train(network, batches, objective, settings, learning_rate=rate, seed=seed, should_stop=should_stop)


def trained_classifier(seed=0, settings=OF_CLASSES, **options):
    network = build_classifier(**SMALL)
    return network, train_classifier(network, *bright_and_dark(), settings, seed, **options)


def test_a_classifier_learns_bright_from_dark():
    network, outcome = trained_classifier()
    images, labels = bright_and_dark()
    with torch.no_grad():
        assert (network.eval()(images).argmax(dim=1) == labels).float().mean() > 0.95
    assert outcome.steps == 4 * 4
    assert outcome.mean_loss < 0.5


def test_the_seed_decides_the_bits_of_a_classifier():
    first, again, other = (trained_classifier(seed)[0].state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_the_first_step_of_a_classifier_is_that_of_gradient_descent_by_hand():
    network, reference = build_classifier(**SMALL), build_classifier(**SMALL)
    images, labels = bright_and_dark(8)
    settings = ClassifierTrainingSettings(
        batch_size=8, local_epochs=1, augmentation=False, weight_decay=0.1, learning_rate=0.2
    )
    train_classifier(network, images, labels, settings)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    loss = ClassCrossEntropy()(reference.train()(images[order]), labels[order])
    loss.backward()
    for (name, one), other in zip(network.named_parameters(), reference.parameters(), strict=True):
        expected = other - 0.2 * (other.grad + 0.1 * other)
        torch.testing.assert_close(one, expected, msg=name)


def test_another_loss_is_used_as_it_is():
    calls = []

    def zero(logits, labels):
        calls.append(tuple(labels.shape))
        return (0.0 * logits).sum()

    network, outcome = trained_classifier(loss=zero, settings=OF_CLASSES.model_copy(update={"weight_decay": 0.0}))
    start = build_classifier(**SMALL)
    assert calls == [(8,)] * 16
    assert outcome.mean_loss == 0
    assert all(torch.equal(one, other) for one, other in zip(network.parameters(), start.parameters(), strict=True))


def test_training_of_a_classifier_stops_when_it_should():
    with pytest.raises(TrainingStopped):
        trained_classifier(should_stop=lambda: True)
