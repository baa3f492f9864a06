"""Empty annotations at a site where almost every case has something annotated."""

from collections.abc import Sequence

from ..examined import ExaminedCase
from ..findings import Unit
from ..thresholds import THRESHOLDS
from .kind import Kind, Suspicion


class Empty(Kind[float]):
    """Cases without any annotation; what is usual is the share of the cases that have one.

    The only feature is whether anything is annotated.
    """

    name = "empty"
    title = "Empty annotations"
    threshold = 0.9

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure the whole case."""
        return [Suspicion(case.index, bool(case.annotation.any()))]

    def usual(self, given: Sequence[Suspicion]) -> float:
        """Return the share of the cases with an annotation; 0 of too few cases."""
        return sum(one.features for one in given) / len(given) if len(given) >= THRESHOLDS.min_cases_of_empty else 0.0

    def score(self, suspicion: Suspicion, usual: float) -> float:
        """Return that share for an empty annotation."""
        return 0.0 if suspicion.features else usual

    def sentence(self, suspicion: Suspicion, usual: float, names: Sequence[str], unit: Unit) -> str:
        """Say how usual that is."""
        return f"Nothing is annotated, while {100 * usual:.0f} % of this site's cases have an annotation."
