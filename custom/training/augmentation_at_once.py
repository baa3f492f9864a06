"""Turning, mirroring, elastic deformation and noise of a whole batch at once, on the training device."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import conv1d, grid_sample, interpolate

from ..settings import AugmentationKind
from .augmentation import MAX_ANGLE, MAX_NOISE, MOVES, NODE_DISTANCE, PROBABILITY, labels_with_places
from .batch import BEYOND_BORDER, Batch, Batches, ChangedBatches

# In three dimensions nodes are half as far apart as in two, and smoothed by a Gaussian of one node's distance.
_SMOOTHED_NODES = 0.5
_RADIUS = 3
# Nodes beyond the border, so that what is at the border moves as all else does.
_BEYOND = 2


@dataclass(frozen=True)
class KindDraws:
    """Everything random in what is done to a batch, in main memory; see :class:`AugmentedAtOnce`.

    Attributes:
        mirrored: ``(B, d)``: along which axes a sample is mirrored.
        resampled: ``(n,)`` int64: the samples that are turned or deformed.
        angles: ``(n,)``: by which they are turned in the plane of the first two axes.
        nodes: ``(n, d, …)``: by how many pixels each node of a deformation moves; None without deformation.
        noise: ``(B, C, H, W[, D])``: what is added to the images; None without noise.
    """

    mirrored: torch.Tensor
    resampled: torch.Tensor
    angles: torch.Tensor
    nodes: torch.Tensor | None
    noise: torch.Tensor | None

    @classmethod
    def of(cls, shape: Sequence[int], kinds: Sequence[AugmentationKind], generator: torch.Generator) -> "KindDraws":
        """Draw for images of a shape ``(B, C, H, W[, D])``; the same on every device."""
        number, extents = shape[0], shape[2:]
        mirrored = _happens((number, len(extents)), generator) & ("flip" in kinds)
        resampled = _happens((number,), generator) & ("rotation" in kinds or "elastic" in kinds)
        index = resampled.nonzero().flatten()
        angles = MAX_ANGLE * (2 * torch.rand(len(index), generator=generator) - 1) * ("rotation" in kinds)
        nodes = _drawn_nodes(len(index), extents, generator) if "elastic" in kinds else None
        noise = None
        if "noise" in kinds:
            widths = MAX_NOISE * torch.rand(number, generator=generator) * _happens((number,), generator)
            noise = torch.randn(*shape, generator=generator) * widths.view(-1, *[1] * (len(shape) - 1))
        return cls(mirrored, index, angles, nodes, noise)


class AugmentedAtOnce(ChangedBatches):
    """Batches whose samples are changed at random as :class:`fedannot.custom.training.augmentation.AugmentedBatches`
    changes them, all of a batch at once.

    Each kind is done to half of the samples, with the angles, distances and strengths that are said there; a sample
    that is turned is also deformed, where both are asked for. The nodes of a deformation move by normally distributed
    distances. Of images they are interpolated by cubic splines, as there; of patches they are half as far apart,
    smoothed and interpolated linearly, where :class:`~fedannot.custom.training.augmentation.AugmentedBatches` smooths
    noise of every voxel. Random numbers are drawn in main memory, so that they are the same on every device.

    Args:
        batches: the samples as they are.
        kinds: what is done.
    """

    def __init__(self, batches: Batches, kinds: Sequence[AugmentationKind]) -> None:
        super().__init__(batches)
        self._kinds = tuple(kinds)

    def _changed_batch(self, batch: Batch, generator: torch.Generator) -> Batch:
        return changed_by_kinds(batch, KindDraws.of(batch.images.shape, self._kinds, generator))


def changed_by_kinds(batch: Batch, draws: KindDraws) -> Batch:
    """Return a batch with what was drawn done to it; the given one stays as it is."""
    images = batch.images.clone(memory_format=torch.contiguous_format)
    labels = labels_with_places(batch)
    labels = labels.float() if len(draws.resampled) else labels.clone()
    for axis in range(draws.mirrored.shape[1]):
        index = draws.mirrored[:, axis].nonzero().flatten().to(images.device)
        for tensor in (images, labels):
            tensor[index] = tensor[index].flip(axis + 2)
    if len(draws.resampled):
        index = draws.resampled.to(images.device)
        grid = _grid(draws, images.shape[2:], images.device)
        for tensor, mode, beyond in ((images, "bilinear", "border"), (labels, "nearest", "zeros")):
            tensor[index] = grid_sample(tensor[index], grid, mode=mode, padding_mode=beyond, align_corners=False)
    if draws.noise is not None:
        images += draws.noise.to(images.device)
    places = None if batch.places is None else labels[:, 1:].to(batch.places.dtype) + BEYOND_BORDER
    return replace(batch, images=images, labels=labels[:, :1].to(batch.labels.dtype), places=places)


def shown_pixels(draws: KindDraws, extents: Sequence[int], device: torch.device) -> torch.Tensor:
    """Return which pixel of its sample each pixel shows, ``(n, d, H, W[, D])`` float32, before it is rounded.

    Args:
        draws: of which the samples that are turned or deformed count.
        extents: of a sample.
        device: where it is computed.
    """
    middle = torch.tensor([(extent - 1) / 2 for extent in extents], device=device).view(-1, *[1] * len(extents))
    axes = [torch.arange(extent, dtype=torch.float32, device=device) for extent in extents]
    about = (torch.stack(torch.meshgrid(*axes, indexing="ij")) - middle).expand(len(draws.resampled), -1, *extents)
    if draws.nodes is not None:
        about = about + _between_nodes(draws.nodes.to(device), extents)
    angles = draws.angles.to(device).view(-1, *[1] * len(extents))
    rows, columns, *across = about.unbind(dim=1)
    turned = (
        angles.cos() * rows - angles.sin() * columns,
        angles.sin() * rows + angles.cos() * columns,
        *across,
    )
    return torch.stack(turned, dim=1) + middle


def _grid(draws: KindDraws, extents: Sequence[int], device: torch.device) -> torch.Tensor:
    """The grid of :func:`torch.nn.functional.grid_sample`, which counts axes from the last one on, from −1 to 1."""
    shown = shown_pixels(draws, extents, device)
    sides = torch.tensor(list(extents), device=device).view(-1, *[1] * len(extents))
    return ((2 * shown + 1) / sides - 1).flip(1).movedim(1, -1)


def _node_distance(extents: Sequence[int]) -> float:
    """How far nodes are apart, in pixels."""
    distance = NODE_DISTANCE * max(extents[:2])
    return distance if len(extents) == 2 else distance * _SMOOTHED_NODES


def _drawn_nodes(number: int, extents: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Moves of nodes of which those in the middle of each axis stand about the image's middle, and some lie beyond."""
    distance = _node_distance(extents)
    counts = [math.ceil(extent / distance) + 2 * _BEYOND for extent in extents]
    is_smoothed = len(extents) == 3
    drawn = [count + 2 * _RADIUS for count in counts] if is_smoothed else counts
    moves = torch.randn(number, len(extents), *drawn, generator=generator)
    low, high = (move * max(extents[:2]) for move in MOVES)
    widths = low + (high - low) * torch.rand(number, generator=generator)
    smooth = _smoothed(moves) if is_smoothed else moves
    return smooth * widths.view(-1, *[1] * (len(extents) + 1))


