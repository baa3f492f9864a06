"""Corrected annotations in the geometry of a site's own files, which may be larger than what the network sees."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy import ndimage

from ...transforms.array_types import Array, Booleans, Classes
from ...transforms.connected_lesions import label_lesions
from ...transforms.errors import DataError
from ..data.datalist import TRAINING, read_datalist
from ..data.description import (
    ImageDescription,
    SegmentationDescription,
    SliceDescription,
    VolumeDescription,
    read_site_description,
)
from ..data.json_record import JsonRecord
from ..data.masks import Mask, annotated_axis
from ..data.preparation import build_restoration
from .kinds import MaskShift, PixelsRelabelled, PixelsReplaced, Purpose, Sample
from .model import Corrections, moves_of
from .pixels import CasePixels, OtherClasses
from .store import StoredCorrections
from .targets import corrected_sample


class IgnoredObject(JsonRecord):
    """An object that is probably missing in an annotation; no mask file can say so.

    Args:
        pixels: pixels or voxels of the file, of which training learns nothing.
        centre: their mean position, indices along the file's axes from 0.
    """

    pixels: int
    centre: tuple[float, ...]


@dataclass(frozen=True)
class CorrectedFile:
    """A corrected annotation in the geometry of its file.

    Attributes:
        classes: in the shape of the file.
        relabelled: number of relabelled objects; those of slices count by themselves.
        ignored: ignored objects, as above.
    """

    classes: Classes
    relabelled: int
    ignored: tuple[IgnoredObject, ...]


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


def pixels_in_use(stored: StoredCorrections, description: SegmentationDescription) -> dict[str, CasePixels]:
    """Return the decisions on pixels by given annotation, without those that do not count any more.

    Where a prediction took the place of single pixels, a case that has been reviewed since counts as it is.

    Raises:
        DataError: if the decisions or the datalist cannot be read.
    """
    pixels = stored.pixels(len(description.classes))
    if all(stored.corrections.of(kind) is None for kind in (PixelsRelabelled, PixelsReplaced)):
        return pixels
    data = Path(stored.corrections.data)
    for case in read_datalist(data / description.datalist).section(TRAINING):
        if case.is_reviewed:
            pixels.pop(os.path.relpath(case.label if isinstance(case.label, Path) else case.image, data), None)
    return pixels


def unit_of(description: SegmentationDescription) -> Literal["px", "mm"]:
    """Return the unit of a site's distances: millimetres where files say them, else pixels of the network's images."""
    return "px" if isinstance(description, ImageDescription) else "mm"


def shift_of(corrections: Corrections) -> tuple[float, ...]:
    """Return by how much all annotations are moved along each axis of a training sample; empty where they are not."""
    shift = corrections.of(MaskShift)
    return () if shift is None else shift.moves


def named_moves(corrections: Corrections, description: SegmentationDescription) -> dict[str, float]:
    """Return the distance by which contours of each class were moved, positive outward, by the class's name."""
    names = dict(enumerate(description.classes, start=1))
    return {names.get(label, f"class {label}"): distance for label, distance in moves_of(corrections).items()}


def corrected_in_file(
    corrections: Corrections,
    pixels: CasePixels,
    mask: Mask,
    image: Path,
    label: Path,
    description: SegmentationDescription,
) -> CorrectedFile:
    """Return a mask file's classes with all corrections as in training.

    Distances are those of training: millimetres, or pixels of the network's images, however large those of the file
    are. In volumes that are trained on slice by slice, each slice is corrected by itself. What training crops
    off moves, too.

    Args:
        corrections: the site's.
        pixels: the decisions on the annotation's pixels as training sees them ``(S, H, W[, D])``.
        mask: the given classes.
        image: the case's image.
        label: the given annotation.
        description: the site's description.

    Raises:
        DataError: if a file cannot be read, or the pixels are not those of the image as the description has it.
    """

    def placed(decided: Array) -> Classes:
        return _in_file(decided.astype(np.uint8), image, label, mask, description)

    replaced = None if pixels.replaced is None else np.stack([placed(of_class) for of_class in pixels.replaced])
    in_file = CasePixels(replaced=replaced)
    if pixels.relabelled is not None:
        # What the network's image cuts off has no say in what an object is.
        in_file = CasePixels(
            relabelled=OtherClasses(*map(placed, pixels.relabelled)),
            seen=placed(np.ones_like(pixels.relabelled.given)) != 0,
            replaced=replaced,
        )
    classes, spacing, relabelled = np.empty_like(mask.classes), _spacing(mask, description), 0
    for axis, part in _samples(mask, description):
        steps = tuple(step for index, step in enumerate(spacing) if index != axis)
        sample = Sample(mask.classes[part], steps, in_file.of_sample(part), training_axes(mask, description))
        classes[part], count = corrected_sample(corrections, sample, Purpose.EXPORT)
        relabelled += count
    ignored: tuple[IgnoredObject, ...] = ()
    if pixels.ignored is not None:
        ignored = _ignored_objects((placed(pixels.ignored) != 0) & (classes == 0), mask, description)
    return CorrectedFile(classes, relabelled, ignored)


