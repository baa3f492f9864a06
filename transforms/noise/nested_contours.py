"""The contours of a mask: around everything that touches, and inside that around the classes that others enclose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import ndimage

from ..array_types import Array, Booleans, Indices, Labels
from ..contours import PlaneObject, Region, plane_objects
from ..mask_arrays import label_values

# A class faces the outside if at least this fraction of its outline does.
_FACING = 0.5


@dataclass(frozen=True)
class Contour:
    """One closed contour.

    Attributes:
        label: label value inside it, or around it if it is that of a hole.
        region: what it encloses.
        area: pixels of its object, or of the hole if that has fewer.
    """

    label: int
    region: Region
    area: int


@dataclass(frozen=True)
class InnerClasses:
    """A class and those inside it, in the window of a structure.

    Attributes:
        pixels: the clean pixels, boolean ``(h, w)``.
        objects: the same, which go on outside the structure as far as the window reaches, so that a contour between two
            classes is a contour on both sides of the structure's outline.
    """

    pixels: Booleans
    objects: tuple[PlaneObject, ...]


@dataclass(frozen=True)
class Structure:
    """What touches in one slice: an object of one class, or of several next to or inside each other.

    Attributes:
        slice_index: its slice along the last axis, 0 in two dimensions.
        labels: its classes' label values, the outermost first.
        outline: all classes together, in the plane.
        window: part of the plane that holds everything to which the structure may grow.
        inner: for every class but the outermost, it and those inside it.
    """

    slice_index: int
    labels: tuple[int, ...]
    outline: PlaneObject
    window: tuple[slice, slice]
    inner: tuple[InnerClasses, ...] = ()

    @property
    def contours(self) -> Iterator[Contour]:
        """Every contour: the outline, then class by class inwards; each object's before those of its holes."""
        groups = ((self.outline,), *(classes.objects for classes in self.inner))
        for label, objects in zip(self.labels, groups, strict=True):
            for item in objects:
                for region in item.regions:
                    yield Contour(label, region, min(region.area, item.outer.area))


@dataclass(frozen=True)
class MaskContours:
    """The contours of a mask.

    Attributes:
        labels: its label values, the outermost class first.
        structures: slice by slice; in a slice by the outermost class, then by position.
    """

    labels: tuple[int, ...]
    structures: tuple[Structure, ...]


def mask_contours(mask: Array, reach: float) -> MaskContours:
    """Find the contours of a mask ``(H, W[, D])`` of whole numbers, volumes slice by slice along the last axis.

    Eight-connected pixels touch. Which class encloses which is decided for the whole mask, so that it is the same in
    all slices.

    Args:
        mask: the mask.
        reach: pixels by which contours move at most.

    Raises:
        ValueError: when a value is no label.
    """
    planes = mask[..., None] if mask.ndim == 2 else mask
    labels = tuple(outermost_first(planes))
    structures: list[Structure] = []
    for index in range(planes.shape[2]):
        result = [_structure(planes[:, :, index], index, item, labels, reach) for item in _objects(planes, index)]
        structures += sorted(result, key=lambda structure: labels.index(structure.labels[0]))
    return MaskContours(labels, tuple(structures))


def outermost_first(planes: Array) -> list[int]:
    """Return the label values of slices ``(H, W, D)``, the outermost class first.

    The next class is the one with the smallest value among those of whose outline at least half faces the background
    or a class that came before, or if none does, the one with the largest share.

    Raises:
        ValueError: when a value is no label.
    """
    labels = label_values(planes)
    if len(labels) < 2:
        return labels
    faces = _faces(np.searchsorted([0, *labels], planes), len(labels) + 1)
    outside, order = [0], []
    remaining = list(range(1, len(labels) + 1))
    while remaining:
        shares = [faces[item, outside].sum() / max(faces[item].sum(), 1) for item in remaining]
        facing = [one for one, share in zip(remaining, shares, strict=True) if share >= _FACING]
        chosen = facing[0] if facing else remaining[int(np.argmax(shares))]
        order.append(labels[chosen - 1])
        outside.append(chosen)
        remaining.remove(chosen)
    return order


def pixels_of(item: PlaneObject, plane_shape: tuple[int, int]) -> Booleans:
    """Return the pixels of an object without its holes, boolean in its plane."""
    pixels = np.zeros(plane_shape, dtype=bool)
    for region in item.regions:
        pixels[_box(region)][region.pixels] = not region.is_hole
    return pixels


def in_own_box(item: PlaneObject) -> PlaneObject:
    """Return an object in a plane that is its own box."""
    row, column = item.outer.corner

    def moved(region: Region) -> Region:
        return replace(region, corner=(region.corner[0] - row, region.corner[1] - column))

    return PlaneObject(moved(item.outer), tuple(moved(hole) for hole in item.holes))


def _faces(ranks: Indices, count: int) -> Labels:
    """How many sides of pixels each pair of values shares in its slices, ``(count, count)``, on the diagonal none."""
    faces = np.zeros(count * count, dtype=np.int64)
    for first, second in ((ranks[1:], ranks[:-1]), (ranks[:, 1:], ranks[:, :-1])):
        differ = first != second
        faces += np.bincount(first[differ] * count + second[differ], minlength=count * count)
    square = faces.reshape(count, count)
    return np.asarray(square + square.T)


def _objects(planes: Array, index: int) -> Iterator[PlaneObject]:
    return plane_objects(planes[:, :, index] != 0)


def _structure(plane: Array, slice_index: int, item: PlaneObject, labels: tuple[int, ...], reach: float) -> Structure:
    box = _box(item.outer)
    # What lies in a hole is another structure.
    inside = pixels_of(in_own_box(item), item.outer.pixels.shape)
    own = [label for label in labels if np.any(plane[box][inside] == label)]
    if len(own) == 1:
        return Structure(slice_index, tuple(own), item, box)
    margin = 2 + math.ceil(reach)
    window = tuple(
        slice(max(side.start - margin, 0), min(side.stop + margin, length))
        for side, length in zip(box, plane.shape, strict=True)
    )
    ranks = np.full([side.stop - side.start for side in window], -1)
    corner = tuple(
        slice(side.start - around.start, side.stop - around.start) for side, around in zip(box, window, strict=True)
    )
    for rank, label in enumerate(own):
        ranks[corner][inside & (plane[box] == label)] = rank
    inner = tuple(_inner_classes(ranks, rank) for rank in range(1, len(own)))
    return Structure(slice_index, tuple(own), item, (window[0], window[1]), inner)


def _inner_classes(ranks: Labels, rank: int) -> InnerClasses:
    """The classes from a rank on, inside the one before; outside both a pixel is taken for its nearest one's class."""
    rows, columns = ndimage.distance_transform_edt(ranks < rank - 1, return_distances=False, return_indices=True)
    pixels = ranks >= rank
    objects = [
        replace(item, outer=replace(item.outer, area=int(pixels[pixels_of(item, ranks.shape)].sum())))
        for item in plane_objects(ranks[rows, columns] >= rank)
    ]
    return InnerClasses(pixels, tuple(objects))


def _box(region: Region) -> tuple[slice, slice]:
    rows, columns = (
        slice(start, start + length) for start, length in zip(region.corner, region.pixels.shape, strict=True)
    )
    return rows, columns
