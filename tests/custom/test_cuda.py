"""One round on a GPU: runs where there is one."""

import numpy as np
import pytest
import torch

from fedannot.custom.aggregation import refusal_reason
from fedannot.custom.evaluation import evaluate, predict_labels
from fedannot.custom.local_training import preferred_device, train_locally
from fedannot.custom.networks import build_network
from fedannot.custom.quality.learning_difficulty import site_difficulty
from fedannot.custom.settings import TrainingSettings

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


@pytest.mark.parametrize("loss", ["ce", "ce_dice"])
def test_a_round_on_the_gpu_in_mixed_precision(loss):
    assert preferred_device().type == "cuda"
    images, labels = make_data()
    network = build_network(features=FEATURES).to("cuda")
    before = {name: tensor.cpu().clone() for name, tensor in network.state_dict().items()}
    settings = TrainingSettings(loss=loss, learning_rate=5e-3, batch_size=4, local_epochs=10)
    outcome = train_locally(network, images, labels, settings, seed=0)
    after = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}

    assert outcome.steps == 30
    assert np.isfinite(outcome.mean_loss)
    assert refusal_reason(after, before) is None
    assert all(tensor.dtype == before[name].dtype for name, tensor in after.items())
    assert all(not torch.equal(after[name], before[name]) for name, _ in network.named_parameters() if "weight" in name)
    on_cpu = build_network(features=FEATURES)
    on_cpu.load_state_dict(after)

    predicted = predict_labels(network, images, batch_size=5)
    assert predicted.device.type == "cpu"
    assert (predicted == predict_labels(on_cpu, images, batch_size=5)).float().mean() > 0.99
    assert evaluate(network, images, labels, 1, batch_size=5).mean_dice > 0.8


def test_the_network_learns_on_the_gpu_what_it_learns_on_the_cpu():
    images, labels = make_data()
    losses = []
    for device in ("cpu", "cuda"):
        network = build_network(features=FEATURES).to(device)
        settings = TrainingSettings(learning_rate=1e-3, batch_size=4, local_epochs=2)
        losses.append(train_locally(network, images, labels, settings, seed=0).mean_loss)
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_learning_difficulty_is_the_same_on_both_devices():
    images, labels = make_data()
    network = build_network(features=FEATURES)
    train_locally(network, images, labels, TrainingSettings(batch_size=4, local_epochs=5), seed=0)
    on_cpu = site_difficulty(network, images, labels, 1)
    on_gpu = site_difficulty(network.to("cuda"), images.to("cuda"), labels.to("cuda"), 1)
    np.testing.assert_allclose(on_gpu.inner, on_cpu.inner, rtol=0.02)
    np.testing.assert_allclose(on_gpu.outer, on_cpu.outer, rtol=0.02)


def test_quality_report_takes_data_that_lie_in_main_memory():
    from types import SimpleNamespace

    from fedannot.custom.settings import FedAvgSettings
    from fedannot.custom.site_reports import quality_report

    images, labels = make_data()
    data = SimpleNamespace(images=images, labels=labels, num_samples=len(images), excluded=[])
    report = quality_report(build_network(features=FEATURES).to("cuda"), data, FedAvgSettings())
    assert np.isfinite(report["inner_difficulty"] + report["outer_difficulty"]).all()
