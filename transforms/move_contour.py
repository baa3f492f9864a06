"""The contours of a mask's objects moved outward or inward by one distance, finer than the pixel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from monai.config import KeysCollection
from monai.transforms import MapTransform, Transform
from scipy import ndimage

from .array_types import Array, Booleans, Components, Floats
from .connected_lesions import label_lesions
from .ignored_label import IGNORED_LABEL
from .mask_arrays import Mask, _without_channel, as_array, label_values, like
from .surfaces import SURFACE_MARGIN, checked_spacing, grown_box, surface_of_mask

_Box = tuple[slice, ...]


@dataclass(frozen=True)
class MoveContourParams:
    """How far the contours of each class move, positive outward, in millimetres (pixels without spacing).

    Attributes:
        distances: by label value; classes that are not named stay.
    """

    distances: Mapping[int, float]

    def __post_init__(self) -> None:
        for label, distance in self.distances.items():
            if not (math.isfinite(distance) and 0 < label < IGNORED_LABEL):
                raise ValueError(
                    f"Expected finite distances of labels from 1 to {IGNORED_LABEL - 1}, but got {distance=} "
                    f"of {label=}."
                )

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return plain values, for JSON."""
        return {"distances": {str(label): float(distance) for label, distance in self.distances.items()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MoveContourParams:
        """Build the parameters from what :meth:`to_dict` returned.

        Raises:
            KeyError: when an entry is missing.
        """
        return cls({int(label): float(distance) for label, distance in values["distances"].items()})


class MoveContour(Transform):  # type: ignore[misc]
    """Move every contour by a signed distance: M′ = {x : d_M(x) ≤ distance}, with d_M negative inside an object.

    Every object stays one object. One that would vanish keeps its innermost pixel; one that would fall apart keeps a
    path of one pixel along its deepest places; objects of a class that would merge keep a pixel between them. A border
    that objects of two classes share moves by the difference of their distances alone, and where the image's border
    cuts an object the cut stays. A pixel that several objects reach goes to the one that it lies deepest in. Objects
    are 8-connected in two dimensions and 26-connected in three.

    Masks are ``(H, W)`` or ``(H, W, D)``, numpy or torch, of whole numbers with 0 as background; ignored pixels stay.
    Type and dtype are kept. Nothing is random and nothing leaves the site.

    Args:
        distance: positive makes objects larger, negative smaller; of every class, or by label value.

    Raises:
        ValueError: when a distance is not finite.

    Example:
        >>> mask = np.zeros((32, 32), dtype=np.uint8)
        >>> mask[10:20, 10:20] = 1
        >>> smaller = MoveContour(-2.0)(mask)
        >>> bool(smaller[12:18, 12:18].all()), int(smaller.sum())
        (True, 36)
    """

    def __init__(self, distance: float | Mapping[int, float]) -> None:
        self.distance: float | dict[int, float] = dict(distance) if isinstance(distance, Mapping) else float(distance)
        MoveContourParams(self.distance if isinstance(self.distance, dict) else {1: self.distance})

    def make_params(self, mask: Mask) -> MoveContourParams:
        """Return the distance of every class of a mask ``(H, W[, D])``.

        Raises:
            ValueError: when the mask has another number of axes or values that are no labels.
        """
        present = [label for label in label_values(as_array(mask)) if label != IGNORED_LABEL]
        if isinstance(self.distance, dict):
            return MoveContourParams({label: self.distance.get(label, 0.0) for label in present})
        return MoveContourParams(dict.fromkeys(present, self.distance))

    def apply_transform(self, mask: Mask, params: MoveContourParams, spacing: Sequence[float] | None = None) -> Mask:
        """Move the contours of a mask ``(H, W[, D])`` as `params` say; the input is kept.

        Args:
            mask: the annotation.
            params: how far.
            spacing: size of a pixel along each axis in millimetres; None moves by pixels.

        Raises:
            ValueError: when the mask has another number of axes, or the spacing does not fit it.
        """
        array = as_array(mask)
        return like(mask, _moved(array, params.distances, checked_spacing(array.shape, spacing)))

    def __call__(self, mask: Mask, spacing: Sequence[float] | None = None) -> Mask:
        """Return the mask ``(H, W[, D])`` with its contours moved; see :meth:`apply_transform`."""
        return self.apply_transform(mask, self.make_params(mask), spacing)


class MoveContourd(MapTransform):  # type: ignore[misc]
    """Dictionary version of :class:`MoveContour`.

    Masks may lead with a channel axis of length one, ``(1, H, W)`` or ``(1, H, W, D)``.

    Args:
        keys: keys of the masks.
        distance: see :class:`MoveContour`.
        spacing_key: key of the pixel's size along each axis in millimetres; None moves by pixels.
        allow_missing_keys: pass over a key that the data do not have.

    Example:
        >>> sample = {"label": np.pad(np.ones((10, 10), dtype=np.uint8), 10)}
        >>> moved = MoveContourd("label", -2)(sample)["label"]
        >>> int(moved.sum())
        36
    """

    def __init__(
        self,
        keys: KeysCollection,
        distance: float | Mapping[int, float],
        *,
        spacing_key: str | None = None,
        allow_missing_keys: bool = False,
    ) -> None:
        super().__init__(keys, allow_missing_keys)
        self.transform = MoveContour(distance)
        self.spacing_key = spacing_key

    def __call__(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the data with a moved mask under every key.

        Raises:
            ValueError: when a mask has more than one channel or its spacing does not fit; the message names the key.
        """
        result = dict(data)
        spacing = None if self.spacing_key is None else result[self.spacing_key]
        for key in self.key_iterator(result):
            try:
                result[key] = _without_channel(lambda mask: self.transform(mask, spacing), result[key])
            except ValueError as error:
                raise ValueError(f"Moved contours of {key!r}: {error}") from error
        return result


@dataclass
class _Moving:
    """One object on its way: the part of the image that it can reach.

    Attributes:
        label: its class.
        box: that part.
        original: its pixels there.
        height: signed distance to its contour less how far that moves, ``≤ 0`` where the object comes to lie.
    """

    label: int
    box: _Box
    original: Booleans
    height: Floats


def _moved(mask: Array, distances: Mapping[int, float], spacing: tuple[float, ...]) -> Array:
    """The mask with every contour moved; nothing is done where nothing moves."""
    if not any(distances.values()):
        return mask.copy()
    counted = np.where(mask == IGNORED_LABEL, 0, mask)
    objects = [
        item
        for label in label_values(counted)
        for item in _objects(counted == label, label, distances.get(label, 0.0), spacing)
    ]
    origin, owner, height = _owners(counted.shape, objects)
    becomes_background = (height > 0) & ~_still_foreground(counted, distances, spacing)
    owner[becomes_background] = 0
    _keep_apart(origin, owner, height, objects)
    moved = np.zeros_like(mask)
    for number, item in enumerate(objects, start=1):
        free = (owner[item.box] == 0) | (owner[item.box] == number)
        moved[item.box][_as_one(owner[item.box] == number, free, item)] = item.label
    moved[mask == IGNORED_LABEL] = IGNORED_LABEL
    return moved


def _objects(foreground: Booleans, label: int, distance: float, spacing: tuple[float, ...]) -> list[_Moving]:
    """The objects of a class with the heights that decide where they come to lie."""
    labelled, _ = label_lesions(foreground)
    result = []
    for number, inner in enumerate(ndimage.find_objects(labelled), start=1):
        box = grown_box(inner, _margins(distance, spacing), foreground.shape)
        inside = labelled[box] == number
        height = _distance_field(inside, {distance}, spacing) - distance
        # The contour is smoother than the mask: corners must not be cut where an object grows.
        height = np.where(inside, np.minimum(height, 0.0), height) if distance >= 0 else height
        height = np.where(inside, height, np.inf) if distance <= 0 else height
        result.append(_Moving(label, box, inside, height))
    return result


def _margins(distance: float, spacing: tuple[float, ...]) -> list[int]:
    """Pixels around an object that its contour may reach, and at least those that say where it runs."""
    return [max(0, math.ceil(distance / step)) + SURFACE_MARGIN for step in spacing]


def _distance_field(inside: Booleans, levels: Collection[float], spacing: tuple[float, ...]) -> Floats:
    """Signed distance to an object's contour: fine near the levels, within a pixel elsewhere."""
    if inside.all():
        # It fills the image and has no contour.
        return np.full(inside.shape, -np.inf)
    # The image's border is no contour.
    padded = np.pad(inside, 1, mode="edge")
    inner = (slice(1, -1),) * inside.ndim
    half = 0.5 * min(spacing)
    away, deep = (
        np.maximum(np.asarray(ndimage.distance_transform_edt(side, sampling=spacing))[inner] - half, 0.0)
        for side in (~padded, padded)
    )
    field = np.where(inside, -deep, away)
    near = np.any([np.abs(field - level) <= 1.5 * max(spacing) for level in levels], axis=0)
    places = (np.argwhere(near) * np.asarray(spacing)).astype(np.float64)
    field[near] = surface_of_mask(inside, spacing).signed_distances(places)
    return field


def _owners(shape: tuple[int, ...], objects: Sequence[_Moving]) -> tuple[Components, Components, Floats]:
    """Which object every pixel is of and which it lies deepest in, from 1, and how deep (negative).

    No object takes pixels of another one of its class: a small one could vanish in it.
    """
    origin, owner = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    given, lowest = np.zeros(shape, dtype=np.int32), np.full(shape, np.inf)
    for number, item in enumerate(objects, start=1):
        origin[item.box][item.original] = number
        given[item.box][item.original] = item.label
    for number, item in enumerate(objects, start=1):
        takes = (item.height < lowest[item.box]) & (item.original | (given[item.box] != item.label))
        lowest[item.box][takes] = item.height[takes]
        owner[item.box][takes] = number
    return origin, owner, lowest


def _still_foreground(counted: Array, distances: Mapping[int, float], spacing: tuple[float, ...]) -> Booleans:
    """Pixels that lie near another class only, not near the background: they stay foreground."""
    stays = np.zeros(counted.shape, dtype=bool)
    together, _ = label_lesions(counted)
    for number, inner in enumerate(ndimage.find_objects(together), start=1):
        box = grown_box(inner, _margins(0.0, spacing), counted.shape)
        inside = together[box] == number
        labels = label_values(np.where(inside, counted[box], 0))
        if len(labels) < 2:
            continue
        field = _distance_field(inside, {distances.get(label, 0.0) for label in labels}, spacing)
        for label in labels:
            stays[box] |= inside & (counted[box] == label) & (field <= distances.get(label, 0.0))
    return stays


def _keep_apart(origin: Components, owner: Components, height: Floats, objects: Sequence[_Moving]) -> None:
    """Take back, in place, what an object grew into touch with another one of its class."""
    labels = np.array([0, *(item.label for item in objects)])
    if len(set(labels.tolist())) == len(labels):
        return
    dropped = np.zeros(owner.shape, dtype=bool)
    # Beyond the image nothing is owned.
    owners, origins, heights = np.pad(owner, 1), np.pad(origin, 1), np.pad(height, 1)
    for shift in itertools.product((0, 1, 2), repeat=owner.ndim):
        window = tuple(slice(start, start + length) for start, length in zip(shift, owner.shape, strict=True))
        other = owners[window]
        touches = (other != owner) & (other != 0) & (owner != 0) & (labels[other] == labels[owner])
        dropped |= touches & (origin != owner) & ((origins[window] == other) | (heights[window] <= height))
    owner[dropped] = 0


def _as_one(own: Booleans, free: Booleans, item: _Moving) -> Booleans:
    """An object's pixels after moving, made one piece by a path through its deepest places."""
    pieces, _ = label_lesions(own)
    rooted = np.unique(pieces[item.original & own])
    if len(rooted) == 0:
        innermost = np.where(item.original, item.height, np.inf).argmin()
        return np.asarray(np.arange(own.size).reshape(own.shape) == innermost)
    sizes = ndimage.sum_labels(own, pieces, rooted)
    largest, *others = rooted[np.argsort(-sizes, kind="stable")]
    result = pieces == largest
    for piece in others:
        start = pieces == piece
        result = result | start | _path(start, result, (free & item.original) | result, item.height)
    return np.asarray(result)


def _path(start: Booleans, goal: Booleans, allowed: Booleans, height: Floats) -> Booleans:
    """The pixels of the path from a piece to the others that stays deepest; none where there is no path."""
    # scikit-image takes a second, and objects that fall apart are rare.
    from skimage.graph import MCP  # noqa: PLC0415

    # The fourth power keeps to the deepest places rather than to the shortest way.
    depth = np.where(allowed, height[allowed].max() - height, 0.0) + 1.0
    paths = MCP(np.where(allowed, (depth.max() / depth) ** 4, -1.0), fully_connected=True)
    costs, _ = paths.find_costs(np.argwhere(start))
    result = np.zeros_like(start)
    reached = np.where(goal, costs, np.inf)
    if np.isfinite(reached).any():
        end = np.unravel_index(reached.argmin(), reached.shape)
        result[tuple(np.array(paths.traceback(end)).T)] = True
    return result
