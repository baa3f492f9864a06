"""Contours: objects whose contour lies farther outside or inside than this site's contours usually do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...channel.offset import object_offsets
from ..case_errors import DrawnTooLargeOrSmall
from ..examined import ExaminedCase
from ..findings import Unit
from .kind import CaseMasks, Kind, Suspicion
from .objects import object_at, suspicion_of

Classes = NDArray[np.uint8]

# Of a class with fewer objects the deviation is an accident; and contours on a grid are no finer than this.
_LEAST_DEVIATION = 0.25
# Makes a median absolute deviation the standard deviation of a normal distribution.
_NORMAL_DEVIATION = 1.4826
# Deviations and share of the radius at which the score is one half.
_DEVIATIONS, _SHARE = 4.0, 0.15
# A systematic offset below it is not followed by suggestions, in pixels or millimetres.
_LEAST_OFFSET = 0.5


@dataclass(frozen=True)
class UsualContours:
    """How a site draws the contours of a class.

    Attributes:
        offset: the median offset from the predicted contours, positive outside.
        deviation: of an object's offset from it, as a standard deviation.
    """

    offset: float
    deviation: float


class Boundary(Kind[Mapping[int, UsualContours]]):
    """Contours too large or too small: |b − β| over the site's deviation, and over the object's radius.

    What all of the site's contours have in common, β, is not a problem of a case. Features are the object's offset b,
    its equivalent radius, and the spread of the distances along its contour; lengths in millimetres, pixels without
    spacing.
    """

    name = "boundary"
    title = "Contours too large or too small"
    threshold = 0.6
    error = DrawnTooLargeOrSmall()

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure every annotated object that is predicted, too."""
        part, found = case.part, []
        if part is None:
            return []
        for label in range(1, case.num_classes + 1):
            matched = part.objects(label)
            for given, predicted, offset in object_offsets(part.judged, label, matched):
                inside = matched.annotated == given
                radius = _radius(float(np.count_nonzero(inside)), part.judged.spacing, inside.ndim)
                found.append(
                    suspicion_of(
                        case.index,
                        part,
                        inside,
                        (offset.offset, radius, offset.spread),
                        (label,),
                        annotated=True,
                        with_predicted=matched.predicted == predicted,
                    )
                )
        return found

    def usual(self, given: Sequence[Suspicion]) -> Mapping[int, UsualContours]:
        """Return the median offset and the deviation from it, class by class."""
        by_label: dict[int, list[float]] = {}
        for one in given:
            by_label.setdefault(one.labels[0], []).append(one.features[0])
        result = {}
        for label, offsets in by_label.items():
            median = float(np.median(offsets))
            deviation = _NORMAL_DEVIATION * float(np.median(np.abs(np.array(offsets) - median)))
            result[label] = UsualContours(median, max(deviation, _LEAST_DEVIATION))
        return result

    def score(self, suspicion: Suspicion, usual: Mapping[int, UsualContours]) -> float:
        """Return the score of the geometric mean of both measures."""
        amount = self.amount(suspicion, usual)
        if amount is None:
            return 0.0
        deviations = abs(amount) / usual[suspicion.labels[0]].deviation / _DEVIATIONS
        share = abs(amount) / suspicion.features[1] / _SHARE
        measure = math.sqrt(deviations * share)
        return measure / (1 + measure)

    def amount(self, suspicion: Suspicion, usual: Mapping[int, UsualContours]) -> float | None:
        """Return b − β: by how far the contour lies too far outside."""
        known = usual.get(suspicion.labels[0])
        return None if known is None else float(suspicion.features[0] - known.offset)

    def sentence(
        self, suspicion: Suspicion, usual: Mapping[int, UsualContours], names: Sequence[str], unit: Unit
    ) -> str:
        """Say by how much, and in which direction."""
        amount = self.amount(suspicion, usual) or 0.0
        direction = "outside" if amount > 0 else "inside"
        return (
            f"The contour of {names[suspicion.labels[0]]} lies {abs(amount):.1f} {unit} farther {direction} than "
            "this site's contours usually do."
        )

    def suggestion(self, suspicion: Suspicion, usual: Mapping[int, UsualContours], masks: CaseMasks) -> Classes | None:
        """Return the predicted object in place of the annotated one, moved by what is usual at the site."""
        assert suspicion.place is not None
        label = suspicion.labels[0]
        given = suspicion.place.of(masks.annotation)
        found = object_at(masks.predicted, suspicion, label)
        offset = usual[label].offset
        if abs(offset) >= _LEAST_OFFSET:
            found = _moved(found, offset, masks.spacing)
        own = object_at(masks.annotation, suspicion, label)
        rest = np.where(own, np.uint8(0), given)
        return np.where((rest == 0) & found, np.uint8(label), rest)


def _moved(inside: NDArray[np.bool_], offset: float, spacing: tuple[float, ...] | None) -> NDArray[np.bool_]:
    """An object with its contour moved; slices ``(samples, h, w)`` each by itself."""
    # MONAI takes 2 s, and few sites' contours are moved.
    from ....transforms.move_contour import MoveContour  # noqa: PLC0415

    move = MoveContour(offset)
    if spacing is None or len(spacing) == inside.ndim:
        return np.asarray(np.asarray(move(inside.astype(np.uint8), spacing)) != 0)
    return np.asarray(np.stack([np.asarray(move(plane.astype(np.uint8), spacing)) != 0 for plane in inside]))


def _radius(pixels: float, spacing: Sequence[float] | None, num_axes: int) -> float:
    """The radius of the disc or ball of the same size."""
    size = pixels * (1.0 if spacing is None else math.prod(spacing))
    return math.sqrt(size / math.pi) if num_axes == 2 else (size * 3 / (4 * math.pi)) ** (1 / 3)
