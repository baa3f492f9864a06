"""Random changes of images, and of what networks say of them, in the same way (RMD)."""

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import grid_sample, interpolate

_LARGEST_ANGLE = math.pi / 3
_LARGEST_ZOOM = 2.0
_NOISE = 0.02
# Of the longer side of a slice: how far nodes of a deformation are apart, and their standard deviation; as the
# augmentation of trainings has them.
_NODE_DISTANCE = 1 / 8
_MOVES = (1 / 256, 4 / 256)


@dataclass(frozen=True)
class ImageChange:
    """What was drawn for each image of a batch.

    Attributes:
        mirrored: along which axes, ``(B, d)`` booleans; it comes first.
        places: from where each pixel comes, ``(B, H, W[, D], d)`` in pixels; None for no resampling.
        noise: what is added to an image, ``(B, C, H, W[, D])``; None for nothing.
    """

    mirrored: torch.Tensor
    places: torch.Tensor | None = None
    noise: torch.Tensor | None = None

    def of_images(self, images: torch.Tensor) -> torch.Tensor:
        """Return changed images ``(B, C, H, W[, D])``; from beyond the border comes the border."""
        moved = self.of_maps(images)
        return moved if self.noise is None else moved + self.noise

    def of_maps(self, maps: torch.Tensor) -> torch.Tensor:
        """Return maps ``(B, C, H, W[, D])`` that go with the images, such as probabilities, by linear interpolation."""
        return self._sampled(self._mirrored(maps), "bilinear", "border")

    def of_counted(self, counted: torch.Tensor) -> torch.Tensor:
        """Return which pixels show one that counts, ``(B, H, W[, D])`` booleans, by the nearest; none beyond it."""
        return self._sampled(self._mirrored(counted[:, None].float()), "nearest", "zeros")[:, 0] > 0.5

    def _mirrored(self, maps: torch.Tensor) -> torch.Tensor:
        for axis in range(self.mirrored.shape[1]):
            chosen = self.mirrored[:, axis].view(-1, *[1] * (maps.ndim - 1))
            maps = torch.where(chosen, maps.flip(axis + 2), maps)
        return maps

    def _sampled(self, maps: torch.Tensor, mode: str, padding: str) -> torch.Tensor:
        if self.places is None:
            return maps
        lengths = self.places.new_tensor([max(extent - 1, 1) for extent in maps.shape[2:]])
        # From −1 to 1, the last axis first.
        grid = (2 * self.places / lengths - 1).flip(-1)
        if any(extent == 1 for extent in maps.shape[2:]):
            single = [extent == 1 for extent in reversed(maps.shape[2:])]
            grid = grid.masked_fill(torch.tensor(single, device=grid.device), 0.0)
        return grid_sample(maps, grid, mode, padding, align_corners=True)


def draw_change(images: torch.Tensor, generator: torch.Generator, *, is_strong: bool) -> ImageChange:
    """Draw a change of every image of a batch.

    Each is mirrored along each axis with equal chance. A strong change turns it by up to 60° in the plane of the first
    two axes, enlarges it up to twice, deforms it, and adds white noise with a standard deviation of 0.02.

    Args:
        images: ``(B, C, H, W[, D])`` float32.
        generator: on the CPU, decides everything random.
        is_strong: whether there is more than mirroring.
    """
    count, extents = len(images), tuple(images.shape[2:])
    mirrored = torch.randint(2, (count, len(extents)), generator=generator).bool().to(images.device)
    if not is_strong:
        return ImageChange(mirrored)
    angles = torch.rand(count, generator=generator) * _LARGEST_ANGLE
    zooms = 1 + torch.rand(count, generator=generator) * (_LARGEST_ZOOM - 1)
    moves = _deformation(count, extents, generator)
    noise = _NOISE * torch.randn(images.shape, generator=generator)
    places = turned_places(extents, angles, zooms) + moves
    return ImageChange(mirrored, places.to(images), noise.to(images))


def turned_places(extents: tuple[int, ...], angles: torch.Tensor, zooms: torch.Tensor) -> torch.Tensor:
    """Return from where pixels of turned and enlarged images come, ``(B, H, W[, D], d)`` in pixels.

    Args:
        extents: of an image.
        angles: of each, in the plane of the first two axes, in radians.
        zooms: of each, how many times larger it shows what is in its centre.
    """
    axes = [torch.arange(extent, dtype=torch.float32) - (extent - 1) / 2 for extent in extents]
    offsets = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    matrices = torch.eye(len(extents)).repeat(len(angles), 1, 1)
    matrices[:, 0, 0] = matrices[:, 1, 1] = angles.cos()
    matrices[:, 0, 1], matrices[:, 1, 0] = -angles.sin(), angles.sin()
    matrices = matrices / zooms.view(-1, 1, 1)
    centre = torch.tensor([(extent - 1) / 2 for extent in extents])
    return torch.einsum("bij,...j->b...i", matrices, offsets) + centre


def _deformation(count: int, extents: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Smooth random moves, ``(B, H, W[, D], d)`` in pixels: linear between nodes."""
    side = max(extents[:2])
    nodes = [math.ceil(extent / (_NODE_DISTANCE * side)) + 1 for extent in extents]
    low, high = _MOVES
    sizes = (low + (high - low) * torch.rand(count, generator=generator)) * side
    drawn = torch.randn(count, len(extents), *nodes, generator=generator)
    mode = "bilinear" if len(extents) == 2 else "trilinear"
    moves = interpolate(drawn, size=extents, mode=mode, align_corners=True).movedim(1, -1)
    return moves * sizes.view(-1, *[1] * (moves.ndim - 1))
