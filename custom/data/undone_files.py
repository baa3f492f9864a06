"""What a site has undone in the geometry of its own files, which may be larger than what the network sees."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy import ndimage

from ...transforms.array_types import Booleans, Classes
from ...transforms.connected_lesions import label_lesions
from ...transforms.errors import DataError
from ...transforms.move_contour import MoveContour
from .description import ImageDescription, SegmentationDescription, SliceDescription, read_site_description
from .json_record import JsonRecord
from .masks import Mask, annotated_axis
from .preparation import build_restoration
from .relabelled_objects import OtherClasses, relabelled_objects
from .undone import Undone


class IgnoredObject(JsonRecord):
    """An object that is probably missing in an annotation; no mask file can say so.

    Args:
        pixels: pixels or voxels of the file, of which training learns nothing.
        centre: their mean position, indices along the file's axes from 0.
    """

    pixels: int
    centre: tuple[float, ...]


def segmentation_description(data: Path, site: str) -> SegmentationDescription:
    """Read the description of a site whose annotations are masks.

    Raises:
        DataError: if it cannot be read, or the site has no masks.
    """
    try:
        description = read_site_description(data)
    except DataError as error:
        raise DataError(f"Site {site}: {error}") from error
    if not isinstance(description, SegmentationDescription):
        raise DataError(f"Site {site}: {data} has the pipeline {description.pipeline!r}; expected one with masks.")
    return description


def unit_of(description: SegmentationDescription) -> Literal["px", "mm"]:
    """Return the unit of a site's offsets: millimetres where files say them, else pixels of the network's images."""
    return "px" if isinstance(description, ImageDescription) else "mm"


def named_moves(undone: Undone, description: SegmentationDescription) -> dict[str, float]:
    """Return by how far the contours of each class were moved, positive outward, by the class's name."""
    names = dict(enumerate(description.classes, start=1))
    return {names.get(label, f"class {label}"): distance for label, distance in undone.moves.items()}


def moved_in_file(mask: Mask, moves: Mapping[int, float], description: SegmentationDescription) -> Classes:
    """Return the classes of a mask file, in its shape, with their contours moved as in training.

    Distances are those of training: millimetres, or pixels of the network's images, however large those of the file
    are. In volumes that are trained on slice by slice, each slice moves by itself. What training crops off moves, too.

    Args:
        mask: the given classes.
        moves: by label, by how far, positive outward.
        description: the site's description.
    """
    move, spacing = MoveContour(moves), _spacing(mask, description)
    moved = np.empty_like(mask.classes)
    for axis, part in _samples(mask, description):
        steps = [step for index, step in enumerate(spacing) if index != axis]
        moved[part] = move(mask.classes[part], steps)
    return moved


def ignored_in_file(
    pixels: Booleans, image: Path, label: Path, moved: Mask, description: SegmentationDescription
) -> tuple[IgnoredObject, ...]:
    """Return the ignored objects of an annotation in the geometry of its file, those of slices by themselves.

    Args:
        pixels: those that training ignores ``(S, H, W[, D])``.
        image: the case's image.
        label: the given annotation.
        moved: the annotation that counts, in the file's geometry; only its background is ignored.
        description: the site's description.

    Raises:
        DataError: if a file cannot be read, or the pixels are not those of the image as the description has it.
    """
    placed = _in_file(pixels.astype(np.uint8), image, label, moved, description) != 0
    placed &= moved.classes == 0
    found = []
    for axis, part in _samples(moved, description):
        labelled, count = label_lesions(placed[part])
        sizes = np.bincount(labelled.ravel(), minlength=count + 1)[1:]
        middles = np.array(ndimage.center_of_mass(placed[part], labelled, np.arange(1, count + 1)))
        for size, middle in zip(sizes.tolist(), middles.tolist(), strict=True):
            centre = [round(mean, 1) for mean in middle]
            if axis is not None:
                centre.insert(axis, float(part[axis]))
            found.append(IgnoredObject(pixels=size, centre=tuple(centre)))
    return tuple(found)


def relabelled_in_file(
    mask: Mask, other: OtherClasses, image: Path, label: Path, description: SegmentationDescription
) -> tuple[Classes, int]:
    """Return the classes of a mask file, in its shape, with the objects of another class as in training.

    How many they are is returned, too; those of slices count by themselves.

    Args:
        mask: the given classes.
        other: what was decided ``(S, H, W[, D])``, see :func:`fedannot.custom.data.relabelled_objects`.
        image: the case's image.
        label: the given annotation.
        description: the site's description.

    Raises:
        DataError: as :func:`ignored_in_file`.
    """
    placed = OtherClasses(*(_in_file(pixels, image, label, mask, description) for pixels in other))
    # What the network's image cuts off has no say in what an object is.
    seen = _in_file(np.ones_like(other.given), image, label, mask, description) != 0
    relabelled, total = np.empty_like(mask.classes), 0
    for _, part in _samples(mask, description):
        decided = OtherClasses(*(pixels[part] for pixels in placed))
        relabelled[part], count = relabelled_objects(mask.classes[part], decided, seen[part])
        total += count
    return relabelled, total


def _in_file(pixels: Classes, image: Path, label: Path, mask: Mask, description: SegmentationDescription) -> Classes:
    """Pixels of training ``(S, H, W[, D])`` in the geometry of a case's file."""
    if isinstance(description, ImageDescription) and pixels.shape[1:] != description.size:
        raise DataError(
            f"{label}: what was undone in it is of an image of {pixels.shape[1:]}; expected {description.size}. "
            "The site's description has changed since."
        )
    try:
        placed = np.asarray(build_restoration(description)(image, label, torch.from_numpy(pixels)))
    except ValueError as error:
        raise DataError(f"{label}: what was undone in it does not fit it: {error}") from error
    if placed.shape != mask.classes.shape:
        raise DataError(f"{label}: found the shape {mask.classes.shape}; expected that of its image, {placed.shape}.")
    return placed


def _samples(mask: Mask, description: SegmentationDescription) -> Iterator[tuple[int | None, tuple[Any, ...]]]:
    """Where in a file the samples lie, and the axis across which it is cut: its slices, or all of it."""
    whole = (slice(None),) * mask.classes.ndim
    if not isinstance(description, SliceDescription):
        yield None, whole
        return
    axis = annotated_axis(mask, description)
    for index in range(mask.classes.shape[axis]):
        yield axis, (*whole[:axis], index, *whole[axis + 1 :])


def _spacing(mask: Mask, description: SegmentationDescription) -> tuple[float, ...]:
    """Size of a pixel of the file along its axes: in millimetres, or in pixels of the network's images."""
    if mask.affine is not None:
        # Only volumes need nibabel.
        from ...transforms.loading.volume_files import voxel_spacing  # noqa: PLC0415

        return voxel_spacing(mask.affine)
    assert isinstance(description, ImageDescription)
    from ...transforms.loading.fitting import scaled_extents  # noqa: PLC0415

    scaled = scaled_extents(mask.classes.shape, description.size, description.fit)
    return tuple(wanted / found for wanted, found in zip(scaled, mask.classes.shape, strict=True))
