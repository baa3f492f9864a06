"""Misaligned annotations: they would fit the image if they were shifted or mirrored."""

from collections.abc import Sequence

from ....transforms.array_types import Classes
from ..alignment import alignment
from ..case_errors import ShiftedOrFlipped, moved
from ..examined import ExaminedCase, as_samples, as_volume
from ..findings import Unit
from ..thresholds import THRESHOLDS
from .kind import CaseMasks, Kind, Suspicion


class Misaligned(Kind[None]):
    """Shifted or mirrored annotations: the gain in Dice of the best shift or flip, the only feature."""

    name = "misaligned"
    title = "Annotations shifted or mirrored"
    error = ShiftedOrFlipped()
    explains = ("boundary", "missing", "spurious", "swapped")

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure the whole case."""
        found = alignment(case.whole)
        if found is None:
            return []
        return [
            Suspicion(case.index, found, disagreement=1 - min(found.dice, 1.0), uncertainty=2 * (1 - found.sureness))
        ]

    def usual(self, given: Sequence[Suspicion]) -> None:
        """Return nothing: a gain is a gain."""

    def score(self, suspicion: Suspicion, usual: None) -> float:
        """Return gain / (gain + 0.15)."""
        gain: float = suspicion.features.gain
        return gain / (gain + THRESHOLDS.misaligned_gain)

    def sentence(self, suspicion: Suspicion, usual: None, names: Sequence[str], unit: Unit) -> str:
        """Say how it would fit."""
        movement = suspicion.features.movement
        steps = max(abs(step) for step in movement.steps)
        how = [*(["mirrored"] if movement.flipped else []), *([f"shifted by {steps} pixels"] if steps else [])]
        return f"The annotation would fit the image better if it were {' and '.join(how) or 'moved'}."

    def suggestion(self, suspicion: Suspicion, usual: None, masks: CaseMasks) -> Classes | None:
        """Return the whole annotation moved."""
        return as_samples(moved(as_volume(masks.annotation), suspicion.features.movement), len(masks.annotation))
