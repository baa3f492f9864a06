"""The planes of a mask's file as a page shows and sends them: run lengths over rows, in the file's own pixels."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask, annotated_axis
from ...transforms.array_types import Array, Classes
from ...transforms.errors import DataError
from .file_grid import AXIAL, CORONAL, SAGITTAL, FileGrid, picture_grid, volume_grid

# Class, length, class, length, … over the rows of a plane.
Runs = list[int]


# Axes of a grid along the rows, the columns and the planes across each axis.
_ORDERS = {SAGITTAL: (2, 1, 0), CORONAL: (2, 0, 1), AXIAL: (1, 0, 2)}


@dataclass(frozen=True)
class MaskPlanes:
    """How the planes that a page shows lie in a mask's file: those that its annotator drew on.

    Attributes:
        grid: of the file.
        axis: of the grid, across which the planes lie.
    """

    grid: FileGrid
    axis: int = AXIAL

    @classmethod
    def of(cls, file: Path, mask: Mask, description: SegmentationDescription) -> "MaskPlanes":
        """Return the planes of a mask that was read from a site's file.

        Raises:
            DataError: if the file cannot be read.
        """
        if mask.affine is None:
            height, width = mask.classes.shape
            return cls(picture_grid(height, width))
        # Only volumes need nibabel.
        from ...transforms.loading.volume_files import read_placement  # noqa: PLC0415

        grid = volume_grid(mask.classes.shape, read_placement(file))
        return cls(grid, grid.axis_of(annotated_axis(mask, description)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of planes, of rows and of columns."""
        planes = self.grid.planes_across(self.axis)
        return planes.planes, planes.height, planes.width

    @property
    def spacing(self) -> tuple[float, float, float] | None:
        """Distance of rows, columns and planes in millimetres; None in pixels."""
        return self.grid.planes_across(self.axis).spacing

    def of_file(self, classes: Array) -> Array:
        """Return the planes ``(P, H, W)`` of an array of the file's shape, a view."""
        rows, columns, planes = _ORDERS[self.axis]
        values = np.transpose(self.grid.from_file(classes), (planes, rows, columns))
        return values if self.axis == AXIAL else values[:, ::-1]

    def to_file(self, planes: Array) -> Array:
        """Return planes ``(P, H, W)`` as they lie in the file, the way back of :meth:`of_file`."""
        rows, columns, across = _ORDERS[self.axis]
        values = planes if self.axis == AXIAL else planes[:, ::-1]
        return self.grid.to_file(np.transpose(values, np.argsort((across, rows, columns))))


def runs_of(plane: Array) -> Runs:
    """Return the run lengths of a plane over its rows: class, length, class, length, ….

    >>> runs_of(np.array([[0, 0], [1, 1], [1, 0]]))
    [0, 2, 1, 3, 0, 1]
    """
    flat = plane.ravel()
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    lengths = np.diff(np.concatenate([starts, [flat.size]]))
    return np.stack([flat[starts].astype(np.int64), lengths], axis=1).ravel().tolist()


def runs_of_changed(before: Array, after: Array) -> dict[str, Runs]:
    """Return the runs of the planes that differ, by the plane's number; both ``(P, H, W)``."""
    differing = np.flatnonzero((before != after).any(axis=(1, 2)))
    return {str(number): runs_of(after[number]) for number in differing.tolist()}


def plane_of_runs(runs: Sequence[int], shape: tuple[int, int], allowed: Collection[int], name: str) -> Classes:
    """Return the classes ``(H, W)`` that runs stand for.

    Args:
        runs: as :func:`runs_of` gives them; from outside, so nothing of them is taken for granted.
        shape: of the plane.
        allowed: classes that it may have.
        name: of the plane, for an error.

    Raises:
        DataError: if they are no pairs, do not fill the plane, or have another class.
    """
    size = shape[0] * shape[1]
    if len(runs) % 2 or not runs or len(runs) > 2 * size:
        raise DataError(f"{name}: found {len(runs)} numbers; expected pairs of class and length, at most one a pixel.")
    try:
        classes, lengths = np.asarray(runs, dtype=np.int64).reshape(-1, 2).T
    except OverflowError:
        raise DataError(f"{name}: found a number beyond any image; expected classes and lengths.") from None
    if unknown := sorted(set(np.unique(classes).tolist()) - set(allowed)):
        raise DataError(f"{name}: found the class {unknown[0]}; expected one of {sorted(allowed)}.")
    # Each at most the plane's size first, so that the sum is one that a computer holds.
    if lengths.min() < 1 or lengths.max() > size or int(lengths.sum()) != size:
        raise DataError(f"{name}: found runs that do not fill it; expected lengths from 1 with the sum {size}.")
    return np.repeat(classes.astype(np.uint8), lengths).reshape(shape)


def with_planes(given: Classes, planes: Mapping[str, Sequence[int]], allowed: Collection[int], name: str) -> Classes:
    """Return a copy of the planes of a file with some of them replaced.

    Args:
        given: ``(P, H, W)``.
        planes: by number the runs of each.
        allowed: classes that they may have.
        name: of the file, for an error.

    Raises:
        DataError: if there is no such plane, or as :func:`plane_of_runs`.
    """
    result = given.copy()
    count, height, width = given.shape
    for number, runs in planes.items():
        if int(number) >= count:
            raise DataError(f"{name}: found the plane {number}; expected 0 to {count - 1}.")
        result[int(number)] = plane_of_runs(runs, (height, width), allowed, f"{name}, plane {number}")
    return result
