"""What sites answer in FedIA, as the server reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LesionCounts:
    """A site's answer to ``estimate_completeness``.

    Attributes:
        annotated: Σ c^n (Eq. 3).
        predicted: Σ c^p.
        matched: predicted lesions that touch an annotated one.
    """

    annotated: int
    predicted: int
    matched: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "LesionCounts | None":
        """Read the registered fields, which the guard has checked; None where the site has too few patients."""
        if "num_predicted_lesions" not in fields:
            return None
        return cls(*(int(fields[f"num_{name}_lesions"]) for name in ("annotated", "predicted", "matched")))
