"""The regions of a structure set as a mask on the voxels of their image.

A voxel belongs to a region if a ray from its centre crosses the region's contours in the slice an odd number of times,
or a contour passes through its centre. So a contour inside another one bounds a hole.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from skimage.measure import grid_points_in_poly

from ...transforms.array_types import Array, Booleans, Floats, Labels
from ...transforms.errors import DataError
from ...transforms.loading.dicom_header import SeriesIdentity
from ...transforms.loading.volume_files import Volume
from .class_names import name_key
from .structure_sets import Region, StructureSet, read_structure_set, shown_names

# Fraction of the step between slices by which a contour may leave its slice.
_TOLERANCE = 0.1
# Voxels by which a contour may leave its image: those of a body run along the edge.
_LARGEST_OUTSIDE = 1.0
# Places are rounded to this many digits of a voxel, so that contours through centres of voxels pass through them.
_DIGITS = 3
_FEWEST_SLICES = 3


@dataclass(frozen=True)
class ContourFacts:
    """What became of a structure set.

    Attributes:
        others: regions that no class names.
        absent: classes that no region with closed contours names; they are background.
        num_ignored: contours of the chosen regions that enclose nothing, such as open ones and points.
        num_overlapping: voxels that lie in the regions of two classes; the later class has them.
    """

    others: tuple[str, ...]
    absent: tuple[str, ...]
    num_ignored: int
    num_overlapping: int


def mask_of_contours(
    source: Path, image: Volume, labels: Mapping[str, int], series: SeriesIdentity | None = None
) -> tuple[Labels, ContourFacts]:
    """Draw the regions of a structure set on the voxels of its image.

    Args:
        source: the structure set.
        image: its image.
        labels: name of a region → value in the mask, the class that wins where regions overlap last.
        series: identity of the image, None if it is no DICOM.

    Returns:
        Label values with the shape of the image, 0 for background; and what became of the regions.

    Raises:
        DataError: if the file cannot be read or names none of the regions; or contours belong to another series or
            frame of reference, lie between or outside the slices of the image, or cut each other.
    """
    structures = read_structure_set(source, labels)
    regions = {label: region for name, label in labels.items() if (region := _region(source, name, structures))}
    if not regions:
        raise DataError(
            f"{source}: found the regions {shown_names(structures.names)} and no closed contour of "
            f"{', '.join(labels)}; expected at least one class with the name of a region: --classes NAME,…"
        )
    _check_series(source, structures, [*regions.values()], series)
    axis = _slice_axis(source, [*regions.values()], image)
    result = np.zeros(image.voxels.shape, dtype=np.min_scalar_type(max(labels.values())))
    overlapping = np.zeros(image.voxels.shape, dtype=bool)
    for label, region in regions.items():
        _draw(source, region, label, image, axis, (result, overlapping))
    _check_visible(source, regions, result)
    names = {name_key(name) for name in labels}
    others = tuple(name for name in structures.names if name_key(name) not in names)
    absent = tuple(name for name, label in labels.items() if label not in regions)
    num_ignored = sum(region.num_ignored for region in structures.regions)
    facts = ContourFacts(others, absent, num_ignored, int(np.count_nonzero(overlapping)))
    return result.astype(np.int64), facts


def check_classes_are_drawn(facts: Sequence[ContourFacts]) -> None:
    """Check that each class is the name of a region in a structure set of an import at least.

    Raises:
        DataError: if a class is in none of them.
    """
    absent = [name for name in facts[0].absent if all(name in own.absent for own in facts)] if facts else []
    if absent:
        others = list(dict.fromkeys(name for own in facts for name in own.others))
        raise DataError(
            f"--classes: found {shown_names(absent)}, of which no structure set has closed contours; other regions are "
            f"{shown_names(others)}. Give the names as the structure sets have them."
        )


def _region(source: Path, name: str, structures: StructureSet) -> Region | None:
    """The region with closed contours that a class names, None if there is none."""
    known = [region for region in structures.regions if name_key(region.name) == name_key(name) and region.contours]
    if len(known) > 1:
        raise DataError(
            f"{source}: found {len(known)} regions {name!r} with contours, of the numbers "
            f"{', '.join(str(region.number) for region in known)}; expected one. Rename or remove the others."
        )
    return known[0] if known else None


def _check_series(
    source: Path, structures: StructureSet, regions: Sequence[Region], series: SeriesIdentity | None
) -> None:
    if series is None:
        return
    if structures.series and series.series and series.series not in structures.series:
        raise DataError(
            f"{source}: found contours of the series {', '.join(sorted(structures.series))}; expected those of its "
            f"image, {series.series}. Put the structure set beside the series that it was drawn on."
        )
    for region in regions:
        known = region.frame_of_reference, series.frame_of_reference
        if all(known) and known[0] != known[1]:
            raise DataError(
                f"{source}: found {region.name!r} in the frame of reference {known[0]}; expected that of its image, "
                f"{known[1]}. Export the structure set for this series."
            )


def _on_voxels(contour: Floats, image: Volume) -> Floats:
    """The points ``(n, 3)`` of a contour along the axes of the image, in voxels."""
    to_voxels = np.linalg.inv(image.affine)
    places: Floats = np.round(contour @ to_voxels[:3, :3].T + to_voxels[:3, 3], _DIGITS)
    return places


def _slice_axis(source: Path, regions: Sequence[Region], image: Volume) -> int:
    """The axis of the image across whose slices all contours lie, each in one of them."""
    shape = np.array(image.voxels.shape)
    worst, outside = np.zeros(3), np.full(3, -np.inf)
    for region in regions:
        for contour in region.contours:
            places = _on_voxels(contour, image)
            worst = np.maximum(worst, np.abs(places - np.rint(np.median(places, axis=0))).max(axis=0))
            outside = np.maximum.reduce([outside, -0.5 - places.min(axis=0), places.max(axis=0) - (shape - 0.5)])
    axis = int(worst.argmin())
    if (outside > np.where(np.arange(3) == axis, 0.0, _LARGEST_OUTSIDE)).any():
        raise DataError(
            f"{source}: found contours up to {outside.max():.3g} voxels outside of the image; expected a structure set "
            "of this image, as it is."
        )
    if worst[axis] > _TOLERANCE:
        raise DataError(
            f"{source}: found contours up to {worst[axis]:.2g} slices off the slices of the image; expected each "
            "contour in one slice. Take the series that they were drawn on, or export the structure set for this one."
        )
    return axis


def _draw(source: Path, region: Region, label: int, image: Volume, axis: int, drawn: tuple[Array, Booleans]) -> None:
    """Draw a region into a mask, and mark the voxels that another class had."""
    by_slice: dict[int, list[Floats]] = defaultdict(list)
    for contour in region.contours:
        places = _on_voxels(contour, image)
        by_slice[int(np.rint(np.median(places[:, axis])))].append(np.delete(places, axis, axis=1))
    _check_steps(source, region, sorted(by_slice))
    mask, overlapping = (np.moveaxis(array, axis, 0) for array in drawn)
    count = 0
    for number, contours in by_slice.items():
        inside = _filled(source, region, contours, mask.shape[1:])
        count += int(np.count_nonzero(inside))
        overlapping[number] |= inside & (mask[number] != 0)
        mask[number][inside] = label
    if not count:
        raise DataError(
            f"{source}: found contours of {region.name!r} around no centre of a voxel; expected a region as large as a "
            "voxel at least."
        )


def _check_steps(source: Path, region: Region, slices: Sequence[int]) -> None:
    """Check that a region is not drawn in every second or third slice alone: the others would be background."""
    if len(slices) < _FEWEST_SLICES:
        return
    step = int(np.diff(slices).min())
    if step > 1:
        raise DataError(
            f"{source}: found contours of {region.name!r} in {len(slices)} slices, {step} or more apart; expected them "
            "in neighbouring slices, too. Interpolate them where they were drawn, or take the series with these slices."
        )


def _filled(source: Path, region: Region, contours: Sequence[Floats], shape: tuple[int, ...]) -> Booleans:
    """The voxels of a slice that belong to a region with these contours ``(n, 2)``."""
    odd, edge = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    # Which contour a voxel lies in, the innermost.
    owner = np.zeros(shape, dtype=np.int32)
    marked = [(_box(contour, shape), contour) for contour in contours]
    marks = [
        (box, grid_points_in_poly(_extents(box), contour - _corner(box), binarize=False)) for box, contour in marked
    ]
    marks.sort(key=lambda own: -int(np.count_nonzero(own[1] == 1)))
    for number, (box, points) in enumerate(marks, start=1):
        inside = points == 1
        if len(np.unique(owner[box][inside])) > 1:
            raise DataError(
                f"{source}: found contours of {region.name!r} that cut each other in a slice; expected contours inside "
                "each other, as around a hole, or apart. Correct the region, or export it again."
            )
        owner[box][points > 0] = number
        odd[box] ^= inside
        edge[box] |= points > 1
    result: Booleans = odd | edge
    return result


def _box(contour: Floats, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The voxels around a contour."""
    low = np.clip(np.floor(contour.min(axis=0)), 0, shape).astype(int)
    high = np.clip(np.ceil(contour.max(axis=0)) + 1, 0, shape).astype(int)
    return tuple(slice(first, max(last, first)) for first, last in zip(low, high, strict=True))


def _extents(box: tuple[slice, ...]) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in box)


def _corner(box: tuple[slice, ...]) -> Floats:
    return np.array([part.start for part in box], dtype=np.float64)


def _check_visible(source: Path, regions: Mapping[int, Region], mask: Array) -> None:
    """Check that no region vanishes below that of a later class."""
    shown = set(np.unique(mask).tolist())
    hidden = [region.name for label, region in regions.items() if label not in shown]
    if hidden:
        raise DataError(
            f"{source}: found {shown_names(hidden)} covered by the regions of later classes; expected a part of each. "
            "Name the inner region last in --classes, or leave one out."
        )
