"""What the pipeline's crop leaves of a volume's annotation, worked out without running the pipeline."""

import numpy as np
from nibabel.orientations import axcodes2ornt, io_orientation, ornt_transform

from ...custom.data.description import SliceDescription, VolumeDescription
from ...transforms.array_types import Booleans, Classes, Indices, SingleFloats
from ...transforms.loading.volume_files import Volume

_ALL_AXES = frozenset(range(3))


def share_kept(classes: Classes, image: Volume, description: SliceDescription | VolumeDescription) -> float:
    """Return the fraction of the annotated voxels that lie inside the pipeline's crop; see :func:`inside_crop`.

    Args:
        classes: classes ``(I, J, K)`` as they lie in the file, 0 for background.
        image: the image as it lies in the file.
        description: says orientation, spacing, crop, size and fit.
    """
    annotated = np.nonzero(classes)
    return float(inside_crop(annotated, image, description).mean()) if len(annotated[0]) else 1.0


def inside_crop(
    places: tuple[Indices, ...], image: Volume, description: SliceDescription | VolumeDescription
) -> Booleans:
    """Return which voxels lie inside the pipeline's crop.

    Exact where volumes are not resampled; else voxels are taken to where resampling moves them, which is half a voxel
    off at most.

    Args:
        places: indices of n voxels along the axes of the file, three arrays ``(n,)``.
        image: the image as it lies in the file.
        description: says orientation, spacing, crop, size and fit.
    """
    inside = np.ones(len(places[0]), dtype=bool)
    if description.crop == "centre" and (description.size is None or description.fit != "crop"):
        return inside
    turns = ornt_transform(io_orientation(image.affine), axcodes2ornt(description.orientation))
    for axis, (target, direction) in enumerate(turns):
        length = image.voxels.shape[axis]
        start, stop = _foreground(image.voxels, axis) if description.crop == "foreground" else (0, length)
        position = places[axis]
        if direction < 0:
            start, stop, position = length - stop, length - start, length - 1 - position
        scale = 1.0 if description.spacing is None else image.spacing[axis] / description.spacing[int(target)]
        first, last = round(start * scale), round((stop - 1) * scale)
        low, high = _centre(last - first + 1, _size_along(int(target), description))
        moved = position * scale - first
        inside &= (moved >= low - 0.5) & (moved < high - 0.5)
    return inside


def _size_along(axis: int, description: SliceDescription | VolumeDescription) -> int | None:
    """Extent that the oriented volume is cropped to along an axis, None where nothing is cut off."""
    if description.size is None or description.fit != "crop":
        return None
    sizes: list[int | None] = list(description.size)
    if isinstance(description, SliceDescription):
        sizes.insert(description.slice_axis, None)
    return sizes[axis]


def _centre(length: int, size: int | None) -> tuple[int, int]:
    """Start and end of MONAI's centre crop to a size."""
    if size is None:
        return 0, length
    start = max(length // 2 - size // 2, 0)
    return start, min(start + size, length)


def _foreground(voxels: SingleFloats, axis: int) -> tuple[int, int]:
    """Start and end along an axis of the box around everything brighter than 0; all if nothing is, or all is equal."""
    if voxels.min() == voxels.max():
        return 0, voxels.shape[axis]
    bright = np.flatnonzero((voxels > 0).any(axis=tuple(_ALL_AXES - {axis})))
    return (int(bright[0]), int(bright[-1]) + 1) if len(bright) else (0, voxels.shape[axis])
