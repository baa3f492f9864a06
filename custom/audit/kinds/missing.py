"""Missing objects: predicted where nothing is annotated, and much like the site's annotated objects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage, optimize

from ....transforms.array_types import Booleans, Classes, Floats
from ....transforms.surfaces import bounding_box
from ...annotation_bias.statuses import Evidence
from ..examined import ExaminedCase
from ..object_errors import ObjectLeftOut
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Measured, Suspicion
from .left_out import left_out
from .objects import object_at, suspicion_of

# Before a site's own objects are seen: the logit of the mean probability counts by one, a size tenfold the typical one
# by two, the border of the image and another annotated object beside by a little.
_BEFORE = np.array([-0.5, 1.0, 2.0, -0.5, 0.5])
_SMALLEST_PROBABILITY = 1e-3
# Farther from the next annotated object distance means nothing, in pixels.
_FAR = 20.0


@dataclass(frozen=True)
class RealObjects:
    """How predicted objects that are annotated, too, differ from the others at a site.

    Attributes:
        weights: of one and the features; see :class:`Missing`.
        pixels: typical size of annotated objects, by class.
    """

    weights: Floats
    pixels: dict[int, float]


class Missing(Kind[RealObjects]):
    """Predicted objects of at least five pixels of which nothing is annotated, u = P(real | what they look like).

    Features of every predicted object: whether it is annotated, its mean probability, whether it touches the border of
    the image, the distance to the nearest other annotated object in pixels, and its largest probability. P(real) is
    logistic, fitted to the site's own predicted objects, those that are annotated against the others; some of the
    others are real, so that it is rather too low. A case scores 1 − Π(1 − u).
    """

    name = "missing"
    error = ObjectLeftOut()

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure every predicted object of at least five pixels."""
        part, result = case.part, []
        if part is None:
            return []
        for label in range(1, case.num_classes + 1):
            matched = part.objects(label)
            partners = {number: given for given, number in matched.pairs}
            probability = np.asarray(part.predicted.probabilities[label], dtype=np.float64)
            for number, box in enumerate(ndimage.find_objects(matched.predicted), start=1):
                inside = matched.predicted == number
                pixels = np.count_nonzero(inside[box])
                if pixels < THRESHOLDS.min_object_pixels:
                    continue
                is_annotated = number in partners
                overlap = np.count_nonzero(part.annotated[box] & inside[box]) / pixels
                if not is_annotated and overlap > THRESHOLDS.max_annotated_part:
                    continue
                other = part.annotated & (matched.annotated != partners.get(number, -1))
                features = (
                    float(is_annotated),
                    float(probability[box][inside[box]].mean()),
                    float(part.touches_border(box)),
                    _distance(inside, other),
                    float(probability[box][inside[box]].max()),
                )
                result.append(suspicion_of(case.index, part, inside, features, (label,), annotated=False))
        return result

    def typical(self, given: Sequence[Suspicion]) -> RealObjects:
        """Fit P(real) to the site's predicted objects."""
        sizes: dict[int, list[float]] = {}
        for one in given:
            if one.features[0]:
                sizes.setdefault(one.labels[0], []).append(one.pixels or 1.0)
        pixels = {label: float(np.median(of_label)) for label, of_label in sizes.items()}
        table = np.array([_row(item, pixels) for item in given]).reshape(-1, len(_BEFORE))
        real = np.array([bool(item.features[0]) for item in given])
        return RealObjects(_fitted(table, real), pixels)

    def score(self, suspicion: Suspicion, typical: RealObjects) -> float:
        """Return u; 0 of objects that are annotated."""
        if suspicion.features[0]:
            return 0.0
        return 1 / (1 + math.exp(-float(np.clip(_row(suspicion, typical.pixels) @ typical.weights, -30, 30))))

    def of_case(self, scores: Sequence[float]) -> float:
        """Return the probability that any object is missing, 1 − Π(1 − u)."""
        return 1 - math.prod(1 - score for score in scores)

    def doubts(self, scores: Floats) -> Floats:
        """Return the scores where many are high: a site that leaves much out is no measure of what is right."""
        share = (
            (float(scores.mean()) - THRESHOLDS.complete_score)
            / (THRESHOLDS.incomplete_score - THRESHOLDS.complete_score)
            if len(scores)
            else 0.0
        )
        return scores * min(max(share, 0.0), 1.0)

    def figures(self, suspicion: Suspicion, typical: RealObjects) -> dict[str, float]:
        """Return ``probability``: the model's, on average over the object."""
        return {"probability": suspicion.features[1]}

    def of_site(self, measured: Sequence[Measured], typical: RealObjects, names: Sequence[str]) -> tuple[Evidence, ...]:
        """Return how many of the small, or else of all, objects of a class seem to be left out."""
        by_label: dict[int, list[Measured]] = {}
        for one in measured:
            by_label.setdefault(one.suspicion.labels[0], []).append(one)
        scored = {
            label: [(item, self.score(item.suspicion, typical), bool(item.suspicion.features[0])) for item in of_label]
            for label, of_label in by_label.items()
        }
        result = (left_out(scored[label], names[label]) for label in sorted(scored))
        return tuple(item for item in result if item is not None)

    def suggestion(self, suspicion: Suspicion, typical: RealObjects, masks: CaseMasks) -> Classes | None:
        """Return the annotation with the predicted object."""
        assert suspicion.place is not None
        given = suspicion.place.of(masks.annotation)
        result = object_at(masks.predicted, suspicion, suspicion.labels[0])
        return np.where((given == 0) & result, np.uint8(suspicion.labels[0]), given)


def _row(suspicion: Suspicion, pixels: dict[int, float]) -> Floats:
    """One and the features as P(real) takes them."""
    _, mean, at_border, distance, _ = suspicion.features
    p = min(max(mean, _SMALLEST_PROBABILITY), 1 - _SMALLEST_PROBABILITY)
    size = (suspicion.pixels or 1.0) / pixels.get(suspicion.labels[0], suspicion.pixels or 1.0)
    near = distance / _FAR
    return np.array([1.0, math.log(p / (1 - p)), min(math.log10(size), 0.0), at_border, near])


def _fitted(table: Floats, real: Booleans) -> Floats:
    """Weights of a logistic regression that stay near those of before where little is seen."""
    if not len(table):
        return _BEFORE

    def loss(weights: Floats) -> float:
        logits = table @ weights
        misfit = np.logaddexp(0.0, np.where(real, -logits, logits))
        return float(misfit.sum() + THRESHOLDS.missing_firmness * ((weights - _BEFORE) ** 2).sum())

    result: Floats = optimize.minimize(loss, _BEFORE, method="L-BFGS-B").x
    return result


def _distance(inside: Booleans, other: Booleans) -> float:
    """Distance in pixels from an object to the nearest other annotated pixel, at most so far that it means nothing."""
    box = bounding_box(inside, margin=int(_FAR))
    if not other[box].any():
        return _FAR
    away = ndimage.distance_transform_edt(~other[box])
    return float(min(np.asarray(away)[inside[box]].min(), _FAR))
