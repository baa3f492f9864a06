"""How far a case's annotated contours lie outside (+) or inside (−) of the predicted ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...transforms.array_types import Booleans, Floats
from ...transforms.surfaces import Surface, surface_of_mask
from .cases import PredictedCase
from .objects import MatchedObjects, match_objects


@dataclass(frozen=True)
class ContourPair:
    """The contours of one object as annotated and as predicted, and their distances from each other.

    Attributes:
        annotated: the annotated contour.
        predicted: the predicted one.
        to_predicted: signed distance of each point of the annotated contour to the predicted one, positive outside of
            the predicted object; NaN where the image's border may hide a nearer part of it.
        to_annotated: as above of the points of the predicted contour.
    """

    annotated: Surface
    predicted: Surface
    to_predicted: Floats
    to_annotated: Floats

    @classmethod
    def of(cls, annotated: Surface, predicted: Surface) -> "ContourPair":
        """Measure two contours against each other."""
        return cls(annotated, predicted, _distances(annotated, predicted), _distances(predicted, annotated))


@dataclass(frozen=True)
class CaseOffset:
    """The offset of one class in one case; it stays at the site.

    Attributes:
        offset: b_i, positive where more is annotated than predicted; millimetres, pixels without spacing.
        spread: median absolute deviation of the distances along the contours.
        objects: matched objects that it is of.
    """

    offset: float
    spread: float
    objects: int


def case_offset(case: PredictedCase, label: int) -> CaseOffset | None:
    """Return b_i = ½ (mean of d_P over the contour of M − mean of d_M over the contour of P), d positive outside.

    Over matched objects together, every part of a contour by its length or area. Contours that the image's border cuts
    off do not count.

    Args:
        case: the case.
        label: the class.

    Returns:
        None where no annotated object matches a predicted one, or none of them has a contour.
    """
    return _offset_of(list(contour_pairs(case, label)))


def mask_offset(mask: Booleans, reference: Booleans, spacing: Sequence[float] | None = None) -> CaseOffset | None:
    """Return by how far the contours of a mask lie outside (+) of those of another one; see :func:`case_offset`.

    Args:
        mask: one class of an annotation, ``(H, W[, D])``.
        reference: the same of another annotation of the case.
        spacing: size of a pixel along each axis in millimetres; None measures in pixels.
    """
    matched = match_objects(mask, reference)
    pairs = [
        ContourPair.of(_contour(matched.annotated == number, spacing), _contour(matched.predicted == other, spacing))
        for number, other in matched.pairs
    ]
    return _offset_of(pairs)


def contour_pairs(case: PredictedCase, label: int) -> Iterator[ContourPair]:
    """Return the contours of each matched object of a class, of the best match first."""
    return _pairs(case, label, match_objects(case.annotated_as(label), case.predicted_as(label)))


def object_offsets(case: PredictedCase, label: int, matched: MatchedObjects) -> Iterator[tuple[int, int, CaseOffset]]:
    """Yield the offset of each matched object of a class: the annotated one's number, the predicted one's, the offset.

    Objects without a contour that counts are left out.

    Args:
        case: the case.
        label: the class.
        matched: its objects of that class.
    """
    for (annotated_number, predicted_number), pair in zip(matched.pairs, _pairs(case, label, matched), strict=True):
        offset = _offset_of([pair])
        if offset is not None:
            yield annotated_number, predicted_number, offset


def _pairs(case: PredictedCase, label: int, matched: MatchedObjects) -> Iterator[ContourPair]:
    for annotated_number, predicted_number in matched.pairs:
        annotated = _contour(matched.annotated == annotated_number, case.spacing)
        predicted = matched.predicted == predicted_number
        yield ContourPair.of(annotated, case.predicted_surface(label, predicted_number, predicted))


def _contour(inside: Booleans, spacing: Sequence[float] | None) -> Surface:
    """The contour of a mask; that of one of the last few is not looked for again."""
    return _known_contour(inside.tobytes(), inside.shape, None if spacing is None else tuple(spacing))


@lru_cache(maxsize=8)
def _known_contour(content: bytes, shape: tuple[int, ...], spacing: tuple[float, ...] | None) -> Surface:
    return surface_of_mask(np.frombuffer(content, dtype=np.bool_).reshape(shape), spacing)


def _offset_of(pairs: list[ContourPair]) -> CaseOffset | None:
    outward = _weighted(pairs, annotated=True)
    inward = _weighted(pairs, annotated=False)
    if outward is None or inward is None:
        return None
    offset = (np.average(outward[0], weights=outward[1]) - np.average(inward[0], weights=inward[1])) / 2
    along = np.concatenate([outward[0], -inward[0]])
    spread = np.median(np.abs(along - np.median(along)))
    return CaseOffset(float(offset), float(spread), len(pairs))


def _distances(of: Surface, to: Surface) -> Floats:
    """Signed distances of the points of a contour to another one, NaN where that may go on outside the image."""
    distances = to.signed_distances(of.points)
    if to.at_border:
        border = (np.array(to.inside.shape) - 0.5) * to.spacing
        first = of.points + 0.5 * np.array(to.spacing)
        room = np.minimum(first, border - of.points).min(axis=1)
        distances = np.where(np.abs(distances) > room, np.nan, distances)
    return distances


def _weighted(pairs: list[ContourPair], *, annotated: bool) -> tuple[Floats, Floats] | None:
    """Distances of all points that count, and how much of a contour each stands for."""
    if not pairs:
        return None
    distances = np.concatenate([pair.to_predicted if annotated else pair.to_annotated for pair in pairs])
    areas = np.concatenate([(pair.annotated if annotated else pair.predicted).areas for pair in pairs])
    known = np.isfinite(distances)
    return (distances[known], areas[known]) if areas[known].sum() > 0 else None
