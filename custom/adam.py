"""PyTorch's Adam for processes that may live for one task only."""

import inspect
from collections.abc import Callable
from typing import Any

import torch


class Adam(torch.optim.Adam):
    """:class:`torch.optim.Adam`, bit for bit, which does not load PyTorch's compiler.

    The methods of PyTorch's optimisers are wrapped for the compiler, and load it at their first call whether anything
    is compiled or not: several seconds in every process that trains (docs/benchmarks/speed.md). Here they are used
    without their wrappings.
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Do one step of all parameters that have a gradient."""
        return _step(self, closure)


_step = inspect.unwrap(torch.optim.Adam.step)
