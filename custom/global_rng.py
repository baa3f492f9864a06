"""PyTorch's global random numbers, of which a process has one sequence: for one thread of those that seed it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.RLock()


@contextmanager
def alone_with_global_rng() -> Iterator[None]:
    """Keep other threads from seeding the global random numbers, or setting them back, during the block."""
    with _LOCK:
        yield


@contextmanager
def briefly_seeded_rng(seed: int) -> Iterator[None]:
    """Seed the global random numbers for a block that no other thread disturbs, and set them back after it.

    What builds a network takes no generator. Its start weights are the same, whatever other threads build meanwhile.
    What a GPU draws afterwards does not depend on whether a network was built, or its copy was at hand.

    Args:
        seed: of the block.

    Example:
        >>> with briefly_seeded_rng(1):
        ...     first = torch.rand(2)
        >>> with briefly_seeded_rng(1):
        ...     assert torch.equal(first, torch.rand(2))
    """
    # A GPU that nobody has used has given no number, and takes seconds to begin.
    gpus = current_gpus() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with _LOCK, torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield


def current_gpus() -> list[int]:
    """Return the GPU in use, for what takes a list of them; empty without one."""
    return [torch.cuda.current_device()] if torch.cuda.is_available() else []


def global_rng_was_used() -> bool:
    """Return whether numbers of the CPU or the GPU were taken since they were seeded, by whichever thread."""
    with _LOCK:
        if not _is_fresh(torch.Generator(), torch.initial_seed(), torch.get_rng_state()):
            return True
        return not all(
            _is_fresh(torch.Generator(f"cuda:{gpu}"), torch.cuda.initial_seed(), torch.cuda.get_rng_state(gpu))
            for gpu in current_gpus()
        )


def _is_fresh(generator: torch.Generator, seed: int, state: torch.Tensor) -> bool:
    """Whether a state is that of a generator which was seeded and gave no number."""
    return torch.equal(generator.manual_seed(seed).get_state(), state)
