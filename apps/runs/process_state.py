"""What a run changes in its process for a while, and what the process has taken of the machine."""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def environment_variable(variable: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while.

    Args:
        variable: its name.
        value: its value meanwhile.
    """
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


@contextmanager
def threads_given_back() -> Iterator[None]:
    """Leave PyTorch with the number of threads that the caller had chosen; the run computes with its own."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def peak_memory_mb() -> float:
    """Return the most memory that this process has had so far, in MB of 2²⁰ bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def cpu_seconds() -> float:
    """Return the seconds of all cores that this process, its threads and processes that it waited for have taken."""
    return sum(os.times()[:4])
