"""Dropout in a single pass of a network that has none of its own: where it first sees an image at a coarser scale."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

# By how often the image has become coarser, from not at all on; the last for all further ones.
RATES = (0.05, 0.1, 0.2, 0.3, 0.5)


@contextmanager
def stage_dropout(network: nn.Module, blocks: Sequence[str], axes: int, generator: torch.Generator) -> Iterator[None]:
    """Drop features of a network's encoder at random in the block's one pass.

    The first layer block whose output is a feature map, and each later one whose output has fewer pixels than all
    before it, set entries of that output to 0, and enlarge the others as dropout does.

    Args:
        network: what is run.
        blocks: its layer blocks in forward order.
        axes: of its images, 2 or 3.
        generator: on the network's device, decides what is dropped.
    """
    stages = _Stages(axes, generator)
    modules = dict(network.named_modules())
    handles = [modules[name].register_forward_hook(stages) for name in blocks if name in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Stages:
    """Drops entries of the outputs that are smaller than all before."""

    def __init__(self, axes: int, generator: torch.Generator) -> None:
        self._axes, self._generator = axes, generator
        self._smallest: float = math.inf
        self._number = 0

    def __call__(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> Any:
        del module, arguments
        if not isinstance(output, torch.Tensor) or output.ndim != self._axes + 2:
            return None
        pixels = math.prod(output.shape[2:])
        if pixels >= self._smallest:
            return None
        self._smallest = pixels
        rate = RATES[min(self._number, len(RATES) - 1)]
        self._number += 1
        kept = torch.rand(output.shape, generator=self._generator, device=output.device) >= rate
        return output * kept / (1 - rate)
