"""Changes of intensities, of many images at once, each with a parameter of its own.

All functions are pure: what is random is drawn before. Images are ``(N, H, W)`` or ``(N, H, W, D)`` of one channel
each, on any device; parameters are ``(N,)`` on the same device.
"""

import math

import torch
from torch.nn.functional import interpolate

# A Gaussian goes on for so many standard deviations, as SciPy's does.
_TRUNCATION = 4.0
# Keeps the scaling of a constant image finite.
_SMALLEST_RANGE = 1e-7


def with_brightness(images: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Multiply every image by its factor."""
    return images * _broadcast(factors, images)


def with_contrast(images: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Stretch every image about its mean and clip it to the range that it had.

    Of an image whose mean is 0, as normalised images are, this is the multiplication of nnU-Net's paper.
    """
    axes = _pixel_axes(images)
    mean = images.mean(axes, keepdim=True)
    stretched = (images - mean) * _broadcast(factors, images) + mean
    return stretched.clamp(images.amin(axes, keepdim=True), images.amax(axes, keepdim=True))


def with_gamma(images: torch.Tensor, exponents: torch.Tensor, *, inverted: bool = False) -> torch.Tensor:
    """Raise every image, scaled to 0…1, to its power: i ← i^γ, and scale it back to the range that it had.

    Args:
        images: what is changed.
        exponents: γ of every image.
        inverted: use 1 − i ← (1 − i)^γ instead.
    """
    axes = _pixel_axes(images)
    low = images.amin(axes, keepdim=True)
    extent = images.amax(axes, keepdim=True) - low
    scaled = (images - low) / extent.clamp(min=_SMALLEST_RANGE)
    powers = _broadcast(exponents, images)
    changed = 1 - (1 - scaled).clamp(min=0).pow(powers) if inverted else scaled.pow(powers)
    return changed * extent + low


def blurred(images: torch.Tensor, widths: torch.Tensor) -> torch.Tensor:
    """Convolve every image with a Gaussian; the border goes on.

    Args:
        images: what is changed.
        widths: standard deviations in pixels, at least 0.1.
    """
    return _multiplied(images, [_gaussian_matrices(extent, widths) for extent in images.shape[1:]])


def at_low_resolution(images: torch.Tensor, factors: torch.Tensor, *, kept_axis: int | None = None) -> torch.Tensor:
    """Sample every image down by its factor, by nearest neighbours, and back up to its size, by cubic interpolation.

    Args:
        images: what is changed.
        factors: how many times fewer pixels there are between along every axis, at least 1.
        kept_axis: the axis of ``(H, W, D)`` along which nothing changes.
    """
    matrices = [
        None if axis == kept_axis else _resolution_matrices(extent, factors)
        for axis, extent in enumerate(images.shape[1:])
    ]
    return _multiplied(images, matrices)


def _gaussian_matrices(extent: int, widths: torch.Tensor) -> torch.Tensor:
    """The convolution along an axis as matrices ``(N, extent, extent)``, a row for each pixel of the result."""
    radius = math.ceil(_TRUNCATION * float(widths.max()))
    offsets = torch.arange(-radius, radius + 1, device=widths.device)
    kernels = torch.exp(-0.5 * (offsets / widths[:, None]).square())
    kernels = kernels.masked_fill(offsets.abs() > (_TRUNCATION * widths[:, None] + 0.5).floor(), 0.0)
    kernels = kernels / kernels.sum(dim=1, keepdim=True)
    rows = torch.arange(extent, device=widths.device)
    read = (rows[:, None] + offsets).clamp(0, extent - 1).expand(len(widths), -1, -1)
    matrices = torch.zeros(len(widths), extent, extent, device=widths.device)
    return matrices.scatter_add_(2, read, kernels[:, None].expand(-1, extent, -1))


def _resolution_matrices(extent: int, factors: torch.Tensor) -> torch.Tensor:
    """Sampling an axis down and up again as matrices ``(N, extent, extent)``."""
    identity = torch.eye(extent, device=factors.device)
    matrices = []
    for factor in factors.tolist():
        between = max(1, round(extent / factor))
        fewer = interpolate(identity[None], size=between, mode="nearest-exact")
        # Cubic interpolation is of two axes; along the second one nothing changes.
        back = interpolate(fewer[..., None], size=(extent, 1), mode="bicubic", align_corners=False)
        matrices.append(back[0, :, :, 0].T)
    return torch.stack(matrices)


def _multiplied(images: torch.Tensor, matrices: list[torch.Tensor | None]) -> torch.Tensor:
    """Multiply along every axis with its matrices."""
    for axis, matrix in enumerate(matrices, start=1):
        if matrix is not None:
            moved = images.movedim(axis, 1)
            images = torch.bmm(matrix, moved.flatten(2)).view(moved.shape).movedim(1, axis)
    return images


def _pixel_axes(images: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(1, images.ndim))


def _broadcast(values: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    return values.view(-1, *[1] * (images.ndim - 1))
