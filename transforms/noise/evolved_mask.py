"""A mask's objects by slice and label, and the pure part of contour evolution: the clean mask and the drawn curves in,
the noisy mask out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contours import PlaneObject, move, plane_objects, trace
from ..mask_arrays import label_values
from .displacement import DEGREE, DisplacementCurve


@dataclass(frozen=True)
class ContourEvolutionParams:
    """Everything random about one corrupted mask: with it and the clean mask the noisy one is made again, bit by bit.

    One entry per contour: slices, label values and objects in ascending order, each object's outline before its holes.
    Lengths are pixels of the mask. A contour with zero coefficients stays where it is.

    Attributes:
        mask_shape: shape of the mask for which the parameters were drawn, ``(H, W)`` or ``(H, W, D)``.
        max_displacement: displacements are clipped to plus and minus this.
        label: label value of the contour's object, ``(n,)``.
        slice_index: its slice along the last axis, 0 in two dimensions, ``(n,)``.
        start: where along the contour the displacement curve begins, as a fraction, ``(n,)``.
        periodic: whether the coefficients belong to harmonics rather than to a polynomial, ``(n,)``.
        coefficients: of the displacement curve, ``(n, 11)``.
    """

    mask_shape: tuple[int, ...]
    max_displacement: float
    label: NDArray[np.int64]
    slice_index: NDArray[np.int64]
    start: NDArray[np.float64]
    periodic: NDArray[np.bool_]
    coefficients: NDArray[np.float64]

    def displacements(self, contour: int, length: int) -> NDArray[np.float64]:
        """Displacement in pixels of every point of a contour of ``length`` points, positive outward, ``(length,)``."""
        curve = DisplacementCurve(
            float(self.start[contour]), bool(self.periodic[contour]), self.coefficients[contour]
        ).evaluate(length)
        return np.clip(curve, -self.max_displacement, self.max_displacement)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for JSON; no digit is lost."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else list(value) if name == "mask_shape" else value
            for name, value in values.items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ContourEvolutionParams:
        """Build the parameters from what :meth:`to_dict` returned.

        Raises:
            KeyError: when an entry is missing.
        """
        return cls(
            mask_shape=tuple(int(length) for length in values["mask_shape"]),
            max_displacement=float(values["max_displacement"]),
            label=np.asarray(values["label"], dtype=np.int64),
            slice_index=np.asarray(values["slice_index"], dtype=np.int64),
            start=np.asarray(values["start"], dtype=np.float64),
            periodic=np.asarray(values["periodic"], dtype=bool),
            coefficients=np.asarray(values["coefficients"], dtype=np.float64).reshape(-1, DEGREE + 1),
        )


@dataclass(frozen=True)
class LabelledObject:
    """One object of one label value in one slice."""

    slice_index: int
    label: int
    object: PlaneObject


def labelled_objects(mask: NDArray[Any]) -> Iterator[LabelledObject]:
    """Yield every object of a mask ``(H, W[, D])`` by slice, label value and position."""
    planes = mask[..., None] if mask.ndim == 2 else mask
    for slice_index in range(planes.shape[2]):
        plane = planes[:, :, slice_index]
        for label in label_values(plane):
            for item in plane_objects(plane == label):
                yield LabelledObject(slice_index, label, item)


def evolve(mask: NDArray[Any], objects: Sequence[LabelledObject], params: ContourEvolutionParams) -> NDArray[Any]:
    """The noisy mask; objects are painted in order, so that a larger label value covers a smaller one."""
    contours = [(item.slice_index, item.label) for item in objects for _ in item.object.regions]
    drawn_for = list(zip(params.slice_index.tolist(), params.label.tolist(), strict=True))
    if params.mask_shape != mask.shape or contours != drawn_for:
        raise ValueError(
            f"The parameters were drawn for another mask: expected the shape {params.mask_shape} with {len(drawn_for)} "
            f"contours, found {mask.shape} with {len(contours)} contours or other labels. "
            "Replay a corruption on the clean mask it was made from."
        )
    noisy = np.zeros_like(mask)
    planes = noisy[..., None] if noisy.ndim == 2 else noisy
    first_contour = 0
    for item in objects:
        moved, window = _evolve_object(item.object, params, first_contour, mask.shape[:2])
        planes[(*window, item.slice_index)][moved] = item.label
        first_contour += len(item.object.regions)
    return noisy


def _evolve_object(
    item: PlaneObject, params: ContourEvolutionParams, first_contour: int, plane_shape: tuple[int, int]
) -> tuple[NDArray[np.bool_], tuple[slice, slice]]:
    """One object with its outline and its holes moved: boolean pixels and the window in which they lie."""
    canvas = np.zeros(plane_shape, dtype=bool)
    outer_window = (slice(0), slice(0))
    for contour, region in enumerate(item.regions, start=first_contour):
        points = trace(region)
        displacements = params.displacements(contour, len(points))
        # The object's outward normal points into its holes.
        moved = move(region, points, -displacements if region.is_hole else displacements, plane_shape)
        if region.is_hole:
            canvas[moved.window] &= ~moved.pixels
        else:
            canvas[moved.window] = moved.pixels
            outer_window = moved.window
    return canvas[outer_window], outer_window
