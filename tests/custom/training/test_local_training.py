"""Local training against Adam worked out by hand, a plain loop, and closed forms of the losses."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.networks.building import build_network
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batches import PatchBatches, SampleBatches
from fedannot.custom.training.local_training import (
    TrainingStopped,
    build_loss,
    proximal_reference,
    proximal_term,
    train_locally,
)

torch.set_num_threads(1)

FROZEN = 1e-30  # a learning rate that changes no bit of weights of usual size


def make_data(num=10, side=16, num_classes=1, channels=1, seed=0, spatial_dims=2):
    generator = np.random.default_rng(seed)
    images = generator.normal(size=(num, channels, *[side] * spatial_dims)).astype(np.float32)
    labels = generator.integers(0, num_classes + 1, size=(num, *[side] * spatial_dims))
    return torch.from_numpy(images), torch.from_numpy(labels)


def make_network(seed=0, num_classes=1):
    return build_network(features=(2, 2, 4, 4, 4, 2), num_classes=num_classes, seed=seed)


def train(network, images, labels, settings, seed, should_stop=None):
    batches = SampleBatches(images, labels, settings.batch_size, torch.device("cpu"))
    return train_locally(network, batches, settings, seed, should_stop)


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
    outcome = train(network, images, labels, settings, seed=0)
    np.testing.assert_allclose(network.weight.detach().flatten(1).numpy(), values[0], atol=1e-5)
    np.testing.assert_allclose(network.bias.detach().numpy(), values[1], atol=1e-5)
    assert outcome.mean_loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert outcome.steps == epochs


@pytest.mark.parametrize("loss", ["ce", "ce_dice"])
def test_training_gives_the_bits_of_a_plain_loop(loss):
    images, labels = make_data(num=7, side=32)
    trained, plain = make_network(), make_network()
    settings = TrainingSettings(loss=loss, learning_rate=0.01, batch_size=3, local_epochs=2)
    outcome = train(trained, images, labels, settings, seed=11)

    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01, betas=(0.9, 0.99), fused=True)
    generator = torch.Generator().manual_seed(11)
    plain.train()
    for _ in range(2):
        order = torch.randperm(7, generator=generator)
        for start in range(0, 7, 3):
            chosen = order[start : start + 3]
            optimizer.zero_grad()
            build_loss(loss)(plain(images[chosen]), labels[chosen][:, None]).backward()
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
        outcome = train(network, images, labels, settings, seed)
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
    outcome = train(recorder, images, torch.zeros(10, 2, 2), TrainingSettings(batch_size=4, local_epochs=3), seed=0)
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
        assert train(network, images, labels, settings, seed=0).mean_loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("spatial_dims", [2, 3])
def test_cross_entropy_is_that_of_the_closed_form(spatial_dims):
    images, labels = make_data(num=3, side=4, channels=3, num_classes=2, spatial_dims=spatial_dims)
    logits = images.numpy().astype(np.float64)
    log_sum = np.log(np.exp(logits).sum(axis=1))
    chosen = np.take_along_axis(logits, labels.numpy()[:, None], axis=1)[:, 0]
    for kind in (torch.uint8, torch.int64):
        loss = build_loss("ce")(images, labels[:, None].to(kind))
        assert loss.item() == pytest.approx((log_sum - chosen).mean(), rel=1e-6)


def test_dice_part_is_the_mean_soft_dice_loss_over_foreground_classes():
    images, labels = make_data(num=3, side=6, channels=3, num_classes=2)
    probabilities = images.double().softmax(dim=1).numpy()
    losses = []
    for sample in range(3):
        for label in (1, 2):
            truth = labels[sample].numpy() == label
            overlap = 2 * probabilities[sample, label][truth].sum()
            losses.append(1 - overlap / (probabilities[sample, label].sum() + truth.sum()))
    cross_entropy = nn.functional.cross_entropy(images, labels).item()
    assert build_loss("ce_dice")(images, labels[:, None]).item() == pytest.approx(
        cross_entropy + np.mean(losses), rel=1e-5
    )


@pytest.mark.parametrize("certain", [0.0, 50.0, -50.0])
def test_ce_dice_and_its_gradient_are_finite_on_empty_masks(certain):
    logits = torch.stack([torch.full((2, 4, 4), certain), torch.full((2, 4, 4), -certain)], dim=1).requires_grad_()
    loss = build_loss("ce_dice")(logits, torch.zeros(2, 1, 4, 4, dtype=torch.uint8))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_unknown_loss_is_refused():
    with pytest.raises(ValueError, match=r"Expected a loss among 'ce', 'dice', 'batch_dice', .*, but got name='mse'"):
        build_loss("mse")


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
        outcomes.append(train_locally(network, batches, settings, seed))
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
    outcome = train_locally(nn.Conv3d(1, 2, 1), batches, settings, seed=0, record_dice=True)
    assert len(outcome.dice_samples) == sum(int(labels.flatten(1).any(dim=1).sum()) for _, labels in drawn)
    assert 1 < len(outcome.dice_samples) < 11
    over_all = settings.model_copy(update={"dice_loss_over": "all"})
    outcome = train_locally(nn.Conv3d(1, 2, 1), batches, over_all, seed=0, record_dice=True)
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
        assert train_locally(network, batches, settings, seed=0).mean_loss == pytest.approx(np.mean(expected), rel=1e-5)


@pytest.mark.parametrize("batches", [0, 3])
def test_training_stops_before_the_next_batch(batches):
    recorder, answers = Recorder(), iter([False] * batches + [True])
    images, labels = make_data(num=4, side=2)
    settings = TrainingSettings(batch_size=2, local_epochs=5)
    with pytest.raises(TrainingStopped):
        train(recorder, images, labels, settings, seed=0, should_stop=lambda: next(answers))
    assert len(recorder.batches) == batches


def test_data_are_left_as_they_are():
    images, labels = make_data(num=3)
    copies = images.clone(), labels.clone()
    train(make_network(), images, labels, TrainingSettings(local_epochs=1), seed=0)
    assert torch.equal(images, copies[0])
    assert torch.equal(labels, copies[1])


def test_the_proximal_term_by_hand():
    """½ (3² + 4² + 0²) over three numbers."""
    network = torch.nn.Linear(2, 1)
    reference = proximal_reference(network)
    with torch.no_grad():
        network.weight += torch.tensor([[3.0, 4.0]])
    term = proximal_term(network, reference)
    assert float(term) == pytest.approx(12.5)
    term.backward()
    # The gradient is the difference.
    torch.testing.assert_close(network.weight.grad, torch.tensor([[3.0, 4.0]]))


def distance_from_start(weight=0.0, penalty=None):
    """Train a small network, and give the proximal term afterwards."""
    settings = TrainingSettings(batch_size=2, local_epochs=5, learning_rate=0.01, proximal_weight=weight)
    network = build_network(features=(4, 4, 8, 8, 8, 4))
    reference = proximal_reference(network)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 1, 16, 16, generator=generator)
    batches = SampleBatches(images, (images[:, 0] > 0).to(torch.uint8), 2, torch.device("cpu"))
    own = None if penalty is None else lambda: penalty(network, reference)
    train_locally(network, batches, settings, seed=0, penalty=own)
    return float(proximal_term(network, reference).detach())


def test_fedprox_keeps_training_near_the_received_model():
    assert distance_from_start(10.0) < 0.7 * distance_from_start()


def test_a_penalty_is_added_to_the_loss():
    """FedProx's own, given as a penalty, has the same effect to the bit."""
    assert distance_from_start(penalty=lambda *pair: 10.0 * proximal_term(*pair)) == distance_from_start(10.0)
