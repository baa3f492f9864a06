"""PyTorch's global random numbers in a task: seeded for it, and given back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from ..global_rng import alone_with_global_rng, current_gpus, global_rng_was_used


@dataclass
class TaskRng:
    """The global random numbers during a task.

    Attributes:
        was_used: whether some were taken, known when the task is over. Dropout takes some; what this project draws
            itself has generators of its own. While other threads work, it may have been another one's task.
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
    gpus = current_gpus()
    rng = TaskRng()
    with alone_with_global_rng():
        outer = torch.get_rng_state(), [torch.cuda.get_rng_state(gpu) for gpu in gpus]
        # Not torch.manual_seed, which looks at every line that led here for a GPU that may be used later.
        torch.default_generator.manual_seed(seed)
        if gpus:
            torch.cuda.manual_seed(seed)
    try:
        yield rng
    finally:
        with alone_with_global_rng():
            rng.was_used = global_rng_was_used()
            torch.set_rng_state(outer[0])
            for gpu, state in zip(gpus, outer[1], strict=True):
                torch.cuda.set_rng_state(state, gpu)
