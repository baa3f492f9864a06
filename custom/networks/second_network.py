"""A second network of the same settings, which travels with the first one and is averaged as it is."""

import copy

import torch
from torch import nn

from ..components.component import ComponentError
from .building import layer_blocks

# The part of a network that holds it.
SECOND_NETWORK = "second_network"


class SecondNetwork(nn.Module):
    """Holds a second network as a part of a first one; it is never run as such a part.

    Args:
        network: the second network.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network


def with_second_network(network: nn.Module, second: nn.Module) -> nn.Module:
    """Give a network another one as a part, and return it: it predicts as before, by itself.

    Its layer blocks are those of both, the second network's first.

    Args:
        network: the first network, whose entries keep their names.
        second: of the same settings, with other start weights.

    Raises:
        ComponentError: if both have the same start weights, or the network runs whatever parts it has.
    """
    pairs = list(zip(network.parameters(), second.parameters(), strict=True))
    if all(torch.equal(one, other) for one, other in pairs):
        raise ComponentError(
            f"found a network {type(network).__name__} that always has the same start weights; expected a class or a "
            "function that builds it, since two networks with different starts are trained."
        )
    if isinstance(network, nn.Sequential):
        raise ComponentError(
            "found a torch.nn.Sequential as the network, which would run a second network after the first; expected a "
            "network whose class has a forward pass of its own."
        )
    blocks, blocks_of_second = layer_blocks(network), layer_blocks(second)
    of_second = [f"{SECOND_NETWORK}.network.{block}" for block in blocks_of_second]
    # They are asked for in every step of a training.
    vars(second)["layer_blocks"] = blocks_of_second
    network.add_module(SECOND_NETWORK, SecondNetwork(second))
    vars(network)["layer_blocks"] = (*of_second, *blocks)
    return network


def has_second_network(network: nn.Module) -> bool:
    """Return whether a network has a second one as a part."""
    return isinstance(network._modules.get(SECOND_NETWORK), SecondNetwork)


def second_network(network: nn.Module) -> nn.Module:
    """Return the second network."""
    part = network.get_submodule(SECOND_NETWORK)
    assert isinstance(part, SecondNetwork)
    return part.network


def first_network(network: nn.Module) -> nn.Module:
    """Return a network without its second one; all parameters are shared. It is what was given where it has none."""
    if not has_second_network(network):
        return network
    alone = copy.copy(network)
    alone._modules = {name: part for name, part in network._modules.items() if name != SECOND_NETWORK}
    blocks = layer_blocks(network)
    vars(alone)["layer_blocks"] = tuple(block for block in blocks if not block.startswith(f"{SECOND_NETWORK}."))
    return alone
