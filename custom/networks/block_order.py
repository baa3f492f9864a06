"""Layer blocks of any network, from the order in which its modules run."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..components.component import ComponentError, first_line
from ..global_rng import briefly_seeded_rng

# Extents of an image with which a network is run to see its order; the first that it takes.
ATTEMPTED_EXTENTS = (32, 64, 96, 128, 256)

# A part that holds more of all parameters is taken apart: most of it is no single block.
_NEARLY_ALL = 0.75
_LISTS = (nn.ModuleList, nn.ModuleDict)


def blocks_in_order(network: nn.Module, channels: int, extents: tuple[tuple[int, ...], ...]) -> tuple[str, ...]:
    """Return the names of a network's blocks in the order in which they first run.

    A block is a child of the network that has entries in the state dict. A list of modules is taken apart into its
    entries, and so is a child with more than three quarters of all parameters, as long as there is one. What does not
    run in training comes first. Server and sites get the same blocks: they follow from the network's class alone.

    Args:
        network: is left as it is; a copy runs once in training mode.
        channels: of an image.
        extents: of images, of which the first is taken that the network takes.

    Raises:
        ComponentError: if the network takes none of the extents.
    """
    blocks = list(_blocks(network))
    try:
        # Without values, whose multiplication takes minutes in a wide network.
        order = _first_runs(network, blocks, channels, extents, torch.device("meta"))
    except ComponentError:
        # Its class reads values, or takes none of the extents.
        order = _first_runs(network, blocks, channels, extents, next(network.parameters()).device)
    return tuple(sorted(blocks, key=lambda block: order.get(block, -1)))


def _blocks(network: nn.Module) -> Iterator[str]:
    """The blocks as they are registered."""
    entries = list(network.state_dict())
    total = sum(parameter.numel() for parameter in network.parameters())

    def parts(path: str, module: nn.Module) -> Iterator[str]:
        prefix = f"{path}." if path else ""
        children = dict(module.named_children())
        # A parameter of the module's own is a block: it belongs to no child.
        own = {
            entry
            for entry in entries
            if entry.startswith(prefix) and entry[len(prefix) :].split(".")[0] not in children
        }
        yield from sorted(own)
        for name, child in children.items():
            place = f"{prefix}{name}"
            if not any(entry.startswith(f"{place}.") for entry in entries):
                continue
            share = sum(parameter.numel() for parameter in child.parameters()) / max(total, 1)
            if any(child.children()) and (isinstance(child, _LISTS) or share > _NEARLY_ALL):
                yield from parts(place, child)
            else:
                yield place

    return parts("", network)


def _first_runs(
    network: nn.Module,
    blocks: list[str],
    channels: int,
    extents: tuple[tuple[int, ...], ...],
    device: torch.device,
) -> dict[str, int]:
    """When each block first runs; a parameter of its own has no time."""
    copied = copy.deepcopy(network).to(device).train()
    modules = {id(module): name for name, module in _modules_of(copied, blocks)}
    order: dict[str, int] = {}

    def note(module: nn.Module, arguments: Any) -> None:
        del arguments
        order.setdefault(modules[id(module)], len(order))

    for _, module in _modules_of(copied, blocks):
        module.register_forward_pre_hook(note)
    failed: Exception | None = None
    for size in extents:
        order.clear()
        # Two, since normalisation in training needs more than one value.
        images = torch.zeros(2, channels, *size, device=device)
        try:
            with torch.no_grad(), briefly_seeded_rng(0):
                copied(images)
        except Exception as error:
            # Whatever a class makes of images that are too small for it.
            failed = error
            continue
        return order
    raise ComponentError(
        f"{type(network).__name__} takes no image of {channels} channels with any of the extents "
        f"{', '.join('×'.join(map(str, size)) for size in extents)}: {first_line(failed)}"
    ) from failed


def _modules_of(network: nn.Module, blocks: list[str]) -> Iterator[tuple[str, nn.Module]]:
    parameters = dict(network.named_parameters())
    buffers = dict(network.named_buffers())
    for block in blocks:
        if block not in parameters and block not in buffers:
            yield block, network.get_submodule(block)
