"""What a training on a GPU would launch, copy and wait for, counted without one: tensors on ``meta`` have no values.

The operators are those of a training on a GPU, as far as PyTorch chooses them by shapes and settings; a kernel of a
list of tensors counts once. What a recording (CUDA graph) would launch as one is not seen, nor that
`torch.tensor(numbers, device=…)` sends its numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch.optim import optimizer as optimizers
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("meta")
_ATEN = torch.ops.aten
# They take memory or look at a tensor in another way, and launch nothing.
_NO_KERNELS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "set_"}


@dataclass
class StepCounts:
    """What was launched, by operator; copies between main memory and device; and calls that wait for the device."""

    kernels: Counter[str] = field(default_factory=Counter)
    copies: int = 0
    waits: int = 0


class _Counting(TorchDispatchMode):
    """Counts operators on ``meta``, and answers those that would read a value there with some value."""

    def __init__(self, counts: StepCounts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        kwargs = dict(kwargs or {})
        on_device = any(tensor.device == DEVICE for tensor in _tensors((args, kwargs)))
        if func is _ATEN._local_scalar_dense.default and on_device:
            self.counts.copies += 1
            self.counts.waits += 1
            return 0.5 if args[0].is_floating_point() else 1
        if func is _ATEN.nonzero.default and on_device:
            self.counts.waits += 1
            self.counts.kernels[str(func)] += 1
            return torch.empty((args[0].numel(), args[0].ndim), dtype=torch.int64, device=DEVICE)
        if func is _ATEN.index.Tensor and on_device:
            return self._indexed(func, args)
        if func in (_ATEN.copy_.default, _ATEN.index_put_.default) and on_device:
            self._written(func, args)
        target = kwargs.get("device")
        if func is _ATEN._to_copy.default and on_device and target is not None and torch.device(target).type == "cpu":
            self._copied()
            return torch.zeros(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
        result = func(*args, **kwargs)
        is_on_device = any(tensor.device == DEVICE for tensor in _tensors(result))
        if func is _ATEN._to_copy.default and not on_device and is_on_device:
            self._copied()
        elif (on_device or is_on_device) and _is_kernel(func):
            self.counts.kernels[str(func)] += 1
        return result

    def _copied(self) -> None:
        """From or to memory that is not pinned: PyTorch waits."""
        self.counts.copies += 1
        self.counts.waits += 1

    def _written(self, func: Any, args: tuple[Any, ...]) -> None:
        """What is written from main memory is sent; to be written where flags say, several values are counted."""
        if func is _ATEN.copy_.default:
            if args[1].device != DEVICE:
                self._copied()
            return
        indices, values = [index for index in args[1] if index is not None], args[2]
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices) and values.numel() > 1:
            self.counts.waits += 1
        for _ in (index for index in indices if index.device != DEVICE):
            self._copied()

    def _indexed(self, func: Any, args: tuple[Any, ...]) -> torch.Tensor:
        """A selection by flags asks how many there are; here all. Indices in main memory are sent."""
        tensor, indices = args
        self.counts.kernels[str(func)] += 1
        for index in indices:
            if index is not None and index.device != DEVICE:
                self._copied()
        if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
            self.counts.waits += 1
            (flags,) = (index for index in indices if index is not None)
            return torch.empty((flags.numel(), *tensor.shape[flags.ndim :]), dtype=tensor.dtype, device=DEVICE)
        sent = [index if index is None else index.to(DEVICE) for index in indices]
        return torch.as_tensor(func(tensor, sent))


@contextmanager
def as_on_gpu() -> Iterator[None]:
    """Let optimizers choose for ``meta`` what they choose for a GPU."""

    def with_meta(supported: Callable[[], list[str]]) -> Callable[[], list[str]]:
        return lambda: [*supported(), DEVICE.type]

    names = ("_get_fused_kernels_supported_devices", "_get_foreach_kernels_supported_devices")
    with mock.patch.multiple(optimizers, **{name: with_meta(getattr(optimizers, name)) for name in names}):
        yield


def counted(action: Callable[[], object]) -> StepCounts:
    """Do what trains on ``meta``, and return what it launched, copied and waited for."""
    counts = StepCounts()
    with as_on_gpu(), _Counting(counts):
        action()
    return counts


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _is_kernel(func: Any) -> bool:
    return func.namespace == "aten" and not func.is_view and func.overloadpacket.__name__ not in _NO_KERNELS
