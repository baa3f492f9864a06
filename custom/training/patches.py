"""Patches of whole volumes: how they are cut out, and where in its volume each voxel of them lies."""

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from .batch import BEYOND_BORDER, pixel_places


def cut_patch(volume: torch.Tensor, centre: Sequence[int], extents: Sequence[int]) -> torch.Tensor:
    """Cut a patch ``(C, *extents)`` out of a volume ``(C, H, W, D)``, around a voxel or as near to it as it fits.

    Where the volume is smaller than the patch it lies in the patch's middle and its border goes on.
    """
    parts, margins = [slice(None)], []
    for middle, extent, length in zip(centre, extents, volume.shape[1:], strict=True):
        start, before = _patch_start(middle, extent, length)
        parts.append(slice(start, start + extent))
        margins.append((before, max(extent - length, 0) - before))
    cut = volume[tuple(parts)]
    if not any(map(any, margins)):
        return cut
    # PyTorch pads from the last axis on, and replicates floating numbers only.
    sides = [side for margin in reversed(margins) for side in margin]
    return pad(cut.float(), sides, mode="replicate").to(cut.dtype)


def patch_places(shape: Sequence[int], centre: Sequence[int], extents: Sequence[int]) -> torch.Tensor:
    """Return where in a volume of shape ``(H, W, D)`` each voxel of a patch lies, ``(3, *extents)`` int32.

    It is -1 where the volume's border goes on; see :func:`cut_patch`.
    """
    axes = []
    for middle, extent, length in zip(centre, extents, shape, strict=True):
        start, before = _patch_start(middle, extent, length)
        axis = torch.arange(extent) + start - before
        axes.append(axis.masked_fill((axis < 0) | (axis >= length), BEYOND_BORDER))
    return pixel_places(axes)


def _patch_start(middle: int, extent: int, length: int) -> tuple[int, int]:
    """Along one axis, the volume's first voxel in a patch, and how many the patch has before it."""
    return min(max(middle - extent // 2, 0), max(length - extent, 0)), max(extent - length, 0) // 2
