"""Masks as transforms take them: numpy or torch, with or without a channel axis, of whole numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from monai.utils import convert_to_dst_type
from numpy.typing import NDArray

Mask = NDArray[Any] | torch.Tensor


def as_array(mask: Mask) -> NDArray[Any]:
    """Return a mask as a checked numpy array, not copied where it is one.

    Raises:
        ValueError: when it has another number of axes or holds no numbers.
    """
    array = mask.detach().cpu().numpy() if isinstance(mask, torch.Tensor) else np.asarray(mask)
    if array.ndim not in (2, 3):
        raise ValueError(f"Expected a mask of shape (H, W) or (H, W, D), found {array.shape}.")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"Expected a mask of numbers, found the dtype {array.dtype}.")
    return array


def label_values(array: NDArray[Any]) -> list[int]:
    """Return the ascending label values of a mask without the background.

    Raises:
        ValueError: when a value is no whole number from 0 up.
    """
    values = np.unique(array[array != 0])
    if not all(value > 0 and float(value).is_integer() for value in values):
        raise ValueError(
            f"Expected whole numbers from 0 up as labels, found values such as {values[0]}. "
            "A mask must not be interpolated or normalised; resample it with nearest neighbours."
        )
    return [int(value) for value in values]


def like(mask: Mask, result: NDArray[Any]) -> Mask:
    """Return the result in the type, on the device and with the metadata of the mask."""
    converted: Mask = convert_to_dst_type(result, mask)[0]
    return converted


def without_channel(transform: Callable[[Mask], Mask], mask: Mask) -> Mask:
    """Apply a transform of ``(H, W[, D])`` to a mask that may lead with a channel axis of length one.

    Raises:
        ValueError: when there is more than one channel.
    """
    if mask.ndim == 4 and mask.shape[0] != 1:
        raise ValueError(f"expected one channel, (1, H, W, D), found the shape {tuple(mask.shape)}.")
    if mask.ndim == 4 or (mask.ndim == 3 and mask.shape[0] == 1):
        return transform(mask[0])[None]
    return transform(mask)
