"""Misaligned annotations: they would fit the image if they were shifted or mirrored."""

from collections.abc import Sequence

from ....transforms.array_types import Classes
from ..alignment import alignment
from ..case_errors import ShiftedOrFlipped, moved
from ..examined import ExaminedCase, as_samples, as_volume
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Suspicion


class Misaligned(Kind[None]):
    """Shifted or mirrored annotations: the gain in Dice of the best shift or flip, the only feature."""

    name = "misaligned"
    error = ShiftedOrFlipped()
    explains = ("boundary", "missing", "spurious", "swapped")

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure the whole case."""
        result = alignment(case.whole)
        if result is None:
            return []
        return [
            Suspicion(
                case.index, result, disagreement=1 - min(result.dice, 1.0), uncertainty=2 * (1 - result.confidence)
            )
        ]

    def typical(self, given: Sequence[Suspicion]) -> None:
        """Return nothing: a gain is a gain."""

    def score(self, suspicion: Suspicion, typical: None) -> float:
        """Return gain / (gain + 0.15)."""
        gain: float = suspicion.features.gain
        return gain / (gain + THRESHOLDS.misaligned_gain)

    def figures(self, suspicion: Suspicion, typical: None) -> dict[str, float]:
        """Return ``shift`` in pixels, and ``mirrored``, 0 or 1: how the annotation would fit."""
        movement = suspicion.features.movement
        return {"shift": max(abs(step) for step in movement.steps), "mirrored": int(bool(movement.flipped))}

    def suggestion(self, suspicion: Suspicion, typical: None, masks: CaseMasks) -> Classes | None:
        """Return the whole annotation moved."""
        return as_samples(moved(as_volume(masks.annotation), suspicion.features.movement), len(masks.annotation))
