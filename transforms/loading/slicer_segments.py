"""Segmentations of 3D Slicer (``.seg.nrrd``) with several layers: each segment is a value in one of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..array_types import Array, Floats, Labels
from ..data_error import DataError

SEGMENTATION_SUFFIX = ".seg.nrrd"

_SEGMENT = re.compile(r"Segment(\d+)_LabelValue")


@dataclass(frozen=True)
class Segmentation:
    """A file of segments as it is stored.

    Attributes:
        layers: values ``(I, J, K, L)``; the file may be cut to a box around what is annotated.
        affine: ``(4, 4)`` from its voxels to millimetres, axes to the right, front and top.
        segments: that its header names.
    """

    layers: Array
    affine: Floats
    segments: tuple["Segment", ...]

    @property
    def is_empty(self) -> bool:
        """Whether it is what 3D Slicer saves where no segment has a voxel: one voxel, whose place says nothing."""
        return self.layers.shape[:3] == (1, 1, 1) and not self.layers.any()


@dataclass(frozen=True)
class Segment:
    """A segment.

    Attributes:
        number: from 1, in the order of the file.
        name: what it is called.
        layer: the layer that it lies in.
        value: its value there.
        identity: its ID in the file; empty where it has none.
    """

    number: int
    name: str
    layer: int
    value: int
    identity: str = ""


def segments_of(tags: Mapping[str, str]) -> list[Segment]:
    """Return the segments that a header names, in their order.

    Raises:
        ValueError: if a value or a layer is no number.
    """
    numbers = sorted(int(result[1]) for tag in tags if (result := _SEGMENT.fullmatch(tag)))
    return [
        Segment(
            number=number + 1,
            name=tags.get(f"Segment{number}_Name", f"segment {number + 1}"),
            layer=int(tags.get(f"Segment{number}_Layer", 0)),
            value=int(tags[f"Segment{number}_LabelValue"]),
            identity=tags.get(f"Segment{number}_ID", ""),
        )
        for number in numbers
    ]


def have_own_values(segments: Sequence[Segment]) -> bool:
    """Return whether no two segments have the same value, so that values tell them apart in one mask."""
    return len({segment.value for segment in segments}) == len(segments)


def united_layers(file: Path, layers: Array, segments: Sequence[Segment]) -> Labels:
    """Return one mask of several layers: the values of the segments, or their numbers where values are the same.

    Args:
        file: the file, to name in an error.
        layers: values ``(I, J, K, L)``.
        segments: in the layers.

    Raises:
        DataError: if a voxel lies in two segments, or in a layer and in no segment.
    """
    are_values = have_own_values(segments)
    result = np.zeros(layers.shape[:3], dtype=np.int64)
    named = np.zeros(layers.shape, dtype=bool)
    for segment in segments:
        if not 0 <= segment.layer < layers.shape[3]:
            continue
        inside = layers[..., segment.layer] == segment.value
        if (result[inside] != 0).any():
            raise DataError(
                f"{file}: found {np.count_nonzero(result[inside])} voxels of the segment {segment.name!r} in other "
                "segments, too; expected every voxel in one. Save the segments without overlap, or one in each file."
            )
        result[inside] = segment.value if are_values else segment.number
        named[..., segment.layer] |= inside
    if lost := int(np.count_nonzero((layers != 0) & ~named)):
        raise DataError(
            f"{file}: found {lost} voxels in {layers.shape[3]} layers that belong to none of its "
            f"{len(segments)} segments; expected a segment for each. Save the segmentation again."
        )
    return result
