"""What sites answer in FedIA, as the server reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .completeness import Assessment
from .outbound import ASSESSMENT, COUNTS


@dataclass(frozen=True)
class LesionCounts:
    """A site's answer to ``estimate_completeness``.

    Attributes:
        annotated: Σ c^n (Eq. 3).
        predicted: Σ c^p.
        matched: predicted lesions that touch an annotated one.
        assessment: the interval of the completeness, None where the site does not send it.
    """

    annotated: int
    predicted: int
    matched: int
    assessment: Assessment | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "LesionCounts | None":
        """Read the registered fields, which the guard has checked; None where the site has too few patients."""
        if "num_predicted_lesions" not in fields:
            return None
        annotated, predicted, matched = (int(fields[f"num_{name}_lesions"]) for name in COUNTS)
        assessment = Assessment(*(fields[name] for name in ASSESSMENT)) if "completeness" in fields else None
        return cls(annotated, predicted, matched, assessment)
