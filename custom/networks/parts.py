"""A network with another module in the place of one of its own."""

import copy

from torch import nn


def with_part(network: nn.Module, path: str, part: nn.Module) -> nn.Module:
    """Return a network that has a part of its own and shares all other parameters with the given one.

    Args:
        network: is left as it is.
        path: of the module that is replaced, as in ``model.2.conv``.
        part: what is there instead.
    """
    first, _, rest = path.partition(".")
    together = copy.copy(network)
    inner = with_part(network.get_submodule(first), rest, part) if rest else part
    together._modules = dict(network._modules) | {first: inner}
    return together
