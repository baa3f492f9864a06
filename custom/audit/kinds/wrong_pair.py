"""Wrong pairs: the annotation is that of another image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....transforms.array_types import Classes, SingleFloats
from ..alignment import THUMBNAIL_SIDES, Alignment, alignment, thumbnail, thumbnail_containment, thumbnail_dice
from ..case_errors import AnotherCasesAnnotation
from ..examined import ExaminedCase
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Suspicion


@dataclass(frozen=True)
class PairFeatures:
    """What is kept of a case: small pictures of annotation and predicted foreground, and how they lie."""

    annotated: SingleFloats
    predicted: SingleFloats
    aligned: Alignment | None


class WrongPair(Kind[dict[int, SingleFloats]]):
    """Annotations of other images: another case of the site fits better, or nothing fits a confident model.

    Annotation and prediction are compared as small pictures, so that all pairs of a site's cases can be. What is
    typical are the predictions of the site's cases.
    """

    name = "wrong_pair"
    error = AnotherCasesAnnotation()
    explains = ("boundary", "missing", "spurious", "swapped")

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure the whole case."""
        whole = case.whole
        annotated = (whole.annotation != 0) & (whole.annotation != 255)
        side = THUMBNAIL_SIDES[annotated.ndim]
        result = alignment(whole)
        features = PairFeatures(
            thumbnail(annotated.astype(np.float32), side),
            thumbnail(1 - np.asarray(whole.probabilities[0]), side),
            result,
        )
        disagreement = 1.0 if result is None else 1 - min(result.dice, 1.0)
        return [
            Suspicion(
                case.index,
                features,
                disagreement=disagreement,
                uncertainty=0.0 if result is None else 2 * (1 - result.confidence),
            )
        ]

    def typical(self, given: Sequence[Suspicion]) -> dict[int, SingleFloats]:
        """Return the predictions of all cases."""
        return {item.case: item.features.predicted for item in given}

    def score(self, suspicion: Suspicion, typical: dict[int, SingleFloats]) -> float:
        """Return how much better another case's prediction fits, or that nothing does."""
        annotated = suspicion.features.annotated
        if suspicion.features.aligned is None:
            # Nothing is annotated, or the model sees nothing: it says nothing of what belongs there.
            return 0.0
        own = thumbnail_dice(annotated, typical[suspicion.case])
        others = [thumbnail_dice(annotated, predicted) for case, predicted in typical.items() if case != suspicion.case]
        contained = (thumbnail_containment(annotated, typical[suspicion.case]) - THRESHOLDS.contained_from) / (
            1 - THRESHOLDS.contained_from
        )
        margin = max(others, default=0.0) - own - THRESHOLDS.contained_margin * max(contained, 0.0)
        return max(
            float(1 / (1 + np.exp(-(margin - THRESHOLDS.wrong_pair_margin) / THRESHOLDS.wrong_pair_width))),
            _fits_nowhere(suspicion.features.aligned),
        )

    def suggestion(self, suspicion: Suspicion, typical: dict[int, SingleFloats], masks: CaseMasks) -> Classes | None:
        """Return the prediction."""
        return masks.predicted.copy()


def _fits_nowhere(aligned: Alignment) -> float:
    best = aligned.dice + aligned.gain
    return max(0.0, 1 - best / THRESHOLDS.min_dice_of_pair / 2) * (2 * aligned.confidence - 1)
