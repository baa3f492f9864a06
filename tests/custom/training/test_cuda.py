"""One round on a GPU: runs where there is one."""

import numpy as np
import pytest
import torch

from fedannot.custom.aggregation.streaming_average import refusal_reason
from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.methods.feda3i.learning_difficulty import site_difficulty
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import preferred_device, ready_to_compute
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training import batches
from fedannot.custom.training.batches import PatchBatches, SampleBatches
from fedannot.custom.training.loop import train as train_on
from fedannot.custom.training.losses import segmentation_loss
from fedannot.custom.training.objectives import training_objective
from fedannot.transforms.ignored_label import IGNORED_LABEL

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, but PyTorch finds none")

FEATURES = (8, 8, 16, 16, 32, 8)


def make_data(num=12, side=64):
    """Discs that are brighter than the background."""
    generator = np.random.default_rng(0)
    rows, columns = np.mgrid[:side, :side]
    centres, radii = generator.uniform(20, side - 20, size=(num, 2)), generator.uniform(6, 14, num)
    labels = np.stack([np.hypot(rows - y, columns - x) < r for (y, x), r in zip(centres, radii, strict=True)])
    images = labels + 0.3 * generator.normal(size=labels.shape)
    return torch.from_numpy(images[:, None].astype(np.float32)), torch.from_numpy(labels.astype(np.uint8))


def make_cases(images, labels):
    """Samples ``(N, ...)`` as cases by themselves."""
    return [
        LoadedCase(str(number), str(number), image[None], label[None], None, None)
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    ]


def train(network, images, labels, settings):
    source = SampleBatches(images, labels, settings.batch_size, next(network.parameters()).device)
    return train_from(source, network, settings)


def train_from(source, network, settings):
    objective = training_objective(settings)
    return train_on(network, source, objective, settings, learning_rate=settings.learning_rate, seed=0)


def predict(network, images, labels):
    return torch.cat(list(Inference(5).predictions(network, make_cases(images, labels))))


@pytest.mark.parametrize("loss", ["ce", "ce_dice"])
def test_a_round_on_the_gpu_in_mixed_precision(loss):
    assert preferred_device().type == "cuda"
    images, labels = make_data()
    network = ready_to_compute(build_network(features=FEATURES))
    before = {name: tensor.cpu().clone() for name, tensor in network.state_dict().items()}
    settings = TrainingSettings(loss=loss, learning_rate=5e-3, batch_size=4, local_epochs=10, precision="auto")
    outcome = train(network, images, labels, settings)
    after = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}

    assert outcome.steps == 30
    assert np.isfinite(outcome.mean_loss)
    assert refusal_reason(after, before) is None
    assert all(tensor.dtype == before[name].dtype for name, tensor in after.items())
    assert all(not torch.equal(after[name], before[name]) for name, _ in network.named_parameters() if "weight" in name)
    on_cpu = build_network(features=FEATURES)
    on_cpu.load_state_dict(after)

    predicted = predict(network, images, labels)
    assert predicted.device.type == "cpu"
    assert (predicted == predict(on_cpu, images, labels)).float().mean() > 0.99
    assert evaluate(network, make_cases(images, labels), 1, Inference(5)).mean_dice > 0.8


def test_the_network_learns_on_the_gpu_what_it_learns_on_the_cpu():
    images, labels = make_data()
    losses = []
    for device in ("cpu", "cuda"):
        network = build_network(features=FEATURES).to(device)
        settings = TrainingSettings(learning_rate=1e-3, batch_size=4, local_epochs=2)
        losses.append(train(network, images, labels, settings).mean_loss)
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_learning_difficulty_is_the_same_on_both_devices():
    images, labels = make_data()
    network = build_network(features=FEATURES)
    train(network, images, labels, TrainingSettings(batch_size=4, local_epochs=5))
    cases = make_cases(images, labels)
    on_cpu = site_difficulty(network, cases, 1, Inference(8))
    on_gpu = site_difficulty(network.to("cuda"), cases, 1, Inference(8))
    np.testing.assert_allclose(on_gpu.inner, on_cpu.inner, rtol=0.02)
    np.testing.assert_allclose(on_gpu.outer, on_cpu.outer, rtol=0.02)


def make_volumes():
    """Discs as volumes of differing sizes."""
    images, labels = make_data()
    return [
        LoadedCase(
            str(number),
            str(number),
            image[None, ..., None].repeat(1, 1, 1, 1, 16 + number),
            label[None, ..., None].repeat(1, 1, 1, 16 + number),
            None,
            (1.0, 1.0, 2.0),
        )
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    ]


@pytest.mark.parametrize("share", [0.25, 0.0])
@pytest.mark.parametrize("patches", [True, False])
def test_batches_are_the_same_from_the_gpu_and_from_main_memory(monkeypatch, share, patches):
    monkeypatch.setattr(batches, "_SHARE_OF_FREE_GPU_MEMORY", share)
    images, labels = make_data()

    def source(device):
        if patches:
            return PatchBatches(make_volumes(), (32, 32, 32), 2, 4, torch.device(device), with_places=True)
        return SampleBatches(images, labels, 4, torch.device(device), with_places=True)

    on_cpu, on_gpu = (list(source(device).epoch(torch.Generator().manual_seed(3))) for device in ("cpu", "cuda"))
    for expected, result in zip(on_cpu, on_gpu, strict=True):
        for name in ("images", "labels", "places"):
            assert getattr(result, name).device.type == "cuda"
            assert torch.equal(getattr(expected, name), getattr(result, name).cpu())
        assert result.samples.device.type == "cpu"
        assert torch.equal(expected.samples, result.samples)


def test_volumes_on_the_gpu():
    cases = make_volumes()
    network = build_network(features=FEATURES, spatial_dims=3).to("cuda")
    settings = TrainingSettings(learning_rate=5e-3, batch_size=4, local_epochs=5, patch=(32, 32, 16))
    source = PatchBatches(cases, settings.patch, 2, settings.batch_size, torch.device("cuda"))
    assert np.isfinite(train_from(source, network, settings).mean_loss)
    inference = Inference(4, settings.patch)
    assert evaluate(network, cases, 1, inference).mean_dice > 0.7
    difficulty = site_difficulty(network, cases, 1, inference)
    assert np.isfinite([*difficulty.inner, *difficulty.outer]).all()


@pytest.mark.parametrize("name", ["ce", "dice", "batch_dice", "ce_dice", "nr_dice"])
@pytest.mark.parametrize("extents", [(32, 32), (16, 16, 8)])
def test_losses_on_the_gpu_leave_out_ignored_pixels(name, extents):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, *extents, generator=generator)
    labels = torch.randint(0, 3, (2, 1, *extents), generator=generator).to(torch.uint8)
    for ignored in (torch.rand(labels.shape, generator=generator) < 0.3, torch.ones_like(labels, dtype=torch.bool)):
        given = labels.masked_fill(ignored, IGNORED_LABEL)
        results = []
        for device in ("cpu", "cuda"):
            on_device = logits.to(device).requires_grad_()
            value = segmentation_loss(name)(on_device, given.to(device))
            (gradient,) = torch.autograd.grad(value, on_device)
            results.append((value.detach().cpu(), gradient.cpu()))
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)
