"""What a picture shows of an image's channels: colours where they are red, green and blue, else the first one."""

from ...transforms.array_types import Array

_RGB = 3


def shown_channels(pixels: Array, *, of_volume: bool) -> Array:
    """Return colours ``(..., 3)`` of a picture with three channels, else the first channel ``(...)``.

    Args:
        pixels: intensities ``(..., C)``.
        of_volume: whether they are of a volume, whose channels are never colours.

    >>> import numpy as np
    >>> shown_channels(np.zeros((5, 4, 3)), of_volume=False).shape
    (5, 4, 3)
    >>> shown_channels(np.zeros((5, 4, 3)), of_volume=True).shape
    (5, 4)
    """
    return pixels if pixels.shape[-1] == _RGB and not of_volume else pixels[..., 0]
