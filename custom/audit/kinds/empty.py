"""Empty annotations at a site where almost every case has something annotated."""

from collections.abc import Sequence

from ..examined import ExaminedCase
from ..thresholds import THRESHOLDS
from .kind import Kind, Suspicion


class Empty(Kind[float]):
    """Cases without any annotation; what is typical is the fraction of the cases that have one.

    The only feature is whether anything is annotated.
    """

    name = "empty"
    threshold = 0.9

    def suspicions(self, case: ExaminedCase) -> list[Suspicion]:
        """Measure the whole case."""
        return [Suspicion(case.index, bool(case.annotation.any()))]

    def typical(self, given: Sequence[Suspicion]) -> float:
        """Return the fraction of the cases with an annotation; 0 of too few cases."""
        return sum(item.features for item in given) / len(given) if len(given) >= THRESHOLDS.min_cases_of_empty else 0.0

    def score(self, suspicion: Suspicion, typical: float) -> float:
        """Return that share for an empty annotation."""
        return 0.0 if suspicion.features else typical

    def figures(self, suspicion: Suspicion, typical: float) -> dict[str, float]:
        """Return ``annotated_share``: of the site's cases."""
        return {"annotated_share": typical}
