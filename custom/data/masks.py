"""A site's mask files as classes and back, pictures and volumes alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...transforms.errors import DataError
from ...transforms.image_files import map_mask, read_mask, show_values
from .description import ImageDescription, SegmentationDescription, SliceDescription

# The axes of nibabel's orientations.
_DIRECTIONS = ("RL", "AP", "SI")


@dataclass(frozen=True)
class Mask:
    """A mask as it lies in its file.

    Attributes:
        classes: uint8 ``(H, W)``, or of a volume ``(I, J, K)``; 0 for background.
        affine: ``(4, 4)`` of a volume, None of a picture.
    """

    classes: NDArray[np.uint8]
    affine: NDArray[np.float64] | None = None


def read_classes(file: Path, description: SegmentationDescription) -> Mask:
    """Read a mask file's classes.

    Raises:
        DataError: if the file is missing, unreadable or has a label value without a class.
    """
    if isinstance(description, ImageDescription):
        return Mask(map_mask(read_mask(file), description.labels, file))
    from ...transforms.volume_files import read_label_volume

    volume = read_label_volume(file)
    return Mask(map_mask(volume.voxels, description.labels, file), volume.affine)


def write_classes(target: Path, mask: Mask, description: SegmentationDescription) -> Path:
    """Write classes with the label values of the site, as PNG or, for a volume, as NIfTI.

    Args:
        target: the file without suffix.
        mask: what to write.
        description: the site's description.

    Returns:
        The file.

    Raises:
        DataError: if a label value is none that a PNG can hold.
    """
    values = _values_of_classes(description.labels)[mask.classes]
    if mask.affine is not None:
        from ...transforms.volume_files import write_label_volume

        file = target.with_name(f"{target.name}.nii.gz")
        write_label_volume(file, values, mask.affine)
        return file
    file = target.with_name(f"{target.name}.png")
    if values.min() < 0 or values.max() >= 2**16:
        raise DataError(
            f"{file}: the label values {show_values(np.unique(values))} cannot be written as PNG; expected 0 to 65535."
        )
    Image.fromarray(values.astype(np.uint8 if values.max() <= 255 else np.uint16)).save(file)
    return file


def plain_name(file: Path) -> str:
    """Return a file's name without the suffix, ``.nii.gz`` being one."""
    return file.name[: -len(".nii.gz")] if file.name.lower().endswith(".nii.gz") else file.stem


def annotated_axis(mask: Mask, description: SegmentationDescription) -> int:
    """Return the axis of a volume's file across which the slices lie that an annotator draws on.

    It is the one that the site's pipeline cuts across, and for whole volumes the one nearest to bottom–top.
    """
    assert mask.affine is not None
    from nibabel.orientations import io_orientation

    direction = _DIRECTIONS.index("SI")
    if isinstance(description, SliceDescription):
        letter = description.orientation[description.slice_axis]
        direction = next(index for index, pair in enumerate(_DIRECTIONS) if letter in pair)
    return int(np.flatnonzero(io_orientation(mask.affine)[:, 0] == direction)[0])


def _values_of_classes(labels: Mapping[int, int]) -> NDArray[np.int64]:
    """The value in the file of every class; where several values lead to a class, the first."""
    values = np.zeros(max(labels.values()) + 1, dtype=np.int64)
    for value, label in reversed(list(labels.items())):
        values[label] = value
    return values
