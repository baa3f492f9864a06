"""By how far a contour lies too far outside, seen in three ways: by prediction, by size, and by the image's edges."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from ...transforms.array_types import AnyFloats, Booleans, Floats
from ...transforms.surfaces import Surface, bounding_box, grown_box, surface_of_mask
from ..annotation_bias.boundary_bias import object_offsets
from ..annotation_bias.objects import MatchedObjects
from .examined import ExaminedCase, Part
from .thresholds import THRESHOLDS

# An edge is looked for at these fractions of the object's radius outside of its contour.
SHARES = np.linspace(-0.6, 0.6, 25)
# Of a flat image only rounding changes.
_SMALLEST_SLOPE = 1e-6
# Images are smoothed by this fraction of the radius, at least by a pixel.
_SMOOTHING = 0.08
# Makes a median absolute deviation the standard deviation of a normal distribution.
_NORMAL_DEVIATION = 1.4826


@dataclass(frozen=True)
class ContourEvidence:
    """Where the contour of one annotated object lies; lengths in millimetres, pixels without spacing.

    Attributes:
        radius: of the disc or ball of the same size.
        by_model: offset from the predicted contour, positive outside; NaN where no predicted object matches.
        by_size: the radius less that of the probability near the object; NaN where that is of quite another size.
        slopes: how the image changes on the way outward on contours moved by :data:`SHARES` of the radius, of each
            channel over its largest change there, ``(channels, n)``; zeros where the object has no contour.
        spread: median absolute deviation of the distances along the contours; NaN where no predicted object matches.
    """

    radius: float
    by_model: float
    by_size: float
    slopes: Floats
    spread: float


@dataclass(frozen=True)
class TypicalContours:
    """How a site draws the contours of a class.

    Attributes:
        offset: the median offset from the predicted contours, positive outside.
        medians: of the three kinds of evidence, ``(3,)``: by model, by size, by edge.
        deviations: from them, as standard deviations, ``(3,)``; infinite where a kind says nothing.
        directions: in which channels change at an edge, 1 or -1, ``(channels,)``.
    """

    offset: float
    medians: Floats
    deviations: Floats
    directions: Floats

    @classmethod
    def of(cls, given: Sequence[ContourEvidence]) -> "TypicalContours":
        """Find out what is typical from all annotated objects of a class."""
        mean = np.mean([item.slopes for item in given], axis=0)
        strongest = np.abs(mean).argmax(axis=1)
        directions = np.sign(mean[np.arange(len(mean)), strongest])
        table = np.array([_evidence(item, directions) for item in given])
        medians, deviations = np.zeros(3), np.full(3, np.inf)
        for column in range(3):
            known = table[np.isfinite(table[:, column]), column]
            if len(known):
                medians[column] = np.median(known)
                spread = _NORMAL_DEVIATION * float(np.median(np.abs(known - medians[column])))
                deviations[column] = max(spread, THRESHOLDS.min_contour_deviation)
        return cls(float(medians[0]), medians, deviations, directions)

    def displacement(self, one: ContourEvidence) -> tuple[float, float] | None:
        """Return by how far a contour lies farther outside than typical, and the standard deviation of that.

        The mean of the kinds of evidence, each less its median, weighted by 1 / deviation².
        None where there is no evidence.
        """
        evidence = _evidence(one, self.directions) - self.medians
        weights = np.where(np.isfinite(evidence), 1 / self.deviations**2, 0.0)
        total = float(weights.sum())
        if total <= 0:
            return None
        return float((np.nan_to_num(evidence) * weights).sum() / total), total**-0.5


def contour_evidence(
    case: ExaminedCase, part: Part, label: int
) -> Iterator[tuple[int, int | None, Booleans, ContourEvidence]]:
    """Yield every annotated object of a class of at least five pixels.

    Args:
        case: the case.
        part: its part with objects.
        label: the class.

    Yields:
        The object's number, that of the predicted one that it matches or None, its pixels in the part, the evidence.
    """
    matched = part.objects(label)
    offsets = {given: (found, offset) for given, found, offset in object_offsets(part.predicted, label, matched)}
    probability = np.asarray(part.predicted.probabilities[label], dtype=np.float64)
    for number in range(1, matched.num_annotated + 1):
        inside = matched.annotated == number
        pixels = int(np.count_nonzero(inside))
        if pixels < THRESHOLDS.min_object_pixels:
            continue
        spacing = np.asarray(part.predicted.spacing or (1.0,) * inside.ndim)
        radius = _radius(pixels * float(spacing.prod()), inside.ndim)
        found, offset = offsets.get(number, (None, None))
        yield (
            number,
            found,
            inside,
            ContourEvidence(
                radius=radius,
                by_model=np.nan if offset is None else offset.offset,
                by_size=_by_size(matched, number, probability, radius, spacing),
                slopes=_slopes(
                    case.whole_image, surface_of_mask(inside, part.predicted.spacing), part, radius, spacing
                ),
                spread=np.nan if offset is None else offset.spread,
            ),
        )


def _evidence(one: ContourEvidence, directions: Floats) -> Floats:
    """By model, by size, by edge: how far outside the contour lies by each."""
    profile = directions @ one.slopes
    # An edge outside of the contour says that it lies too far inside.
    by_edge = -SHARES[profile.argmax()] * one.radius if profile.any() else np.nan
    return np.array([one.by_model, one.by_size, by_edge])


def _by_size(matched: MatchedObjects, number: int, probability: Floats, radius: float, spacing: Floats) -> float:
    """r log(n / Σp) / d over pixels up to a radius away that belong to no other object; n annotated pixels."""
    margins = [int(np.ceil(radius / step)) + 1 for step in spacing]
    box = grown_box(bounding_box(matched.annotated == number), margins, probability.shape)
    inside = matched.annotated[box] == number
    away = ndimage.distance_transform_edt(~inside, sampling=spacing)
    near = away <= radius
    other = (matched.annotated[box] != 0) & ~inside
    if other.any():
        near &= away <= ndimage.distance_transform_edt(~other, sampling=spacing)
    times = np.count_nonzero(inside) / max(float(probability[box][near].sum()), 1e-9)
    if not 1 / THRESHOLDS.max_size_ratio <= times <= THRESHOLDS.max_size_ratio:
        return float("nan")
    return float(radius * np.log(times) / inside.ndim)


def _slopes(image: AnyFloats, surface: Surface, part: Part, radius: float, spacing: Floats) -> Floats:
    """Change of each channel from half a pixel inside to half a pixel outside of the moved contour, a mean over it."""
    slopes = np.zeros((len(image), len(SHARES)))
    if not len(surface.points):
        return slopes
    smoothing = max(float(spacing.min()), _SMOOTHING * radius) / spacing
    reach = (SHARES[-1] * radius + spacing.max()) / spacing + 3 * smoothing
    points = surface.points / spacing + part.start
    box = tuple(
        slice(max(int(low - more), 0), min(int(high + more) + 2, length))
        for low, high, more, length in zip(points.min(0), points.max(0), reach, image.shape[1:], strict=True)
    )
    first = np.array([side.start for side in box])
    half = 0.5 * float(spacing.min())
    steps = (SHARES * radius)[:, None] + np.array([-half, half])
    places = points - first + steps[..., None, None] * surface.normals / spacing
    for channel, values in enumerate(image):
        smooth = ndimage.gaussian_filter(values[box].astype(np.float64), smoothing)
        result = ndimage.map_coordinates(smooth, np.moveaxis(places, -1, 0), order=1, mode="nearest")
        slopes[channel] = np.average(result[:, 1] - result[:, 0], axis=-1, weights=surface.areas)
    largest = np.abs(slopes).max(axis=1, keepdims=True)
    return np.asarray(np.divide(slopes, largest, out=np.zeros_like(slopes), where=largest > _SMALLEST_SLOPE))


def _radius(size: float, num_axes: int) -> float:
    """The radius of the disc or ball of a size."""
    if num_axes == 2:
        return math.sqrt(size / math.pi)
    return float((size * 3 / (4 * math.pi)) ** (1 / 3))
