"""Masks as transforms take them: numpy or torch, with or without a channel axis, of whole numbers."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self

import numpy as np
import torch
from monai.config import KeysCollection
from monai.transforms import MapTransform, Randomizable
from monai.utils import convert_to_dst_type

from .array_types import Array

Mask = Array | torch.Tensor


def as_array(mask: Mask) -> Array:
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


def label_values(array: Array) -> list[int]:
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


def like(mask: Mask, result: Array) -> Mask:
    """Return the result in the type, on the device and with the metadata of the mask."""
    converted: Mask = convert_to_dst_type(result, mask)[0]
    return converted


def _without_channel(transform: Callable[[Mask], Mask], mask: Mask) -> Mask:
    """Apply a transform of ``(H, W[, D])`` to a mask that may lead with a channel axis of length one.

    Raises:
        ValueError: when there is more than one channel.
    """
    if mask.ndim == 4 and mask.shape[0] != 1:
        raise ValueError(f"expected one channel, (1, H, W, D), found the shape {tuple(mask.shape)}.")
    if mask.ndim == 4 or (mask.ndim == 3 and mask.shape[0] == 1):
        return transform(mask[0])[None]
    return transform(mask)


class RandomMaskTransformd(MapTransform, Randomizable):  # type: ignore[misc]
    """Dictionary version of a random transform of masks; every key is drawn by itself.

    Masks may lead with a channel axis of length one, ``(1, H, W)`` or ``(1, H, W, D)``, as MONAI's loaders give them;
    without it ``(H, W)`` and ``(H, W, D)`` are taken, where H is more than one.

    Args:
        keys: keys of the masks.
        transform: a random transform of one mask ``(H, W[, D])``.
        what: what it does, for an error's text.
        allow_missing_keys: pass over a key that the data do not have.
    """

    def __init__(self, keys: KeysCollection, transform: Randomizable, what: str, allow_missing_keys: bool) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        self.transform = transform
        self._what = what

    def set_random_state(self, seed: int | None = None, state: np.random.RandomState | None = None) -> Self:
        """Seed the transform; see :meth:`monai.transforms.Randomizable.set_random_state`."""
        super().set_random_state(seed, state)
        self.transform.set_random_state(state=self.R)
        return self

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Return the data with a changed mask under every key.

        Raises:
            ValueError: when a mask has more than one channel; the message names the key.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            try:
                result[key] = _without_channel(self.transform, result[key])
            except ValueError as error:
                raise ValueError(f"{self._what} of {key!r}: {error}") from error
        return result
