"""Bringing images, volumes and masks to one size: stretched, cut, or padded; and labels of that size back."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch.nn.functional import interpolate, pad

from ..ignored_label import IGNORED_LABEL

# `resize`: each side is stretched or shrunk to the size. `pad`: all sides alike until the longest one fits; the rest is
# padded. `crop`: pixels stay as they are; what is larger is cut off around the centre, what is smaller is padded.
Fit = Literal["resize", "crop", "pad"]


def scaled_extents(extents: Sequence[int], size: Sequence[int | None], fit: Fit) -> tuple[int, ...]:
    """Return the extents to which an image is stretched or shrunk before it is cut or padded to a size.

    Args:
        extents: of the image.
        size: wanted extents; None for an axis that keeps its own.
        fit: how the size is reached.
    """
    wanted = [own if length is None else length for own, length in zip(extents, size, strict=True)]
    if fit == "crop":
        return tuple(extents)
    if fit == "resize":
        return tuple(wanted)
    fixed = [axis for axis, length in enumerate(size) if length is not None]
    # The axis that reaches its length first: compared as products, so that no rounding decides.
    first = min(fixed, key=lambda axis: wanted[axis] / extents[axis])
    return tuple(
        max(1, round(own * wanted[first] / extents[first])) if axis in fixed else own
        for axis, own in enumerate(extents)
    )


def resize_image(image: torch.Tensor, extents: Sequence[int]) -> torch.Tensor:
    """Resize an image ``(C, H, W)`` or a volume ``(C, I, J, K)``, linearly, with anti-aliasing where it shrinks.

    MONAI's ``Resize`` smooths against zeros outside the image and darkens its frame, hence PyTorch's.
    """
    if tuple(image.shape[1:]) == tuple(extents):
        return image
    if image.ndim == 3:
        return interpolate(image[None], tuple(extents), mode="bilinear", antialias=True)[0]
    for axis, length in enumerate(extents, start=1):
        image = _resized_along(image, axis, length)
    return image


def resize_mask(mask: torch.Tensor, extents: Sequence[int], num_classes: int) -> torch.Tensor:
    """Resize a mask ``(1, H, W[, D])``: a pixel gets the class of most of the pixels that it touches.

    Each of these counts whole, also where the new pixel has a part of it. Of classes with equal shares the last one
    wins, so that half a pixel of lesion is lesion. Both move contours outwards: by a third of a new pixel from 200 to
    256, less where masks shrink. Ignored pixels are the last.

    Args:
        mask: classes, 255 for ignored pixels.
        extents: of the result.
        num_classes: number of classes with background.

    Returns:
        Classes, uint8 ``(1, *extents)``; the mask itself if it has the extents already.
    """
    if tuple(mask.shape[1:]) == tuple(extents):
        return mask
    best = torch.zeros((1, *extents), dtype=torch.uint8)
    largest = torch.full((1, *extents), -1.0)
    ignored = [IGNORED_LABEL] if bool((mask == IGNORED_LABEL).any()) else []
    # One class at a time: all of them at once would take many times the memory of the image.
    for label in (*range(num_classes), *ignored):
        share = interpolate((mask == label).float()[None], tuple(extents), mode="area")[0]
        wins = share >= largest
        best[wins] = label
        largest = torch.where(wins, share, largest)
    return best


def fitted_mask(mask: torch.Tensor, size: Sequence[int | None], fit: Fit, num_classes: int) -> torch.Tensor:
    """Bring a mask ``(1, H, W[, D])`` to a size as its image, uint8.

    Args:
        mask: classes, 255 for ignored pixels.
        size: wanted extents; None for an axis that keeps its own.
        fit: ``resize`` or ``pad``.
        num_classes: number of classes with background.
    """
    scaled = scaled_extents(mask.shape[1:], size, fit)
    wanted = [own if length is None else length for own, length in zip(scaled, size, strict=True)]
    return padded(resize_mask(mask, scaled, num_classes).to(torch.uint8), wanted, border=False)


def number_of_classes(labels: Mapping[int, int]) -> int:
    """Return the number of classes with background that values in a file lead to; ignored pixels are none of them."""
    return max(label for label in labels.values() if label != IGNORED_LABEL) + 1


def padded(image: torch.Tensor, size: Sequence[int], *, border: bool) -> torch.Tensor:
    """Pad ``(C, H, W[, D])`` on all sides alike to a size that is at least as large.

    Args:
        image: an image, or a mask.
        size: of the result.
        border: pad with the values at the border, as around an image; else with 0, as around a mask.
    """
    missing = [length - own for own, length in zip(image.shape[1:], size, strict=True)]
    if not any(missing):
        return image
    # PyTorch names the last axis first.
    widths = [width for lack in reversed(missing) for width in (lack // 2, lack - lack // 2)]
    return pad(image[None], widths, mode="replicate")[0] if border else pad(image, widths)


def labels_at(labels: torch.Tensor, extents: Sequence[int], size: Sequence[int | None], fit: Fit) -> torch.Tensor:
    """Put labels ``(1, H, W[, D])`` of an image that was fitted back to its own extents; a pixel takes the nearest one.

    Args:
        labels: classes, of any type.
        extents: of the image before it was fitted.
        size: wanted extents; None for an axis that keeps its own.
        fit: ``resize`` or ``pad``; what a crop cut off is not there.
    """
    scaled = scaled_extents(extents, size, fit)
    for axis, length in enumerate(scaled, start=1):
        labels = labels.narrow(axis, (labels.shape[axis] - length) // 2, length)
    if tuple(labels.shape[1:]) == tuple(extents):
        return labels
    return interpolate(labels[None].float(), tuple(extents), mode="nearest-exact")[0].to(labels.dtype)


def _resized_along(image: torch.Tensor, axis: int, length: int) -> torch.Tensor:
    """Resize along one axis; all lines along it are the rows of one picture."""
    if image.shape[axis] == length:
        return image
    lines = torch.movedim(image, axis, -1)
    rows = lines.reshape(1, 1, -1, image.shape[axis])
    resized = interpolate(rows, (rows.shape[2], length), mode="bilinear", antialias=True)
    return torch.movedim(resized.reshape(*lines.shape[:-1], length), -1, axis).contiguous()
