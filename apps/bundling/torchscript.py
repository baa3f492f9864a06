"""A network as TorchScript, which needs none of the project's classes to run."""

import copy
import warnings
from collections.abc import Sequence

import torch
from torch import nn

from ...custom.methods.decoupled.network import DecoupledNetwork
from ...custom.networks.devices import ready_to_compute
from ...custom.networks.precision import ComputedPrecision, autocast, computed_precision
from ...custom.settings import Precision
from ...transforms.errors import DataError

# Sizes of the batches with which the result is compared.
_BATCHES = (1, 3)


def to_torchscript(
    network: nn.Module, in_channels: int, size: Sequence[int], precision: Precision = "fp32"
) -> torch.jit.ScriptModule:
    """Trace a network in evaluation mode, without what training alone needs; the result is on the CPU.

    It takes batches of any length whose samples have the given size, and gives the same bits as the network: its
    kernels lie in memory as those of the evaluation do. Decoupled predictions take the prior's mean as the code.

    Args:
        network: the network; it is left as it is.
        in_channels: channels of a sample.
        size: extents of a sample, or of the window that slides over it.
        precision: in which the network computes, wherever it is run; its outputs are float32. ``auto`` is that of this
            machine's processor.

    Raises:
        DataError: if the result differs from the network's, which a network with weights that are not finite does.
    """
    copied = ready_to_compute(_for_inference(network)).to("cpu").eval().requires_grad_(False)
    computed = computed_precision(precision, torch.device("cpu"))
    prepared = copied if computed == "fp32" else _InPrecision(copied, computed)
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode(False), warnings.catch_warnings():
        # The size of a sample is meant to be fixed.
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        warnings.simplefilter("ignore", DeprecationWarning)
        example = torch.randn(2, in_channels, *size, generator=generator)
        traced: torch.jit.ScriptModule = torch.jit.trace(prepared, example, check_trace=False)  # type: ignore[no-untyped-call]
        for batch in _BATCHES:
            images = torch.randn(batch, in_channels, *size, generator=generator)
            if not torch.equal(traced(images), prepared(images)):
                raise DataError(
                    f"The model as TorchScript differs from {type(network).__name__} for a batch of {batch}; expected "
                    "the same bits. Are its weights finite?"
                )
    return traced


class _InPrecision(nn.Module):
    """A network in a precision, without the hooks of :func:`computing`, which cannot be traced."""

    def __init__(self, network: nn.Module, precision: ComputedPrecision) -> None:
        super().__init__()
        self.network = network
        self.precision = precision

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with autocast(images.device, self.precision):
            outputs: torch.Tensor = self.network(images)
        return outputs.float()


def _for_inference(network: nn.Module) -> nn.Module:
    """A copy without the encoder of annotations, which no prediction uses; it draws no code, which cannot be traced."""
    copied = copy.deepcopy(network)
    for module in copied.modules():
        if isinstance(module, DecoupledNetwork):
            module.add_module("posterior", None)
            module.test_code = "mean"
    return copied
