"""Where and in which layout a network computes."""

import platform
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

# By the number of axes of a kernel: out, in, and the spatial ones.
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
# The vectors of float32 in oneDNN's kernels for AVX-512 and AVX2.
_FEWEST_SAFE_CHANNELS = 16
_FEWEST_SAFE_CHANNELS_OF_SMALL_IMAGES = 8
_MOST_SAFE_PIXELS = 256
# Where Linux names the processor.
_CPU_FILE = Path("/proc/cpuinfo")
# What its line of a processor begins with.
_PROCESSOR = "model name"


def preferred_device() -> torch.device:
    """Return the GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def processor_name() -> str:
    """Return the name of what computes here: the GPU where there is one, else the processor, else its architecture."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    try:
        lines = _CPU_FILE.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(_PROCESSOR))
    return next((name for name in names if name), "") or platform.processor() or platform.machine()


def ready_to_compute(network: nn.Module) -> nn.Module:
    """Move a network to the preferred device, and its kernels into the layout in which channels come last.

    Values and shapes stay as they are; convolutions take that layout from their kernels, whatever that of the images,
    and are faster in it (docs/benchmarks/speed.md). Without a GPU strided 1 × 1 convolutions of few channels become
    :class:`SubsampledConv2d`.
    """
    network = with_safe_convolutions(network.to(preferred_device()))
    for parameter in network.parameters():
        if parameter.ndim in _CHANNELS_LAST:
            parameter.data = parameter.data.contiguous(memory_format=_CHANNELS_LAST[parameter.ndim])
    return network


def with_safe_convolutions(network: nn.Module) -> nn.Module:
    """Let those convolutions of a network that would crash in training compute as :class:`SubsampledConv2d`."""
    for module in network.modules():
        if type(module) is nn.Conv2d and _writes_beyond(module):
            module.__class__ = SubsampledConv2d
    return network


class SubsampledConv2d(nn.Conv2d):
    """A strided 1 × 1 convolution that takes every n-th pixel first, which is the same up to rounding.

    PyTorch 2.13 with oneDNN writes beyond its memory in the weight's gradient of a convolution by stride 2: the process
    dies, or something else in it breaks. With AVX-512 it does so from fewer than 16 channels, where the output has 784
    pixels or more, and not where it has 676; with AVX2 from fewer than 8 channels, down to outputs of 16 pixels. Small
    outputs of 8 channels or more are computed as they always were, bit for bit.
    """

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the convolution of images ``(B, C, H, W)``."""
        rows, columns = self.stride
        subsampled = images[..., ::rows, ::columns]
        is_small = subsampled.shape[-2] * subsampled.shape[-1] <= _MOST_SAFE_PIXELS
        if is_small and self.in_channels >= _FEWEST_SAFE_CHANNELS_OF_SMALL_IMAGES:
            return super().forward(images)
        return functional.conv2d(subsampled, self.weight, self.bias)


def _writes_beyond(convolution: nn.Conv2d) -> bool:
    """Whether a convolution may be of those that :class:`SubsampledConv2d` is for."""
    return (
        convolution.weight.device.type == "cpu"
        and convolution.kernel_size == (1, 1)
        and convolution.stride != (1, 1)
        and convolution.padding == (0, 0)
        and convolution.groups == 1
        and convolution.in_channels < _FEWEST_SAFE_CHANNELS
    )


def params_in_main_memory(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return a network's state dict in main memory, as it is sent and stored."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
