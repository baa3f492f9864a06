"""Segments that are named as classes are these classes, whatever numbers a program gave them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...transforms.errors import DataError
from ...transforms.loading.other_volumes import segment_names
from ...transforms.loading.volume_files import Volume
from .class_names import name_key

# By the name of a segment its value in a mask.
SegmentValues = tuple[tuple[str, int], ...]


def named_segments(source: Path, mask: Volume) -> SegmentValues:
    """Return the segments of a mask's file with their values there, of those that have a voxel; empty without names.

    Raises:
        DataError: if the header cannot be read.
    """
    names = segment_names(source)
    if not names:
        return ()
    present = set(np.unique(mask.voxels).tolist())
    return tuple((name, value) for value, name in sorted(names.items()) if value in present)


def by_names(
    file: Path, mask: Volume, segments: SegmentValues, classes: Sequence[str], labels: Mapping[int, int]
) -> Volume:
    """Return a mask in which segments that are named as classes have the values of these; itself where they do.

    Who draws the tumour second gives it the value 2, and the name of the first class all the same.

    Args:
        file: the mask's file, to name in an error.
        mask: its values.
        segments: what its file calls them, see :func:`named_segments`.
        classes: of the data.
        labels: value in a mask → class.

    Raises:
        DataError: if the values of classes are exchanged, and another segment has one of them.
    """
    number_of = {name_key(name): number for number, name in enumerate(classes, start=1)}
    value_of = {label: value for value, label in sorted(labels.items(), reverse=True)}
    wanted = {
        value: value_of[number]
        for name, value in segments
        if (number := number_of.get(name_key(name))) in value_of and labels.get(value) != number
    }
    if not wanted:
        return mask
    for name, value in segments:
        if name_key(name) not in number_of and labels.get(value):
            own = next(other for other, number in segments if number == min(wanted))
            raise DataError(
                f"{file}: found the segment {own!r} with the value {min(wanted)}, which is not its class's, and the "
                f"segment {name!r} with the value {value} of the class {classes[labels[value] - 1]!r}; expected "
                "segments with the names of classes, or the values of classes. Rename the segments, or save them in "
                "the order of the classes."
            )
    voxels = mask.voxels.copy()
    for value, target in wanted.items():
        voxels[mask.voxels == value] = target
    return replace(mask, voxels=voxels)
