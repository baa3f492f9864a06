"""Masks drawn again as a site with an annotation protocol of its own would draw them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from monai.config import KeysCollection
from monai.transforms import Randomizable, Transform
from scipy import ndimage

from ..array_types import Array, Booleans, Labels
from ..mask_arrays import Mask, RandomMaskTransformd, as_array, label_values, like
from .disc_morphology import closed, dilated, eroded, opened
from .site_protocol import SiteProtocol

# Objects of a slice touch at corners, too.
_EIGHT = np.ones((3, 3), dtype=bool)


@dataclass(frozen=True)
class SiteProtocolParams:
    """Everything random about one mask drawn by a protocol: with it and the generic mask it is made again.

    Attributes:
        mask_shape: shape of the mask for which the parameters were drawn, ``(H, W)`` or ``(H, W, D)``.
        label: label value of the object that a square lies on, ``(n,)``.
        slice_index: its slice along the last axis, 0 in two dimensions, ``(n,)``.
        centre: row and column of a square's middle, ``(n, 2)``.
        side: a square's side in pixels, ``(n,)``.
    """

    mask_shape: tuple[int, ...]
    label: Labels
    slice_index: Labels
    centre: Labels
    side: Labels

    def to_dict(self) -> dict[str, list[int] | list[list[int]]]:
        """Return plain lists, for JSON."""
        return {
            "mask_shape": list(self.mask_shape),
            "label": self.label.tolist(),
            "slice_index": self.slice_index.tolist(),
            "centre": self.centre.tolist(),
            "side": self.side.tolist(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SiteProtocolParams:
        """Build the parameters from what :meth:`to_dict` returned.

        Raises:
            KeyError: when an entry is missing.
        """
        label, slice_index, side = (
            np.asarray(values[name], dtype=np.int64) for name in ("label", "slice_index", "side")
        )
        centre = np.asarray(values["centre"], dtype=np.int64).reshape(-1, 2)
        return cls(tuple(int(length) for length in values["mask_shape"]), label, slice_index, centre, side)


class FollowProtocol(Randomizable, Transform):  # type: ignore[misc]
    """Draw a generic mask as a site with an annotation protocol would.

    First every label value is opened or closed with a disc (systematic), then it is eroded or dilated with another disc
    inside squares whose middles are random pixels of the objects' boundaries (random). A site's training labels get
    both parts; its own test labels only the first, since an annotation that counts as right has no random error.

    Masks are ``(H, W)`` or ``(H, W, D)``, numpy or torch, of whole numbers with 0 as background; volumes are drawn
    slice by slice along the last axis, objects being eight-connected in a slice. Type and dtype are kept. Where two
    labels overlap the larger value is kept, and a pixel that its label leaves becomes background. Objects cut by the
    image border are taken to go on outside. Lengths are scaled with the geometric mean of H and W over 256, see
    :meth:`SiteProtocol.discs`; a disc of a radius below one pixel changes nothing. Nothing leaves the site.

    Args:
        protocol: the site's protocol.
        systematic_only: leave the random part out.
        extents: rows and columns of what is trained on, in pixels of the mask, with which lengths are scaled; None for
            those of the mask itself.

    Example:
        >>> mask = np.zeros((256, 256), dtype=np.uint8)
        >>> mask[100:160, 90:170] = 1
        >>> mask[128:130, 170:200] = 1
        >>> opened = FollowProtocol(SiteProtocol("C"), systematic_only=True)(mask)
        >>> bool(opened[129, 190]), bool(opened[120, 120])
        (False, True)
    """

    def __init__(
        self, protocol: SiteProtocol, *, systematic_only: bool = False, extents: Sequence[float] | None = None
    ) -> None:
        self.protocol = protocol
        self.systematic_only = systematic_only
        self.extents = extents

    def make_params(self, mask: Mask) -> SiteProtocolParams:
        """Draw the squares for one generic mask ``(H, W[, D])``; none where the random part is left out.

        Raises:
            ValueError: when the mask has another number of axes or values that are no labels.
        """
        array = as_array(mask)
        return self._draw(array.shape, self._systematic(array))

    def apply_transform(self, mask: Mask, params: SiteProtocolParams) -> Mask:
        """Draw a generic mask ``(H, W[, D])`` again with given squares; nothing random, the input is kept.

        Raises:
            ValueError: when the parameters were drawn for a mask of another shape.
        """
        array = as_array(mask)
        if params.mask_shape != array.shape:
            raise ValueError(
                f"The parameters were drawn for another mask: expected the shape {params.mask_shape}, found "
                f"{array.shape}. Replay a protocol on the generic mask it was drawn for."
            )
        return like(mask, self._random(self._systematic(array), params))

    def __call__(self, mask: Mask) -> Mask:
        """Draw and apply: the site's mask for a generic one ``(H, W[, D])``."""
        array = as_array(mask)
        systematic = self._systematic(array)
        return like(mask, self._random(systematic, self._draw(array.shape, systematic)))

    def _systematic(self, array: Array) -> Array:
        if self.protocol.kind == "none":
            return array
        change = opened if self.protocol.kind == "C" else closed
        radius = self.protocol.discs(self.extents or array.shape).systematic
        result = np.zeros_like(array)
        for index, label, pixels in _labelled_planes(array):
            _plane(result, index)[change(pixels, radius)] = label
        return result

    def _random(self, systematic: Array, params: SiteProtocolParams) -> Array:
        if not len(params.label):
            return systematic
        change = eroded if self.protocol.kind == "C" else dilated
        radius = self.protocol.discs(self.extents or systematic.shape).random
        result = np.zeros_like(systematic)
        for index, label, pixels in _labelled_planes(systematic):
            inside = np.zeros_like(pixels)
            for number in np.flatnonzero((params.slice_index == index) & (params.label == label)):
                inside[_square(params.centre[number], int(params.side[number]))] = True
            _plane(result, index)[np.where(inside, change(pixels, radius), pixels)] = label
        return result

    def _draw(self, shape: tuple[int, ...], systematic: Array) -> SiteProtocolParams:
        squares: list[tuple[int, int, list[int], int]] = []
        if self.protocol.kind != "none" and not self.systematic_only:
            for index, label, pixels in _labelled_planes(systematic):
                squares += [(label, index, centre, side) for centre, side in self._draw_squares(pixels)]
        names = ("label", "slice_index", "centre", "side")
        columns = {name: [square[place] for square in squares] for place, name in enumerate(names)}
        return SiteProtocolParams.from_dict({"mask_shape": shape} | columns)

    def _draw_squares(self, pixels: Booleans) -> Iterator[tuple[list[int], int]]:
        """Draw middle and side of the squares of every object of a label in a slice."""
        objects, count = ndimage.label(pixels, structure=_EIGHT)
        for number, box in enumerate(ndimage.find_objects(objects, count), start=1):
            boundary = _boundary(objects == number)
            # An object that fills the image has none.
            if len(boundary):
                extent = max(part.stop - part.start for part in box)
                side = max(1, round(self.protocol.square_share * extent))
                for chosen in self.R.randint(len(boundary), size=self.protocol.num_squares):
                    yield boundary[chosen].tolist(), side


