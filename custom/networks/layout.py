"""Which entries a network's state dict has: their layer blocks, what is trained, what are running statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from .building import assign_blocks, layer_blocks


@dataclass(frozen=True)
class NetworkLayout:
    """The entries of a network's state dict.

    Attributes:
        blocks: layer blocks in forward order.
        block_of: the block of every entry.
        trained: names of the parameters, sorted.
        statistics: names of the other floating entries, running statistics of normalisation, sorted.
    """

    blocks: tuple[str, ...]
    block_of: Mapping[str, str]
    trained: tuple[str, ...]
    statistics: tuple[str, ...]

    @classmethod
    def of(cls, network: nn.Module, params: Mapping[str, torch.Tensor], blocks: Sequence[str]) -> "NetworkLayout":
        """Return the layout of a network.

        Args:
            network: the network.
            params: its state dict.
            blocks: names of its layer blocks where a job chooses them; empty for the network's own.
        """
        chosen = layer_blocks(network, blocks)
        trained = sorted(name for name, _ in network.named_parameters())
        statistics = sorted(
            name for name, tensor in params.items() if tensor.is_floating_point() and name not in trained
        )
        return cls(tuple(chosen), assign_blocks(params, chosen), tuple(trained), tuple(statistics))
