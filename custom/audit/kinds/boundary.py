"""Contours: objects whose contour lies farther outside or inside than this site's contours typically do."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ....transforms.array_types import Booleans, Classes
from ..case_errors import DrawnTooLargeOrSmall
from ..contour_evidence import ContourEvidence, TypicalContours, contour_evidence
from ..examined import ExaminedCase
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Suspicion
from .objects import object_at, suspicion_of


class Boundary(Kind[Mapping[int, TypicalContours]]):
    """Contours too large or too small: |δ| over its deviation, and over the object's radius.

    δ is by how far a contour lies farther outside than is typical at the site, seen by the prediction, by the size, and
    by where the image has its edge: an early model knows sizes better than contours, and edges owe nothing to it.
    What all of the site's contours have in common is not a problem of a case. Features are the evidence of the object.
    """

    name = "boundary"
    threshold = 0.5
    error = DrawnTooLargeOrSmall()

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure every annotated object of at least five pixels."""
        part, result = case.part, []
        if part is None:
            return []
        for label in range(1, case.num_classes + 1):
            predicted = part.objects(label).predicted
            for _, partner, inside, evidence in contour_evidence(case, part, label):
                result.append(
                    suspicion_of(
                        case.index,
                        part,
                        inside,
                        evidence,
                        (label,),
                        annotated=True,
                        with_predicted=None if partner is None else predicted == partner,
                    )
                )
        return result

    def typical(self, given: Sequence[Suspicion]) -> Mapping[int, TypicalContours]:
        """Return what is typical, class by class."""
        by_label: dict[int, list[ContourEvidence]] = {}
        for item in given:
            by_label.setdefault(item.labels[0], []).append(item.features)
        return {label: TypicalContours.of(evidence) for label, evidence in by_label.items()}

    def score(self, suspicion: Suspicion, typical: Mapping[int, TypicalContours]) -> float:
        """Return the score of the geometric mean of both measures."""
        result = _displacement(suspicion, typical)
        if result is None:
            return 0.0
        amount, deviation = result
        measure = abs(amount) * math.sqrt(
            1
            / (
                deviation
                * THRESHOLDS.boundary_deviations
                * suspicion.features.radius
                * THRESHOLDS.boundary_radius_fraction
            )
        )
        return measure / (1 + measure)

    def amount(self, suspicion: Suspicion, typical: Mapping[int, TypicalContours]) -> float | None:
        """Return δ: by how far the contour lies too far outside."""
        result = _displacement(suspicion, typical)
        return None if result is None else result[0]

    def suggestion(
        self, suspicion: Suspicion, typical: Mapping[int, TypicalContours], masks: CaseMasks
    ) -> Classes | None:
        """Return the predicted object in place of the annotated one, moved by what is typical at the site.

        Where no predicted object matches, the annotated one with its contour moved back.
        """
        assert suspicion.place is not None
        label = suspicion.labels[0]
        given = suspicion.place.of(masks.annotation)
        own = object_at(masks.annotation, suspicion, label)
        if math.isnan(suspicion.features.by_model):
            result = _moved(own, -(self.amount(suspicion, typical) or 0.0), masks.spacing)
        else:
            result = object_at(masks.predicted, suspicion, label)
            if abs(typical[label].offset) >= THRESHOLDS.min_followed_offset:
                result = _moved(result, typical[label].offset, masks.spacing)
        rest = np.where(own, np.uint8(0), given)
        return np.where((rest == 0) & result, np.uint8(label), rest)


def _displacement(suspicion: Suspicion, typical: Mapping[int, TypicalContours]) -> tuple[float, float] | None:
    known = typical.get(suspicion.labels[0])
    return None if known is None else known.displacement(suspicion.features)


def _moved(inside: Booleans, offset: float, spacing: tuple[float, ...] | None) -> Booleans:
    """An object with its contour moved; slices ``(samples, h, w)`` each by itself."""
    # MONAI takes 2 s, and few sites' contours are moved.
    from ....transforms.move_contour import MoveContour  # noqa: PLC0415

    move = MoveContour(offset)
    if spacing is None or len(spacing) == inside.ndim:
        return np.asarray(np.asarray(move(inside.astype(np.uint8), spacing)) != 0)
    return np.asarray(np.stack([np.asarray(move(plane.astype(np.uint8), spacing)) != 0 for plane in inside]))
