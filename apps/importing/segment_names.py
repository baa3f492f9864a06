"""Segments that are named as classes are these classes, whatever numbers a program gave them."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...transforms.errors import DataError
from ...transforms.loading.other_volumes import segment_names
from ...transforms.loading.volume_files import Volume
from .class_names import name_key
from .reading import Reading

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


def by_names(file: Path, mask: Volume, segments: SegmentValues, reading: Reading) -> Volume:
    """Return a mask in which segments that are named as classes have the values of these; itself where they do.

    Who draws the second class first gives it the value 1, and its name all the same.

    Args:
        file: the mask's file, to name in an error.
        mask: its values.
        segments: what its file calls them, see :func:`named_segments`.
        reading: what a person said of classes and values.

    Raises:
        DataError: if the values of classes are exchanged, and a segment that is no class has one of them.
    """
    labels = reading.labels
    value_of = {name_key(name): value for name, value in reading.values_of_classes.items()}
    wanted = {
        value: target
        for name, value in segments
        if (target := value_of.get(name_key(name))) is not None and labels.get(value) != labels[target]
    }
    if not wanted:
        return mask
    names = {value: name for name, value in segments}
    if others := [value for value, name in names.items() if name_key(name) not in value_of and labels.get(value)]:
        first, other = min(wanted), others[0]
        raise DataError(
            f"{file}: found the segment {names[first]!r} with the value {first}, which is not its class's, and the "
            f"segment {names[other]!r} with the value {other} of a class; expected segments with the names of classes, "
            "or the values of classes. Rename the segments, or save them in the order of the classes."
        )
    voxels = mask.voxels.copy()
    for value, target in wanted.items():
        voxels[mask.voxels == value] = target
    return replace(mask, voxels=voxels)
