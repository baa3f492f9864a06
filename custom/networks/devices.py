"""Where and in which layout a network computes."""

import torch
from torch import nn

# By the number of axes of a kernel: out, in, and the spatial ones.
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def preferred_device() -> torch.device:
    """Return the GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def ready_to_compute(network: nn.Module) -> nn.Module:
    """Move a network to the preferred device, and its kernels into the layout in which channels come last.

    Values and shapes stay as they are; convolutions take that layout from their kernels, whatever that of the images,
    and are faster in it (docs/benchmarks/speed.md).
    """
    network = network.to(preferred_device())
    for parameter in network.parameters():
        if parameter.ndim in _CHANNELS_LAST:
            parameter.data = parameter.data.contiguous(memory_format=_CHANNELS_LAST[parameter.ndim])
    return network


def params_in_main_memory(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return a network's state dict in main memory, as it is sent and stored."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
