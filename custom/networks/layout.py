"""Which entries a network's state dict has: their layer blocks, what is trained, what are running statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from .building import assign_blocks, layer_blocks

# Kinds of entries within a layer block, each of which has a bound of its own on how far a site may move it.
WEIGHTS, BIASES, NORMALISATION, STATISTICS = "weights", "biases", "normalisation", "statistics"


@dataclass(frozen=True)
class NetworkLayout:
    """The entries of a network's state dict.

    Attributes:
        blocks: layer blocks in forward order.
        block_of: the block of every entry.
        trained: names of the parameters, sorted.
        statistics: names of the other floating entries, running statistics of normalisation, sorted.
        group_of: the group of every entry, ``BLOCK/KIND``: a layer block's weights (kernels and matrices), its biases
            (every other vector or number), the affine parameters of its normalisation, and what is not trained.
    """

    blocks: tuple[str, ...]
    block_of: Mapping[str, str]
    trained: tuple[str, ...]
    statistics: tuple[str, ...]
    group_of: Mapping[str, str]

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
        block_of = assign_blocks(params, chosen)
        kinds = _kinds_of_parameters(network)
        group_of = {name: f"{block}/{kinds.get(name, STATISTICS)}" for name, block in block_of.items()}
        return cls(tuple(chosen), block_of, tuple(trained), tuple(statistics), group_of)


def is_normalisation(module: nn.Module) -> bool:
    """Return whether a module is a layer that normalises over batches, instances, groups or features."""
    if isinstance(module, _NormBase | nn.GroupNorm | nn.LayerNorm):
        return True
    # Further classes have no base in common; their names have.
    return "norm" in type(module).__name__.lower() and any(True for _ in module.parameters(recurse=False))


def _kinds_of_parameters(network: nn.Module) -> dict[str, str]:
    """Return the kind of every parameter, under all names that it has."""
    kinds = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        module = network.get_submodule(name.rpartition(".")[0])
        if is_normalisation(module):
            kinds[name] = NORMALISATION
        else:
            kinds[name] = WEIGHTS if parameter.ndim > 1 else BIASES
    return kinds
