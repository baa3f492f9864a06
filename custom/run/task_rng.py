"""PyTorch's global random numbers in a task: seeded for it, and given back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass
class TaskRng:
    """The global random numbers during a task.

    Attributes:
        was_used: whether the task took some, known when it is over. Dropout does; what this project draws itself has
            generators of its own. Means nothing while other threads use them, too.
    """

    was_used: bool = False


@contextmanager
def seeded_rng(seed: int) -> Iterator[TaskRng]:
    """Seed PyTorch's global random numbers, on the CPU and the current GPU, and set them back after the block.

    Layers such as dropout take no generator. So their numbers are of a task's own seed, in whichever process it runs.

    Args:
        seed: of the task.

    Example:
        >>> with seeded_rng(1) as rng:
        ...     first = torch.rand(2)
        >>> with seeded_rng(1):
        ...     assert torch.equal(first, torch.rand(2))
        >>> rng.was_used
        True
    """
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    rng = TaskRng()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        before = _states(devices)
        try:
            yield rng
        finally:
            rng.was_used = any(not torch.equal(old, new) for old, new in zip(before, _states(devices), strict=True))


def _states(devices: list[int]) -> list[torch.Tensor]:
    return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]
