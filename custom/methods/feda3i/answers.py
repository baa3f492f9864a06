"""What sites answer in FedA³I, as the server reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class QualityAnswer:
    """A site's answer to ``estimate_quality``.

    Attributes:
        inner: q_in per class (Eq. 3); NaN where the site has no estimate.
        outer: q_out per class (Eq. 4), likewise.
        predicted_share: share of the annotated images where the model finds anything; None where it is withheld.
    """

    inner: tuple[float, ...]
    outer: tuple[float, ...]
    predicted_share: float | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "QualityAnswer":
        """Read the registered fields, which the guard has checked."""
        return cls(tuple(fields["inner_difficulty"]), tuple(fields["outer_difficulty"]), fields.get("predicted_share"))
