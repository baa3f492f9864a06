"""How much memory a step of training keeps until its gradient is known."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch


class KeptTensors:
    """The tensors that autograd keeps for a backward pass; views of one tensor count once.

    Args:
        apart_from: tensors that do not count, as parameters and buffers.
    """

    def __init__(self, apart_from: Iterable[torch.Tensor] = ()) -> None:
        self._own = {_memory_of(tensor) for tensor in apart_from}
        # What is held gives its number to no other tensor.
        self._held: dict[int, torch.UntypedStorage] = {}

    def hold(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor and return it."""
        if (number := _memory_of(tensor)) not in self._own:
            self._held[number] = tensor.untyped_storage()
        return tensor

    @property
    def nbytes(self) -> int:
        """Their memory in bytes."""
        return sum(storage.nbytes() for storage in self._held.values())


@contextmanager
def kept_tensors(apart_from: Iterable[torch.Tensor] = ()) -> Iterator[KeptTensors]:
    """Count what autograd keeps meanwhile, also on the meta device.

    Args:
        apart_from: tensors that do not count, as parameters and buffers.
    """
    kept = KeptTensors(apart_from)
    with torch.autograd.graph.saved_tensors_hooks(kept.hold, lambda tensor: tensor):
        yield kept


def _memory_of(tensor: torch.Tensor) -> int:
    """The number of a tensor's memory, the same for its views; without values there is no address."""
    return int(tensor.untyped_storage()._cdata)
