"""How fast this machine trains a U-Net, measured by steps on noise."""

import statistics
import time
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import JsonValue

from ...custom.networks.devices import preferred_device
from ...custom.networks.precision import computing
from ...custom.planning.topology import Topology
from ...custom.run.threads import number_of_threads

_STEPS = 3
# Levels of a network whose steps take a moment, most of it in convolutions.
_TRIED_EXTENTS = {2: (128.0, 128.0), 3: (32.0, 32.0, 32.0)}
_TRIED_WIDTH, _TRIED_BATCH = 16, 2
# bfloat16 is worth its rounding from here.
_BFLOAT16_IS_FASTER = 1.2

PlannedPrecision = Literal["fp32", "bf16"]


def step_seconds(
    topology: Topology,
    batch_size: int,
    *,
    channels: int,
    outputs: int,
    threads: int = 1,
    precision: PlannedPrecision = "fp32",
) -> float:
    """Return the median seconds of a step of training of a DynUNet with deep supervision on noise.

    Args:
        topology: patch and levels.
        batch_size: samples of a step.
        channels: of the images.
        outputs: of the network, background among them.
        threads: of PyTorch; 0 for all cores.
        precision: as of the settings ``training.precision``.
    """
    # MONAI takes 2 s.
    from monai.networks.nets.dynunet import DynUNet  # noqa: PLC0415

    before = torch.get_num_threads()
    torch.set_num_threads(number_of_threads(threads))
    device = preferred_device()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = DynUNet(
                spatial_dims=len(topology.patch), in_channels=channels, out_channels=outputs, **dynunet(topology)
            ).to(device)
            images = torch.rand(batch_size, channels, *topology.patch).to(device)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
        seconds = []
        for _ in range(1 + _STEPS):
            began = time.perf_counter()
            optimizer.zero_grad()
            with computing(network, precision):
                outcome = network(images)
            outcome.float().square().mean().backward()
            optimizer.step()
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(before)
    return statistics.median(seconds[1:])


@dataclass(frozen=True)
class MachineSpeed:
    """How fast a machine trains.

    Attributes:
        operations: floating operations of a U-Net's training in a second, in that precision.
        precision: ``bf16`` on a processor that is clearly faster in it; else ``fp32``.
        gain: how many times as fast as in ``fp32``.
    """

    operations: float
    precision: PlannedPrecision = "fp32"
    gain: float = 1.0


def machine_speed(dims: int, threads: int = 1) -> MachineSpeed:
    """Return how fast this machine trains a U-Net, and in which precision.

    Args:
        dims: spatial axes, 2 or 3.
        threads: of PyTorch; 0 for all cores.
    """
    tried = Topology.of(_TRIED_EXTENTS[dims], (1.0,) * dims, _TRIED_WIDTH)
    precisions: tuple[PlannedPrecision, ...] = ("fp32", "bf16")
    seconds = {
        precision: step_seconds(tried, _TRIED_BATCH, channels=1, outputs=2, threads=threads, precision=precision)
        for precision in precisions
    }
    operations = tried.step_operations(_TRIED_BATCH)
    gain = seconds["fp32"] / seconds["bf16"]
    if gain < _BFLOAT16_IS_FASTER:
        return MachineSpeed(operations / seconds["fp32"])
    return MachineSpeed(operations / seconds["bf16"], "bf16", gain)


def dynunet(topology: Topology) -> dict[str, JsonValue]:
    """Return the arguments of MONAI's DynUNet with these levels: instance norm, leaky ReLU, deep supervision."""
    levels = len(topology.strides)
    # MONAI supervises levels above the last but one.
    supervised = max(min(levels - 2, 3), 0)
    return {
        "kernel_size": [list(kernel) for kernel in topology.kernels],
        "strides": [list(stride) for stride in topology.strides],
        "upsample_kernel_size": [list(stride) for stride in topology.strides[1:]],
        "filters": list(topology.features),
        "norm_name": "instance",
        "deep_supervision": supervised > 0,
        **({"deep_supr_num": supervised} if supervised else {}),
    }
