"""The grid in which a case's own files are shown: three planes by the affine, and the way back to a file's axes.

Arrays of this grid are ``(X, Y, Z[, 3])``: of a volume the file's voxels with their axes to the patient's left, back
and top; of a picture its columns, its rows and 1. Nothing is interpolated.
"""

from dataclasses import dataclass

import numpy as np
from nibabel.orientations import apply_orientation, axcodes2ornt, io_orientation, ornt_transform
from scipy import ndimage

from ...transforms.array_types import Array, Classes, Floats
from ...transforms.loading.volume_geometry import Placement, voxel_spacing

SAGITTAL, CORONAL, AXIAL = range(3)
_TOWARDS = "LPS"
# Rows and columns of the planes across each axis.
_ROWS, _COLUMNS = {SAGITTAL: 2, CORONAL: 2, AXIAL: 1}, {SAGITTAL: 1, CORONAL: 0, AXIAL: 0}
# Left, right, top and bottom of them.
_LETTERS = {SAGITTAL: "APSI", CORONAL: "RLSI", AXIAL: "RLAP"}


@dataclass(frozen=True)
class PlaneGrid:
    """The planes across one axis.

    Attributes:
        width: columns of a plane.
        height: its rows.
        planes: how many there are.
        spacing: from row to row, column to column and plane to plane in millimetres; None where no file says so.
        letters: towards what in the patient left, right, top and bottom are; empty where no file says so.
    """

    width: int
    height: int
    planes: int
    spacing: tuple[float, float, float] | None
    letters: str


@dataclass(frozen=True)
class FileGrid:
    """The grid of a case's files.

    Attributes:
        extents: columns, rows and planes across the last axis.
        spacing: size along these in millimetres; None where no file says so.
        affine: ``(4, 4)`` of the file of a volume, None of a picture.
        says_orientation: whether the file says how its axes run.
    """

    extents: tuple[int, int, int]
    spacing: tuple[float, float, float] | None = None
    affine: Floats | None = None
    says_orientation: bool = False

    def planes_across(self, axis: int) -> PlaneGrid:
        """Return the planes across an axis."""
        order = (_ROWS[axis], _COLUMNS[axis], axis)
        height, width, planes = (self.extents[own] for own in order)
        rows, columns, between = order
        spacing = None if self.spacing is None else (self.spacing[rows], self.spacing[columns], self.spacing[between])
        return PlaneGrid(width, height, planes, spacing, _LETTERS[axis] if self.says_orientation else "")

    def from_file(self, values: Array) -> Array:
        """Return the values of a file ``(H, W[, 3])`` or ``(I, J, K)`` in this grid, without a copy."""
        if self.affine is None:
            return np.swapaxes(values, 0, 1)[:, :, None]
        turned: Array = apply_orientation(values, _to_shown(self.affine))
        return turned

    def to_file(self, values: Array) -> Array:
        """Return values of this grid as they lie in the file, the way back of :meth:`from_file`."""
        if self.affine is None:
            return np.swapaxes(values[:, :, 0], 0, 1)
        back = ornt_transform(axcodes2ornt(_TOWARDS), io_orientation(self.affine))
        return np.ascontiguousarray(apply_orientation(values, back))

    def axis_of(self, file_axis: int) -> int:
        """Return the axis of this grid along which an axis of a volume's file runs."""
        assert self.affine is not None
        return int(_to_shown(self.affine)[file_axis, 0])


def picture_grid(height: int, width: int) -> FileGrid:
    """Return the grid of a picture."""
    return FileGrid((width, height, 1))


def volume_grid(extents: tuple[int, ...], placement: Placement) -> FileGrid:
    """Return the grid of a volume.

    Args:
        extents: of the file.
        placement: where its voxels lie. Sizes that nobody has set are no millimetres.
    """
    order = _to_shown(placement.affine)[:, 0].astype(int)
    spacing = voxel_spacing(placement.affine)
    along = np.argsort(order)
    first, second, third = (extents[own] for own in along)
    x, y, z = (spacing[own] for own in along)
    known = placement.says_orientation or not np.allclose(spacing, 1.0)
    return FileGrid((first, second, third), (x, y, z) if known else None, placement.affine, placement.says_orientation)


def plane_of(values: Array, axis: int, number: int) -> Array:
    """Return a plane ``(rows, columns[, 3])`` of an array of such a grid, as a view of it.

    What is written into the plane is in the array. Axial planes are seen from the feet, the patient's right on the
    left; the top of the others is up.
    """
    if axis == AXIAL:
        return np.swapaxes(values[:, :, number], 0, 1)
    plane = values[number] if axis == SAGITTAL else values[:, number]
    return np.swapaxes(plane, 0, 1)[::-1]


def boxes_on_planes(numbered: Classes, axis: int) -> list[tuple[int, tuple[int, int, int, int]] | None]:
    """Return where numbered regions are: the middle plane of each, and the box around it, top, left, bottom and right.

    Args:
        numbered: array of such a grid; 0 for nothing, else the number of a region, from 1.
        axis: across which the planes lie.

    Returns:
        One for every number up to the largest, None where nothing has it.
    """
    height = numbered.shape[_ROWS[axis]]
    boxes: list[tuple[int, tuple[int, int, int, int]] | None] = []
    for region in ndimage.find_objects(numbered):
        if region is None:
            boxes.append(None)
            continue
        rows, columns, across = region[_ROWS[axis]], region[_COLUMNS[axis]], region[axis]
        top, bottom = (rows.start, rows.stop) if axis == AXIAL else (height - rows.stop, height - rows.start)
        boxes.append(((across.start + across.stop) // 2, (top, columns.start, bottom, columns.stop)))
    return boxes


def _to_shown(affine: Floats) -> Array:
    order: Array = ornt_transform(io_orientation(affine), axcodes2ornt(_TOWARDS))
    return order