def _smoothed(moves: torch.Tensor) -> torch.Tensor:
    """Normally distributed numbers along with those about them, of the standard deviation that they had."""
    kernel = torch.exp(-0.5 * torch.arange(-_RADIUS, _RADIUS + 1, dtype=torch.float32).square())
    kernel = kernel / kernel.square().sum().sqrt()
    for axis in range(2, moves.ndim):
        last = moves.movedim(axis, -1)
        lines = conv1d(last.flatten(0, -2).unsqueeze(1), kernel.view(1, 1, -1))
        moves = lines.view(*last.shape[:-1], lines.shape[-1]).movedim(-1, axis)
    return moves


def _between_nodes(nodes: torch.Tensor, extents: Sequence[int]) -> torch.Tensor:
    """The moves of all pixels, ``(n, d, H, W[, D])``."""
    distance = _node_distance(extents)
    sizes = [max(extent, round(count * distance)) for extent, count in zip(extents, nodes.shape[2:], strict=True)]
    mode = "bicubic" if len(extents) == 2 else "trilinear"
    moves = interpolate(nodes, size=sizes, mode=mode, align_corners=False)
    first = [(size - extent) // 2 for size, extent in zip(sizes, extents, strict=True)]
    inner = tuple(slice(start, start + extent) for start, extent in zip(first, extents, strict=True))
    return moves[(slice(None), slice(None), *inner)]


def _happens(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=generator) < PROBABILITY
