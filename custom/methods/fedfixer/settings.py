"""Settings of FedFixer."""

from typing import Annotated

from pydantic import Field

from ...settings import Positive
from ..fedavg.settings import ClassificationSettings, EndingWarmup


class FedFixerSettings(ClassificationSettings, EndingWarmup):
    """Settings of FedFixer.

    Args:
        warmup_rounds: rounds of federated averaging before samples are chosen, fewer than all.
        confidence_weight: β, how much a loss of other classes counts for the model: the larger, the more certain its
            predictions become.
        personal_proximal_weight: λ, how near the site's own model is kept to the global one.
    """

    method: str = "fedfixer"
    warmup_rounds: Positive = 30
    confidence_weight: Annotated[float, Field(ge=0)] = 0.1
    personal_proximal_weight: Annotated[float, Field(ge=0)] = 1.0

    @property
    def step_factor(self) -> float:
        """After the warm-up two models are trained, each on most samples."""
        return 1 + max(self.rounds - self.warmup_rounds, 0) / self.rounds
