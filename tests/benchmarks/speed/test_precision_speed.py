"""What bfloat16 saves, in CPU seconds of one thread: a round at two sizes, a step in 3D, a sliding window.

taskset -c 1 env OMP_NUM_THREADS=1 python -m pytest -n 0 -m benchmark -s tests/benchmarks/speed/test_precision_speed.py
"""

import statistics
import time
from collections.abc import Callable

import pytest
import torch
from measuring import Measurement
from torch import nn

from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.loop import train
from fedannot.custom.training.objectives import training_objective

pytestmark = pytest.mark.benchmark

FEATURES = (16, 32, 64, 128, 128, 16)
VOLUME_FEATURES = (16, 16, 32, 64, 64, 16)
TURNS = 5
# Images of a site, and what a step has of them.
TRAININGS = {"64 × 64, batch 4": ((12, 64, 64), 4), "128 × 128, batch 8": ((32, 128, 128), 8)}


def compared(speed_table, what: str, actions: dict[str, Callable[[], object]]) -> None:
    """Let actions take turns, and add the median CPU seconds of each with its range; the first is the reference."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(1 + TURNS):
        for name, action in actions.items():
            began = time.process_time()
            action()
            if turn:
                seconds[name].append(time.process_time() - began)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    reference = next(iter(actions))
    for name, values in seconds.items():
        ratios = [value / other for value, other in zip(values, seconds[reference], strict=True)]
        note = f"{min(values):.3f} to {max(values):.3f} s; ratio {min(ratios):.2f} to {max(ratios):.2f}"
        ratio = statistics.median(ratios)
        speed_table.add(Measurement(f"{what}: {name}", medians[name], reference, medians[reference], ratio, note=note))


def training(shape: tuple[int, ...], batch_size: int, network: nn.Module, precision: str) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(shape[0], 1, *shape[1:], generator=generator)
    batches = SampleBatches(images, (images[:, 0] > 0.5).to(torch.uint8), batch_size, torch.device("cpu"))
    settings = TrainingSettings(learning_rate=2e-3, batch_size=batch_size, local_epochs=1, precision=precision)
    objective = training_objective(settings)
    return lambda: train(network, batches, objective, settings, learning_rate=2e-3, seed=0)


def networks(dims: int) -> dict[str, tuple[nn.Module, str]]:
    features = FEATURES if dims == 2 else VOLUME_FEATURES
    new = [build_network(features=features, spatial_dims=dims, upsample="nontrainable") for _ in range(3)]
    return {
        "fp32, channels last": (ready_to_compute(new[0]), "fp32"),
        "bf16, channels last": (ready_to_compute(new[1]), "bf16"),
        "bf16, channels first": (new[2], "bf16"),
    }


@pytest.mark.parametrize("size", TRAININGS)
def test_an_epoch(speed_table, size):
    made = {name: training(*TRAININGS[size], *of_one) for name, of_one in networks(2).items()}
    compared(speed_table, f"an epoch, {size}", made)


def test_a_step_in_three_dimensions(speed_table):
    made = {name: training((2, 64, 64, 64), 2, *of_one) for name, of_one in networks(3).items()}
    compared(speed_table, "a step, 64 × 64 × 64, batch 2", made)


def test_a_sliding_window(speed_table):
    images = torch.randn(1, 1, 96, 96, 64)

    def predicting(network: nn.Module, precision: str) -> Callable[[], object]:
        inference = Inference(2, (48, 48, 32), precision=precision)
        return lambda: inference.logits(network.eval(), images)

    made = {name: predicting(*of_one) for name, of_one in networks(3).items()}
    compared(speed_table, "a window 48 × 48 × 32 over 96 × 96 × 64", made)
