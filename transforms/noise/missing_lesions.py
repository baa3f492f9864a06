"""Missing lesions: a complete mask becomes one in which the annotator marked some lesions only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from monai.config import KeysCollection
from monai.transforms import Randomizable, Transform

from ..array_types import Array, Booleans, Components, Labels
from ..connected_lesions import label_lesions
from ..mask_arrays import Mask, RandomMaskTransformd, as_array, label_values, like


@dataclass(frozen=True)
class MissingLesionsParams:
    """Everything random about one incomplete mask: with it and the complete mask it is made again.

    Attributes:
        mask_shape: shape of the mask for which the parameters were drawn, ``(H, W)`` or ``(H, W, D)``.
        label: label value of every lesion, ascending, ``(c,)``.
        kept: whether the lesion stays annotated, in the order of the lesions' first voxels, ``(c,)``.
    """

    mask_shape: tuple[int, ...]
    label: Labels
    kept: Booleans

    def to_dict(self) -> dict[str, list[int] | list[bool]]:
        """Return plain lists, for JSON."""
        return {"mask_shape": list(self.mask_shape), "label": self.label.tolist(), "kept": self.kept.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MissingLesionsParams:
        """Build the parameters from what :meth:`to_dict` returned.

        Raises:
            KeyError: when an entry is missing.
        """
        return cls(
            mask_shape=tuple(int(length) for length in values["mask_shape"]),
            label=np.asarray(values["label"], dtype=np.int64),
            kept=np.asarray(values["kept"], dtype=bool),
        )


@dataclass(frozen=True)
class _Lesions:
    """The lesions of one label value: an array that numbers them from 1, and how many there are."""

    label: int
    numbers: Components
    count: int


class DropLesions(Randomizable, Transform):  # type: ignore[misc]
    """Missing lesions at a completeness a: keep a fraction of a mask's lesions, chosen at random, and drop the others.

    Of c lesions round(c · a) are kept, halves up, and at least one where a > 0. Lesions are the connected components of
    each label value, 26-connected in volumes and 8-connected in pictures: volumes belong here before they are cut into
    slices. See Xiang et al., *FedIA: Federated Medical Image Segmentation with Heterogeneous Annotation Completeness*,
    MICCAI 2024, Sec. 3.1.

    Masks are ``(H, W)`` or ``(H, W, D)``, numpy or torch, of whole numbers with 0 as background. Type and dtype are
    kept. Nothing leaves the site.

    Args:
        completeness: a, the fraction of the lesions that stay annotated, from 0 to 1.

    Raises:
        ValueError: when the share is out of range.

    Example:
        >>> mask = np.zeros((32, 32), dtype=np.uint8)
        >>> mask[2:6, 2:6] = mask[12:16, 2:6] = mask[2:6, 20:24] = mask[20:24, 20:24] = 1
        >>> half = DropLesions(completeness=0.5).set_random_state(seed=0)
        >>> int(half(mask).sum() // 16)
        2
    """

    def __init__(self, completeness: float) -> None:
        if not 0 <= completeness <= 1:
            raise ValueError(f"Expected a completeness from 0 to 1, but got {completeness=}.")
        self.completeness = completeness

    def make_params(self, mask: Mask) -> MissingLesionsParams:
        """Draw which lesions of a complete mask ``(H, W[, D])`` stay annotated.

        Raises:
            ValueError: when the mask has another number of axes or values that are no labels.
        """
        array = as_array(mask)
        return self._draw(array.shape, _lesions(array))

    def apply_transform(self, mask: Mask, params: MissingLesionsParams) -> Mask:
        """Drop the lesions of a complete mask ``(H, W[, D])`` that ``params`` do not keep; the input is kept.

        Raises:
            ValueError: when the parameters were drawn for another mask.
        """
        array = as_array(mask)
        return like(mask, _dropped(array, _lesions(array), params))

    def __call__(self, mask: Mask) -> Mask:
        """Draw and apply: the incomplete mask for a complete one ``(H, W[, D])``."""
        array = as_array(mask)
        lesions = _lesions(array)
        return like(mask, _dropped(array, lesions, self._draw(array.shape, lesions)))

    def _draw(self, shape: tuple[int, ...], lesions: Sequence[_Lesions]) -> MissingLesionsParams:
        """Choose among all lesions of a mask, whatever their label."""
        label = np.array([value for of_label in lesions for value in [of_label.label] * of_label.count], dtype=np.int64)
        kept = np.zeros(len(label), dtype=bool)
        kept[self.R.permutation(len(label))[: num_kept(len(label), self.completeness)]] = True
        return MissingLesionsParams(tuple(shape), label, kept)


class DropLesionsd(RandomMaskTransformd):
    """Dictionary version of :class:`DropLesions`; what :class:`RandomMaskTransformd` says holds.

    Args:
        keys: keys of the masks.
        completeness: see :class:`DropLesions`.
        allow_missing_keys: pass over a key that the data do not have.

    Example:
        >>> mask = np.zeros((32, 32), dtype=np.uint8)
        >>> mask[2:6, 2:6] = mask[20:26, 20:26] = 1
        >>> DropLesionsd("label", 0.5).set_random_state(seed=0)({"label": mask})["label"].sum() in (16, 36)
        True
    """

    def __init__(self, keys: KeysCollection, completeness: float, *, allow_missing_keys: bool = False) -> None:
        super().__init__(keys, DropLesions(completeness), "Missing lesions", allow_missing_keys)


def num_kept(num_lesions: int, completeness: float) -> int:
    """Return how many of c lesions stay annotated at a completeness a: round(c · a), halves up, at least 1 if a > 0."""
    if num_lesions == 0 or completeness == 0:
        return 0
    # 0.29 · 50 is 14.499999999999998 in binary fractions.
    return max(1, math.floor(round(num_lesions * completeness, 9) + 0.5))


def _lesions(array: Array) -> list[_Lesions]:
    return [_Lesions(label, *label_lesions(array == label)) for label in label_values(array)]


def _dropped(array: Array, lesions: Sequence[_Lesions], params: MissingLesionsParams) -> Array:
    result = [of_label.label for of_label in lesions for _ in range(of_label.count)]
    if params.mask_shape != array.shape or params.label.tolist() != result:
        raise ValueError(
            f"The parameters were drawn for another mask: expected the shape {params.mask_shape} with "
            f"{len(params.label)} lesions, found {array.shape} with {len(result)} lesions or other labels. "
            "Replay a corruption on the complete mask it was made from."
        )
    incomplete = np.zeros_like(array)
    first = 0
    for of_label in lesions:
        # Number 0 is what is outside.
        stays = np.concatenate([[False], params.kept[first : first + of_label.count]])
        incomplete[stays[of_label.numbers]] = of_label.label
        first += of_label.count
    return incomplete
