"""Places in which an annotation probably misses an object, marked as ignored: they teach neither object nor none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from monai.config import KeysCollection
from monai.transforms import MapTransform, Transform
from scipy import ndimage

from .array_types import Array, Components
from .connected_lesions import label_lesions, largest_in_lesions
from .ignored_label import IGNORED_LABEL
from .mask_arrays import Mask, _without_channel, as_array, like


@dataclass(frozen=True)
class IgnoreUnannotatedParams:
    """Which objects of the proposals become ignored.

    Attributes:
        mask_shape: shape of the mask for which they were chosen.
        objects: numbers of the chosen objects, from 1 in the order of their first pixel.
    """

    mask_shape: tuple[int, ...]
    objects: tuple[int, ...]

    def to_dict(self) -> dict[str, list[int]]:
        """Return plain lists, for JSON."""
        return {"mask_shape": list(self.mask_shape), "objects": list(self.objects)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> IgnoreUnannotatedParams:
        """Build the parameters from what :meth:`to_dict` returned.

        Raises:
            KeyError: when an entry is missing.
        """
        return cls(tuple(map(int, values["mask_shape"])), tuple(map(int, values["objects"])))


class IgnoreUnannotated(Transform):  # type: ignore[misc]
    """Mark the most confident of the proposed objects that an annotation does not have as :data:`IGNORED_LABEL`.

    Proposals are maps of confidence ``(H, W[, D])``: above 0 in objects that a model finds and the annotator may have
    missed. Objects are the connected components of what is above 0; one that touches an annotated pixel is none that is
    missing and is left out. The most confident ones by their largest value are taken first. Annotated pixels never
    change. Masks are numpy or torch; type and dtype are kept. Nothing is random and nothing leaves the site.

    Args:
        most: no more objects than this are ignored: the estimated number of missing ones.
        confidence: an object counts whose largest value is at least this.
        margin: objects are ignored with so many pixels of background around them, as proposals may be too small.

    Raises:
        ValueError: when an argument is out of range.

    Example:
        >>> mask, proposed = np.zeros((8, 8), dtype=np.uint8), np.zeros((8, 8))
        >>> proposed[1, 1], proposed[6, 6] = 0.95, 0.9
        >>> marked = IgnoreUnannotated(most=1)(mask, proposed)
        >>> int(marked[1, 1]), int(marked[6, 6])
        (255, 0)
    """

    def __init__(self, most: int, confidence: float = 0.8, margin: int = 0) -> None:
        if most < 0 or margin < 0 or not 0 < confidence <= 1:
            raise ValueError(
                f"Expected most and margin from 0 and a confidence above 0 and up to 1, but got {most=}, "
                f"{confidence=}, {margin=}."
            )
        self.most = most
        self.confidence = confidence
        self.margin = margin

    def make_params(self, mask: Mask, proposals: Array) -> IgnoreUnannotatedParams:
        """Choose which objects of the proposals ``(H, W[, D])`` become ignored.

        Raises:
            ValueError: when mask and proposals differ in shape.
        """
        array = as_array(mask)
        labelled, count = _numbered(array, proposals)
        touched = set(np.unique(labelled[(array != 0) & (array != IGNORED_LABEL)]).tolist())
        confidence = enumerate(largest_in_lesions(np.asarray(proposals), labelled, count).tolist(), start=1)
        result = {number: value for number, value in confidence if value >= self.confidence and number not in touched}
        confident_fraction = sorted(result, key=lambda number: -result[number])
        return IgnoreUnannotatedParams(tuple(array.shape), tuple(sorted(confident_fraction[: self.most])))

    def apply_transform(self, mask: Mask, proposals: Array, params: IgnoreUnannotatedParams) -> Mask:
        """Return the mask with the chosen objects ignored; the input is kept.

        Raises:
            ValueError: when the parameters were made for another mask, or mask and proposals differ in shape.
        """
        array = as_array(mask)
        if params.mask_shape != array.shape:
            raise ValueError(f"The parameters were made for a mask {params.mask_shape}, found {array.shape}.")
        labelled, _ = _numbered(array, proposals)
        marked, objects = array.copy(), np.isin(labelled, params.objects)
        if self.margin and objects.any():
            objects = ndimage.binary_dilation(objects, iterations=self.margin)
        marked[objects & (array == 0)] = IGNORED_LABEL
        return like(mask, marked)

    def __call__(self, mask: Mask, proposals: Array) -> Mask:
        """Choose and mark; see :meth:`make_params` and :meth:`apply_transform`."""
        return self.apply_transform(mask, proposals, self.make_params(mask, proposals))


class IgnoreUnannotatedd(MapTransform):  # type: ignore[misc]
    """Dictionary version of :class:`IgnoreUnannotated`; the proposals have no channel axis, the masks may have one.

    Args:
        keys: keys of the masks.
        proposals_key: key of the map of confidence.
        most: see :class:`IgnoreUnannotated`.
        confidence: as above.
        margin: as above.
        allow_missing_keys: pass over a key that the data do not have.
    """

    def __init__(
        self,
        keys: KeysCollection,
        proposals_key: str,
        most: int,
        confidence: float = 0.8,
        margin: int = 0,
        *,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.transform = IgnoreUnannotated(most, confidence, margin)
        self.proposals_key = proposals_key

    def __call__(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the data with a marked mask under every key.

        Raises:
            ValueError: when a mask does not fit the proposals; the message names the key.
        """
        result = dict(data)
        proposals = np.asarray(result[self.proposals_key])
        for key in self.key_iterator(result):
            try:
                result[key] = _without_channel(lambda mask: self.transform(mask, proposals), result[key])
            except ValueError as error:
                raise ValueError(f"Ignored objects of {key!r}: {error}") from error
        return result


def _numbered(array: Array, proposals: Array) -> tuple[Components, int]:
    confidence: Sequence[int] = np.shape(proposals)
    if tuple(confidence) != array.shape:
        raise ValueError(f"Expected proposals of the mask's shape {array.shape}, but got {tuple(confidence)}.")
    return label_lesions(np.asarray(proposals) > 0)