class FollowProtocold(RandomMaskTransformd):
    """Dictionary version of :class:`FollowProtocol`; what :class:`RandomMaskTransformd` says holds.

    Args:
        keys: keys of the masks.
        protocol: see :class:`FollowProtocol`.
        systematic_only: see :class:`FollowProtocol`.
        allow_missing_keys: pass over a key that the data do not have.

    Example:
        >>> sample = {"label": np.pad(np.ones((24, 2), dtype=np.uint8), 20)}
        >>> followed = FollowProtocold("label", SiteProtocol.parse("C(12,8)")).set_random_state(seed=0)(sample)
        >>> int(followed["label"].sum())
        0
    """

    def __init__(
        self,
        keys: KeysCollection,
        protocol: SiteProtocol,
        *,
        systematic_only: bool = False,
        allow_missing_keys: bool = False,
    ) -> None:
        transform = FollowProtocol(protocol, systematic_only=systematic_only)
        super().__init__(keys, transform, "Site protocol", allow_missing_keys)


def _labelled_planes(mask: Array) -> Iterator[tuple[int, int, Booleans]]:
    """Yield slice, label value and pixels ``(H, W)`` of every label of every slice of a mask ``(H, W[, D])``."""
    planes = mask[..., None] if mask.ndim == 2 else mask
    for index in range(planes.shape[2]):
        for label in label_values(planes[:, :, index]):
            yield index, label, planes[:, :, index] == label


def _plane(mask: Array, index: int) -> Array:
    return mask if mask.ndim == 2 else mask[:, :, index]


def _boundary(pixels: Booleans) -> Labels:
    """Rows and columns ``(n, 2)`` of the pixels of an object that touch another pixel of the image by a side."""
    return np.argwhere(pixels & ~ndimage.binary_erosion(pixels, border_value=1))


def _square(centre: Labels, side: int) -> tuple[slice, slice]:
    """The pixels of a square around a middle, as far as they lie in the image."""
    row, column = (int(place) - side // 2 for place in centre)
    return slice(max(row, 0), max(row + side, 0)), slice(max(column, 0), max(column + side, 0))
