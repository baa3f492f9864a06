"""How many parameters, buffers and parts a class would have, before they take memory and time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ..components.component import ComponentError
from ..settings import MOST_PARAMETERS

# Of a class that cannot be counted, the values that it may make while it is built.
MOST_VALUES = MOST_PARAMETERS // 10
# MONAI's deepest networks have some 1,000 modules. As many as this are built and passed in half a minute.
MOST_MODULES = 4_000
# What is called of PyTorch while such a network is built, a few functions for each parameter.
_MOST_CALLS = 10 * MOST_MODULES
# A tensor with as many values has them while a network is counted; a class may read them.
_FEW_VALUES = 10_000

_META = torch.device("meta")


class _TooLargeError(Exception):
    pass


class _TooDeepError(Exception):
    pass


class _Calls(TorchFunctionMode):
    """Ends the building of a network that goes on and on, in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += 1
        # What ends a block without gradients is called on the way out, too.
        if self.number > _MOST_CALLS and func is not torch._C._set_grad_enabled:
            raise _TooDeepError
        return func(*args, **(kwargs or {}))


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While a network is built, only small tensors get values; or all do, until there are too many."""

    def __init__(self, largest: int | None, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest, self.most, self.values = largest, most, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        returns = func._schema.returns
        if func._schema.is_mutable or not returns or any(entry.alias_info for entry in returns):
            return func(*args, **kwargs)
        if not all(isinstance(entry.type, torch.TensorType) for entry in returns):
            return func(*args, **kwargs)
        shapes = self._without_values(func, args, kwargs)
        sizes = [leaf.numel() for leaf in tree_leaves(shapes) if isinstance(leaf, torch.Tensor)]
        if self.largest is None:
            self.values += sum(sizes)
            if self.values > self.most:
                raise _TooLargeError
            return func(*args, **kwargs)
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if max(sizes, default=0) > self.largest or any(tensor.is_meta for tensor in inputs):
            return shapes
        return func(*args, **kwargs)

    def _without_values(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to(_META), (args, kwargs))
        if any(argument.name == "device" for argument in func._schema.arguments):
            kwargs |= {"device": _META, "pin_memory": None} if "pin_memory" in kwargs else {"device": _META}
        return func(*args, **kwargs)


def build_of_checked_size(build: Callable[[], nn.Module], name: str, arguments: str) -> nn.Module:
    """Build a network, unless it is too large for any machine, or so deep that it takes minutes to build.

    Its parameters are counted first, where they have no values. What reads values while it is built is counted with
    those of small tensors, and what reads others is stopped when it has made too many.

    Args:
        build: builds it, with the start weights of the global random state.
        name: the class's, for an error.
        arguments: its, for an error.

    Raises:
        ComponentError: if it is too large, or cannot be built.
    """
    for mode in (_META, _Counting(_FEW_VALUES, MOST_VALUES)):
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled()), torch.random.fork_rng(devices=[]), mode, _Calls():
                counted = build()
        except ComponentError as error:
            if isinstance(error.__cause__, _TooDeepError):
                raise _too_deep(name, arguments) from error
            continue
        if sum(1 for _ in counted.modules()) > MOST_MODULES:
            raise _too_deep(name, arguments)
        # Buffers are sent and kept as parameters are.
        count = sum(entry.numel() for entry in (*counted.parameters(), *counted.buffers()))
        if count > MOST_PARAMETERS:
            raise ComponentError(
                f"{name} has {count:.1e} parameters and buffers with the arguments {arguments}; at most "
                f"{MOST_PARAMETERS:.0e} are allowed."
            )
        return build()
    try:
        with torch.set_grad_enabled(torch.is_grad_enabled()), _Counting(None, MOST_VALUES), _Calls():
            built = build()
    except ComponentError as error:
        if isinstance(error.__cause__, _TooDeepError):
            raise _too_deep(name, arguments) from error
        if isinstance(error.__cause__, _TooLargeError):
            raise ComponentError(
                f"{name} reads values while it is built, so that its parameters cannot be counted before, and makes "
                f"more than {MOST_VALUES:.0e} with the arguments {arguments}."
            ) from error
        raise
    if sum(1 for _ in built.modules()) > MOST_MODULES:
        raise _too_deep(name, arguments)
    return built


def _too_deep(name: str, arguments: str) -> ComponentError:
    return ComponentError(
        f"{name} has more than {MOST_MODULES} modules with the arguments {arguments}, which take minutes to build; "
        "choose fewer levels, layers or units."
    )
