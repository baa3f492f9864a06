"""In which precision a network's convolutions compute: float32, or bfloat16 or float16 by automatic mixed precision."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import nn

from ..records.round_records import PRECISIONS_BY_BITS
from ..settings import Precision

ComputedPrecision = Literal["fp32", "bf16", "fp16"]

_TYPES: dict[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Instructions that multiply bfloat16, as PyTorch names them: of x86, and of Arm.
_BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")


def computed_precision(asked: Precision, device: torch.device) -> ComputedPrecision:
    """Return the precision in which a device computes what a job asks for.

    ``auto`` is ``bf16`` where the device has instructions for it; else ``fp16`` on a GPU, and ``fp32`` on a CPU. What
    is asked for by name is computed on every device, without such instructions more slowly.

    Example:
        >>> computed_precision("fp16", torch.device("cpu"))
        'fp16'
    """
    if asked != "auto":
        return asked
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if _has_bfloat16_instructions() else "fp32"


def _has_bfloat16_instructions() -> bool:
    # Earlier versions of PyTorch do not say what a processor has.
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(capabilities.get(name, False) for name in _BFLOAT16_INSTRUCTIONS)


def significand_bits(precision: ComputedPrecision) -> int:
    """Return how many bits a number's significand has: 24, 11 or 8."""
    return next(bits for bits, name in PRECISIONS_BY_BITS.items() if name == precision)


@contextmanager
def autocast(device: torch.device, precision: ComputedPrecision) -> Iterator[None]:
    """Let PyTorch choose the types of all operations, those outside a network as well; nothing for ``fp32``."""
    # Kept copies of weights would be constants of a trace.
    with torch.autocast(device.type, _TYPES[precision], enabled=precision != "fp32", cache_enabled=False):
        yield


@contextmanager
def computing(network: nn.Module, precision: ComputedPrecision) -> Iterator[None]:
    """Let a network and its parts compute in a precision, and return float32.

    Only what runs inside the network's modules is in that precision. Losses, penalties, softmax, stitched windows and
    all other operations are as they are without. Parameters and their gradients stay float32. For ``fp32`` nothing
    changes.

    Args:
        network: the network, on one device.
        precision: of its operations.
    """
    if precision == "fp32":
        yield
        return
    calls = _Calls(next(network.parameters()).device, precision)
    handles = []
    for module in network.modules():
        handles.append(module.register_forward_pre_hook(calls.enter, prepend=True))
        handles.append(module.register_forward_hook(calls.leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Calls:
    """Counts the calls of modules within each other; the outermost is computed in the precision."""

    def __init__(self, device: torch.device, precision: ComputedPrecision) -> None:
        self._device, self._precision = device, precision
        self._depth = 0
        self._autocast: torch.autocast | None = None

    def enter(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        del module, arguments
        if self._depth == 0:
            self._autocast = torch.autocast(self._device.type, dtype=_TYPES[self._precision])
            self._autocast.__enter__()  # type: ignore[no-untyped-call]
        self._depth += 1

    def leave(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> Any:
        del module, arguments
        self._depth -= 1
        if self._depth:
            return None
        assert self._autocast is not None
        self._autocast.__exit__(None, None, None)
        return _in_float32(output)


def _in_float32(output: Any) -> Any:
    """What a module returned, with its tensors of less than 32 bits as float32."""
    if isinstance(output, torch.Tensor):
        return output.float() if output.dtype in (torch.bfloat16, torch.float16) else output
    if type(output) in (list, tuple):
        return type(output)(_in_float32(entry) for entry in output)
    if isinstance(output, dict):
        return {key: _in_float32(value) for key, value in output.items()}
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        values = {field.name: _in_float32(getattr(output, field.name)) for field in dataclasses.fields(output)}
        return dataclasses.replace(output, **values)
    return output
