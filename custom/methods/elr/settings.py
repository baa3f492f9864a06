"""Settings of ELR, for segmentation and for classification."""

from typing import Annotated

from pydantic import Field

from ...settings import RunSettings
from ..fedavg.settings import ClassificationSettings, FedAvgSettings


class EarlyLearningSettings(RunSettings):
    """What both tasks share; the defaults are those of the federated comparisons.

    Args:
        early_learning_weight: λ, how much earlier predictions count relative to the loss; 0 is federated averaging. The
            authors have 1, 3 and 7 for pictures of ten and a hundred classes.
        prediction_momentum: β, how much of the average of earlier predictions stays at a visit. The authors have 0.7
            and 0.9; β = 0.99 is still warming up after a hundred visits, which are rounds × epochs.
    """

    method: str = "elr"
    early_learning_weight: Annotated[float, Field(ge=0)] = 1.0
    prediction_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.99


class ElrSettings(FedAvgSettings, EarlyLearningSettings):
    """Settings of ELR for segmentation."""

    method: str = "elr"


class ElrClassificationSettings(ClassificationSettings, EarlyLearningSettings):
    """Settings of ELR for classification."""

    method: str = "elr"

    @property
    def training_predictions(self) -> int | None:
        """Return 0."""
        return 0
