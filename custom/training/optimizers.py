"""PyTorch's optimisers for processes that may live for one task only.

The methods of PyTorch's optimisers are wrapped for the compiler, and load it at their first call whether anything is
compiled or not: several seconds in every process that trains (docs/benchmarks/speed.md). Here they are used without
their wrappings; the steps are PyTorch's, bit for bit.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch


class Adam(torch.optim.Adam):
    """:class:`torch.optim.Adam`, bit for bit, which does not load PyTorch's compiler."""

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Do one step of all parameters that have a gradient."""
        return _adam_step(self, closure)


class SGD(torch.optim.SGD):
    """:class:`torch.optim.SGD`, bit for bit, which does not load PyTorch's compiler."""

    add_param_group = inspect.unwrap(torch.optim.SGD.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.SGD.zero_grad)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Do one step of all parameters that have a gradient."""
        return _sgd_step(self, closure)


_adam_step = inspect.unwrap(torch.optim.Adam.step)
_sgd_step = inspect.unwrap(torch.optim.SGD.step)
