"""A site's training beside a plain PyTorch loop, and what layout, optimizer, precision and compilation bring."""

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from measuring import Measurement, time_in_turns
from torch import nn

from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import preferred_device, ready_to_compute
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.loop import train
from fedannot.custom.training.objectives import training_objective

pytestmark = pytest.mark.benchmark

FEATURES = (16, 32, 64, 128, 128, 16)
EPOCHS = 12
SIZES = {"64 × 64, batch 4": (32, 64, 4), "128 × 128, batch 8": (32, 128, 8)}


def blobs(number: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise with a brighter disc in each image."""
    generator = np.random.default_rng(0)
    rows, columns = np.mgrid[:side, :side]
    radius = generator.uniform(side / 8, side / 4, (number, 1, 1))
    labels = np.hypot(rows - side / 2, columns - side / 2) < radius
    images = labels + generator.normal(size=labels.shape)
    return torch.from_numpy(images[:, None].astype(np.float32)), torch.from_numpy(labels.astype(np.uint8))


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def plain_epoch(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    batch_size: int,
    *,
    fused: bool = True,
    bfloat16: bool = False,
) -> None:
    """What a researcher writes by hand: all data in memory, Adam, cross entropy."""
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3, betas=(0.9, 0.99), fused=fused)
    precision = torch.autocast(images.device.type, dtype=torch.bfloat16) if bfloat16 else nullcontext()
    network.train()
    for chosen in torch.randperm(len(images)).split(batch_size):
        optimizer.zero_grad()
        with precision:
            loss = nn.functional.cross_entropy(network(images[chosen]), labels[chosen].long())
        loss.backward()
        optimizer.step()
    synchronise()


def fresh() -> nn.Module:
    return build_network(features=FEATURES, upsample="nontrainable").to(preferred_device())


@pytest.mark.parametrize("size", SIZES)
def test_local_training_beside_a_plain_loop(speed_table, size):
    number, side, batch_size = SIZES[size]
    device = preferred_device()
    images, labels = (tensor.to(device) for tensor in blobs(number, side))
    settings = TrainingSettings(learning_rate=2e-3, batch_size=batch_size, local_epochs=1)
    ours, plain = ready_to_compute(fresh()), ready_to_compute(fresh())
    batches = SampleBatches(images, labels, batch_size, device)

    def federated() -> None:
        objective = training_objective(settings)
        train(ours, batches, objective, settings, learning_rate=settings.learning_rate, seed=0)
        synchronise()

    # On a GPU local training is in bfloat16; so is the loop.
    on_gpu = device.type == "cuda"
    times = time_in_turns(
        {
            "a plain loop": lambda: plain_epoch(plain, images, labels, batch_size, bfloat16=on_gpu),
            "local training": federated,
        }
    )
    goals = {"local training": "≤ 1.05"}
    speed_table.compare(times, reference="a plain loop", what=f"one epoch, {number} images {size}", goals=goals)


@pytest.mark.parametrize("size", SIZES)
def test_layout_optimizer_precision_and_compilation(speed_table, size):
    number, side, batch_size = SIZES[size]
    images, labels = (tensor.to(preferred_device()) for tensor in blobs(number, side))
    actions: dict[str, Callable[[], object]] = {}

    def add(name: str, network: nn.Module, **options: bool) -> None:
        actions[name] = lambda: plain_epoch(network, images, labels, batch_size, **options)

    add("PyTorch's defaults", fresh(), fused=False)
    add("fused Adam", fresh())
    add("channels last", ready_to_compute(fresh()), fused=False)
    add("channels last, fused Adam (the default here)", ready_to_compute(fresh()))
    add("the same in bfloat16", ready_to_compute(fresh()), bfloat16=True)
    compiled = ready_to_compute(without_padding(fresh()))
    add("the same, compiled", torch.compile(compiled))
    started = time.perf_counter()
    actions["the same, compiled"]()
    compilation = time.perf_counter() - started
    times = time_in_turns(actions, repeats=5)
    speed_table.compare(times, reference="PyTorch's defaults", what=f"one epoch, {size}", goals={})
    speed_table.add(Measurement(f"first compiled epoch, {size}", compilation, note="paid by every process"))


def without_padding(network: nn.Module) -> nn.Module:
    """MONAI pads by nothing where sizes are even, which PyTorch 2.13 cannot compile backwards (replication_pad2d)."""
    for module in network.modules():
        if hasattr(module, "is_pad"):
            module.is_pad = False
    return network


@pytest.fixture
def phantom(tmp_path):
    write_phantom_federation(
        tmp_path / "data", LesionImages(), num_sites=1, images_per_site=96, test_images=50, seed=100
    )
    return [
        load_site_data(tmp_path / "data" / name, tmp_path / "cache", section=section, site=name)
        for name, section in (("site-1", "training"), ("test", "testing"))
    ]


def test_dice_with_each_of_them(speed_table, phantom):
    train, test = phantom
    images, labels = (tensor.clone().to(preferred_device()) for tensor in (train.images, train.labels))

    def score(seed: int, *, channels_last: bool, fused: bool, bfloat16: bool) -> float:
        network = build_network(features=FEATURES, upsample="nontrainable", seed=seed)
        network = ready_to_compute(network) if channels_last else network.to(preferred_device())
        torch.manual_seed(seed)
        for _ in range(EPOCHS):
            plain_epoch(network, images, labels, 4, fused=fused, bfloat16=bfloat16)
        return evaluate(network, test.cases, 1, Inference(8)).mean_dice

    for name, options in {
        "PyTorch's defaults": {"channels_last": False, "fused": False, "bfloat16": False},
        "channels last, fused Adam": {"channels_last": True, "fused": True, "bfloat16": False},
        "the same in bfloat16": {"channels_last": True, "fused": True, "bfloat16": True},
    }.items():
        scores = [100 * score(seed, **options) for seed in range(100, 108)]
        spread = f"{statistics.fmean(scores):.1f} ± {statistics.stdev(scores):.1f}"
        note = f"{' / '.join(f'{value:.1f}' for value in scores)} %, mean {spread}"
        speed_table.add(Measurement(f"Dice after {EPOCHS} epochs, 96 phantoms, {name}", note=note))
