"""The pure part of contour evolution: the clean mask and the drawn curves in, the noisy mask out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from scipy import ndimage

from ..array_types import Array, Booleans, Floats, Labels
from ..contours import PlaneObject, move, trace
from .displacement import DEGREE, DisplacementCurve
from .nested_contours import MaskContours, Structure, in_own_box, pixels_of


class PlainContourEvolution(TypedDict):
    """:class:`ContourEvolutionParams` as plain values, under the same names."""

    mask_shape: list[int]
    max_displacement: float
    label: list[int]
    slice_index: list[int]
    start: list[float]
    periodic: list[bool]
    coefficients: list[list[float]]


@dataclass(frozen=True)
class ContourEvolutionParams:
    """Everything random about one corrupted mask: with it and the clean mask the noisy one is made again, bit by bit.

    One entry per contour: slice by slice, in a slice structure by structure, in a structure from the outside inwards,
    each object's outline before its holes.
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
    label: Labels
    slice_index: Labels
    start: Floats
    periodic: Booleans
    coefficients: Floats

    def displacements(self, contour: int, length: int) -> Floats:
        """Displacement in pixels of every point of a contour of ``length`` points, positive outward, ``(length,)``."""
        curve = DisplacementCurve(
            float(self.start[contour]), bool(self.periodic[contour]), self.coefficients[contour]
        ).evaluate(length)
        return np.clip(curve, -self.max_displacement, self.max_displacement)

    def to_dict(self) -> PlainContourEvolution:
        """Return plain lists and numbers, for JSON; no digit is lost."""
        return {
            "mask_shape": list(self.mask_shape),
            "max_displacement": self.max_displacement,
            "label": self.label.tolist(),
            "slice_index": self.slice_index.tolist(),
            "start": self.start.tolist(),
            "periodic": self.periodic.tolist(),
            "coefficients": self.coefficients.tolist(),
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


def evolve(mask: Array, contours: MaskContours, params: ContourEvolutionParams) -> Array:
    """The noisy mask; where structures overlap an inner class covers an outer one.

    Raises:
        ValueError: when the parameters were drawn for another mask.
    """
    expected = [(item.slice_index, contour.label) for item in contours.structures for contour in item.contours]
    drawn_for = list(zip(params.slice_index.tolist(), params.label.tolist(), strict=True))
    if params.mask_shape != mask.shape or expected != drawn_for:
        raise ValueError(
            f"The parameters were drawn for another mask: expected the shape {params.mask_shape} with {len(drawn_for)} "
            f"contours, found {mask.shape} with {len(expected)} contours or other labels. "
            "Replay a corruption on the clean mask it was made from."
        )
    # The classes' places in their order, from 1 on; 0 is background.
    places = np.zeros(mask.shape if mask.ndim == 3 else (*mask.shape, 1), dtype=np.uint16)
    first_contour = 0
    for structure in contours.structures:
        for label, pixels, window in _evolved(structure, params, first_contour, mask.shape[:2]):
            part = places[(*window, structure.slice_index)]
            part[pixels] = np.maximum(part[pixels], contours.labels.index(label) + 1)
        first_contour += sum(1 for _ in structure.contours)
    return np.array([0, *contours.labels]).astype(mask.dtype)[places].reshape(mask.shape)


def _evolved(
    structure: Structure, params: ContourEvolutionParams, first_contour: int, plane_shape: tuple[int, int]
) -> Iterator[tuple[int, Booleans, tuple[slice, slice]]]:
    """A structure's moved classes, the outermost first: label value, pixels with the classes inside it, and window."""
    outer, window = _evolve_object(structure.outline, params, first_contour, plane_shape)
    yield structure.labels[0], outer, window
    if not structure.inner:
        return
    first_contour += len(structure.outline.regions)
    before = _placed(outer, window, structure.window)
    clean = _placed(*_clean(structure), structure.window)
    for label, classes in zip(structure.labels[1:], structure.inner, strict=True):
        moved = np.zeros_like(before)
        for item in classes.objects:
            pixels, place = _evolve_object(item, params, first_contour, before.shape)
            moved[place] |= pixels
            first_contour += len(item.regions)
        before = moved & before & ~_rim_of_the_outer(before, clean, classes.pixels)
        clean = classes.pixels
        yield label, before, structure.window


def _rim_of_the_outer(outer: Booleans, clean: Booleans, inner: Booleans) -> Booleans:
    """The pixels along the moved outline that inner classes do not reach, since they do not where it was drawn.

    Args:
        outer: everything inside the moved outline.
        clean: everything inside the drawn one.
        inner: the inner classes as they were drawn.
    """
    edge = _edge(clean)
    if not edge.any():
        return np.zeros_like(outer)
    rows, columns = ndimage.distance_transform_edt(~edge, return_distances=False, return_indices=True)
    return np.asarray(_edge(outer) & ~inner[rows, columns])


def _edge(pixels: Booleans) -> Booleans:
    """The pixels that touch what is outside; beyond the window everything goes on."""
    return np.asarray(pixels & ~ndimage.binary_erosion(pixels, np.ones((3, 3), dtype=bool), border_value=1))


def _clean(structure: Structure) -> tuple[Booleans, tuple[slice, slice]]:
    """A structure's pixels in its own box, and the box."""
    (row, column), shape = structure.outline.outer.corner, structure.outline.outer.pixels.shape
    pixels = pixels_of(in_own_box(structure.outline), shape)
    return pixels, (slice(row, row + shape[0]), slice(column, column + shape[1]))


def _placed(pixels: Booleans, place: tuple[slice, slice], window: tuple[slice, slice]) -> Booleans:
    """Pixels of a part of the plane in a window that holds it."""
    result = np.zeros([side.stop - side.start for side in window], dtype=bool)
    rows, columns = (
        slice(side.start - around.start, side.stop - around.start) for side, around in zip(place, window, strict=True)
    )
    result[rows, columns] = pixels
    return result


def _evolve_object(
    item: PlaneObject, params: ContourEvolutionParams, first_contour: int, plane_shape: tuple[int, int]
) -> tuple[Booleans, tuple[slice, slice]]:
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