def _ignored_objects(pixels: Booleans, mask: Mask, description: SegmentationDescription) -> tuple[IgnoredObject, ...]:
    """The connected parts of ignored pixels of a file."""
    objects = []
    for axis, part in _samples(mask, description):
        labelled, count = label_lesions(pixels[part])
        sizes = np.bincount(labelled.ravel(), minlength=count + 1)[1:]
        middles = np.array(ndimage.center_of_mass(pixels[part], labelled, np.arange(1, count + 1)))
        for size, middle in zip(sizes.tolist(), middles.tolist(), strict=True):
            centre = [round(mean, 1) for mean in middle]
            if axis is not None:
                centre.insert(axis, float(part[axis]))
            objects.append(IgnoredObject(pixels=size, centre=tuple(centre)))
    return tuple(objects)


def _in_file(pixels: Classes, image: Path, label: Path, mask: Mask, description: SegmentationDescription) -> Classes:
    """Pixels of training ``(S, H, W[, D])`` in the geometry of a case's file."""
    if isinstance(description, ImageDescription) and pixels.shape[1:] != description.size:
        raise DataError(
            f"{label}: the corrections are of an image of {pixels.shape[1:]}; expected {description.size}. "
            "The site's description has changed since."
        )
    try:
        placed = np.asarray(build_restoration(description)(image, label, torch.from_numpy(pixels)))
    except ValueError as error:
        raise DataError(f"{label}: the corrections do not fit it: {error}") from error
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


def training_axes(mask: Mask, description: SegmentationDescription) -> tuple[tuple[int, int], ...] | None:
    """Return along which axis of a training sample each axis of a file's sample runs, and in which direction.

    Args:
        mask: as it lies in its file.
        description: the site's.

    Returns:
        See :attr:`.kinds.Sample.axes`; None for pictures, whose axes stay.
    """
    if mask.affine is None or not isinstance(description, SliceDescription | VolumeDescription):
        return None
    # Only volumes need nibabel.
    from nibabel.orientations import axcodes2ornt, io_orientation, ornt_transform  # noqa: PLC0415

    ways = ornt_transform(io_orientation(mask.affine), axcodes2ornt(description.orientation))
    axes = [(int(axis), int(sign)) for axis, sign in ways]
    if not isinstance(description, SliceDescription):
        return tuple(axes)
    cut = description.slice_axis
    return tuple((axis - (axis > cut), sign) for axis, sign in axes if axis != cut)


def _spacing(mask: Mask, description: SegmentationDescription) -> tuple[float, ...]:
    """Size of a pixel of the file along its axes: in millimetres, or in pixels of the network's images."""
    if mask.affine is not None:
        # Only volumes need nibabel.
        from ...transforms.loading.volume_geometry import voxel_spacing  # noqa: PLC0415

        return voxel_spacing(mask.affine)
    assert isinstance(description, ImageDescription)
    from ...transforms.loading.fitting import scaled_extents  # noqa: PLC0415

    scaled = scaled_extents(mask.classes.shape, description.size, description.fit)
    return tuple(wanted / found for wanted, found in zip(scaled, mask.classes.shape, strict=True))
