"""A site's mask files as classes and back, pictures and volumes alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ...transforms.array_types import Booleans, Classes, Floats, Labels
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.image_files import map_mask, read_mask, show_values
from .description import ImageDescription, SegmentationDescription, SliceDescription
from .whole_files import private_file

# The axes of nibabel's orientations.
_DIRECTIONS = ("RL", "AP", "SI")


@dataclass(frozen=True)
class Mask:
    """A mask as it lies in its file.

    Attributes:
        classes: uint8 ``(H, W)``, or of a volume ``(I, J, K)``; 0 for background, 255 for ignored pixels.
        affine: ``(4, 4)`` of a volume, None of a picture.
    """

    classes: Classes
    affine: Floats | None = None

    @property
    def foreground(self) -> Booleans:
        """Where any class is annotated; ignored pixels are not."""
        return np.asarray((self.classes != 0) & (self.classes != IGNORED_LABEL))


def without_ignored(classes: Classes) -> Classes:
    """Return classes with ignored pixels as background, of the same shape."""
    return np.where(classes == IGNORED_LABEL, np.uint8(0), classes)


def read_classes(file: Path, description: SegmentationDescription) -> Mask:
    """Read a mask file's classes.

    Raises:
        DataError: if the file is missing, unreadable or has a label value without a class.
    """
    values, affine = _read_values(file, description)
    return Mask(map_mask(values, description.labels_of_values, file), affine)


def turned_to(mask: Mask, affine: Floats | None) -> Mask:
    """Return a volume's mask with its axes in the order and direction of another's with this affine.

    A picture's mask stays as it is.
    """
    if mask.affine is None or affine is None:
        return mask
    from nibabel.orientations import apply_orientation, inv_ornt_aff  # noqa: PLC0415

    from ...transforms.loading.volume_geometry import axis_order  # noqa: PLC0415

    order = axis_order(mask.affine, affine)
    classes = np.ascontiguousarray(apply_orientation(mask.classes, order))
    return Mask(classes, mask.affine @ inv_ornt_aff(order, mask.classes.shape))


def write_with_additions(
    target: Path, file: Path, added: Classes, description: SegmentationDescription
) -> tuple[Path, Classes, Classes]:
    """Write a copy of a mask file in which background has become foreground; what is annotated keeps its value.

    Args:
        target: the file to write, without suffix.
        file: the mask.
        added: classes to add, with the mask's own shape, 0 for none; only those on background count.
        description: the site's description.

    Returns:
        The file, the given classes and those that were added, 0 where none was.

    Raises:
        DataError: if the mask cannot be read, or a label value is none that a PNG can hold.
        ValueError: if the shapes differ.
    """
    values, given, affine = _read_given(file, description, added.shape, "additions")
    placed = np.where(given == 0, added, 0).astype(np.uint8)
    return _write_values(target, _changed(values, given, given + placed, description), file, affine), given, placed


def write_changed(target: Path, file: Path, classes: Classes, description: SegmentationDescription) -> Path:
    """Write a copy of a mask file with other classes; where a class stays, its value in the file does, too.

    Args:
        target: the file to write, without suffix.
        file: the mask.
        classes: with the mask's own shape.
        description: the site's description.

    Returns:
        The file.

    Raises:
        DataError: if the mask cannot be read, or a label value is none that a PNG can hold.
        ValueError: if the shapes differ.
    """
    values, given, affine = _read_given(file, description, classes.shape, "classes")
    return _write_values(target, _changed(values, given, classes, description), file, affine)


def _read_given(
    file: Path, description: SegmentationDescription, shape: tuple[int, ...], what: str
) -> tuple[Labels, Classes, Floats | None]:
    """The values, the classes and the grid of a mask, which has the shape of what is to be written.

    Raises:
        DataError: if the mask cannot be read.
        ValueError: if the shapes differ.
    """
    values, affine = _read_values(file, description)
    if values.shape != shape:
        raise ValueError(f"{file}: expected {what} of the shape {values.shape}, but got {shape}.")
    return values, map_mask(values, description.labels_of_values, file), affine


def _changed(
    values: Labels,
    given: Classes,
    classes: Classes,
    description: SegmentationDescription,
) -> Labels:
    """Label values of other classes than the given ones; where a class stays, its value does, too."""
    return np.where(given == classes, values, _values_of_classes(description.labels_of_values)[classes])


def write_classes(target: Path, mask: Mask, like: Path, description: SegmentationDescription) -> Path:
    """Write classes with the label values of the site, as PNG or, for a volume, as NIfTI with the header of another.

    Args:
        target: the file without suffix.
        mask: what to write.
        like: the file that it was read from, which says where voxels lie.
        description: the site's description.

    Returns:
        The file.

    Raises:
        DataError: if the other file cannot be read, or a label value is none that a PNG can hold.
    """
    return _write_values(target, _values_of_classes(description.labels_of_values)[mask.classes], like, mask.affine)


def _read_values(file: Path, description: SegmentationDescription) -> tuple[Labels, Floats | None]:
    """The label values of a mask as they lie in its file, and a volume's affine."""
    if isinstance(description, ImageDescription):
        return read_mask(file), None
    # Only volumes need nibabel, here and below.
    from ...transforms.loading.volume_files import read_label_volume  # noqa: PLC0415

    volume = read_label_volume(file)
    return volume.voxels, volume.affine


def _write_values(target: Path, values: Labels, like: Path, affine: Floats | None) -> Path:
    if affine is not None:
        from ...transforms.loading.volume_files import write_labels_like  # noqa: PLC0415

        file = target.with_name(f"{target.name}.nii.gz")
        write_labels_like(private_file(file), values, like)
        return file
    file = target.with_name(f"{target.name}.png")
    if values.min() < 0 or values.max() >= 2**16:
        raise DataError(
            f"{file}: the label values {show_values(np.unique(values))} cannot be written as PNG; expected 0 to 65535."
        )
    Image.fromarray(values.astype(np.uint8 if values.max() <= 255 else np.uint16)).save(private_file(file))
    return file


def plain_name(file: Path) -> str:
    """Return a file's name without the suffix, ``.nii.gz`` being one."""
    return file.name[: -len(".nii.gz")] if file.name.lower().endswith(".nii.gz") else file.stem


def annotated_axis(mask: Mask, description: SegmentationDescription) -> int:
    """Return the axis of a volume's file across which the slices lie that an annotator draws on.

    It is the one that the site's pipeline cuts across, and for whole volumes the one nearest to bottom–top.
    """
    assert mask.affine is not None
    from nibabel.orientations import io_orientation  # noqa: PLC0415

    direction = _DIRECTIONS.index("SI")
    if isinstance(description, SliceDescription):
        letter = description.orientation[description.slice_axis]
        direction = next(index for index, pair in enumerate(_DIRECTIONS) if letter in pair)
    return int(np.flatnonzero(io_orientation(mask.affine)[:, 0] == direction)[0])


def _values_of_classes(labels: Mapping[int, int]) -> Labels:
    """The value in the file of every class; where several values lead to a class, the first."""
    values = np.zeros(max(labels.values()) + 1, dtype=np.int64)
    for value, label in reversed(list(labels.items())):
        values[label] = value
    return values
