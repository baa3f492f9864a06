"""A network that sees images at another scale, whatever extents it takes."""

import functools
import itertools
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn.functional import interpolate, pad

from ...components.component import ComponentError
from ...networks.dry_run import dry_run
from ...settings import RunSettings, fits_unet

# Extents are tried as they are, then as multiples of these.
_MULTIPLES = (1, 2, 4, 8, 16, 32, 64)
_MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def accepted_by(settings: RunSettings) -> Callable[[tuple[int, ...]], bool]:
    """Return what says whether the network of some settings can be trained on images of some extents.

    The same extents are tried once.
    """

    @functools.cache
    def accepts(extents: tuple[int, ...]) -> bool:
        if settings.network.component is None:
            return fits_unet(extents)
        try:
            dry_run(settings, extents)
        except ComponentError:
            return False
        return True

    return accepts


class ScaledNetwork(nn.Module):
    """Resizes images, lets a network see them, and resizes its logits back; both by linear interpolation.

    Where the network takes no images of the scaled extents, their border goes on to the next multiple of 2, 4, …, 64
    that it takes. A network that takes none of these sees windows of the extents that it is trained on, evenly spread,
    whose logits are averaged where they overlap. What was added is cut off the logits.

    Args:
        network: what is trained; its parameters and its mode are this one's.
        scale: the factor of all extents.
        accepts: whether the network takes images of some extents; it takes those of the images.
    """

    def __init__(self, network: nn.Module, scale: float, accepts: Callable[[tuple[int, ...]], bool]) -> None:
        super().__init__()
        self.network = network
        self._scale, self._accepts = scale, accepts

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits ``(B, C + 1, H, W[, D])`` for images of these extents."""
        own = tuple(images.shape[2:])
        scaled = tuple(max(1, round(self._scale * extent)) for extent in own)
        resized = interpolate(images, size=scaled, mode=_MODES[len(own)])
        padded = padded_extents(scaled, self._accepts)
        if padded is not None:
            logits = self.network(_extended(resized, padded))
        else:
            logits = self._of_windows(_extended(resized, tuple(map(max, scaled, own))), own)
        return interpolate(logits[_place([0] * len(own), scaled)], size=own, mode=_MODES[len(own)])

    def _of_windows(self, images: torch.Tensor, window: tuple[int, ...]) -> torch.Tensor:
        starts = itertools.product(*map(window_starts, images.shape[2:], window))
        places = [_place(start, window) for start in starts]
        # Windows run together, so that a normalisation by batch sees them as one.
        logits: torch.Tensor = self.network(torch.cat([images[place] for place in places]))
        parts = torch.split(logits, len(images))
        total = parts[0].new_zeros(*parts[0].shape[:2], *images.shape[2:])
        counts = total.new_zeros(images.shape[2:])
        for place, part in zip(places, parts, strict=True):
            total[place] += part
            counts[place[2:]] += 1
        mean: torch.Tensor = total / counts
        return mean


def padded_extents(extents: tuple[int, ...], accepts: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...] | None:
    """Return the smallest of the extents that are tried and taken; None for none of them.

    >>> padded_extents((45, 67), lambda extents: all(extent % 16 == 0 for extent in extents))
    (48, 80)
    """
    tried = dict.fromkeys(tuple(-(-extent // by) * by for extent in extents) for by in _MULTIPLES)
    return next((one for one in tried if accepts(one)), None)


def window_starts(extent: int, window: int) -> list[int]:
    """Return where as few windows as cover an axis begin, evenly spread.

    >>> window_starts(24, 16), window_starts(16, 16), window_starts(40, 16)
    ([0, 8], [0], [0, 12, 24])
    """
    number = -(-extent // window)
    return [0] if number == 1 else [round(index * (extent - window) / (number - 1)) for index in range(number)]


def _place(starts: Sequence[int], extents: Sequence[int]) -> tuple[slice, ...]:
    """Part of images ``(B, C, H, W[, D])``: all channels of all."""
    parts = [slice(start, start + extent) for start, extent in zip(starts, extents, strict=True)]
    return slice(None), slice(None), *parts


def _extended(images: torch.Tensor, extents: Sequence[int]) -> torch.Tensor:
    """Images whose last row, column and plane go on up to some extents."""
    missing = [wanted - extent for wanted, extent in zip(extents, images.shape[2:], strict=True)]
    if not any(missing):
        return images
    return pad(images, [length for amount in reversed(missing) for length in (0, amount)], mode="replicate")
