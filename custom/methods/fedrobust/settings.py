"""Settings of FedRobust, for segmentation and for classification."""

from typing import Annotated

from pydantic import Field

from ...settings import RunSettings
from ..fedavg.settings import ClassificationSettings, FedAvgSettings


class RobustSettings(RunSettings):
    """What both tasks share.

    Args:
        change_penalty: λ, how much a change of the images costs the adversary: the larger, the smaller it is.
        ascent_step: s, the adversary's step in units of 1/(2λ): 1 is the way to where loss and penalty balance if the
            gradient stays as it is; 0 is federated averaging.
    """

    method: str = "fedrobust"
    change_penalty: Annotated[float, Field(gt=0)] = 1.0
    ascent_step: Annotated[float, Field(ge=0, le=1)] = 0.1


class FedRobustSettings(FedAvgSettings, RobustSettings):
    """Settings of FedRobust for segmentation."""

    method: str = "fedrobust"


class FedRobustClassificationSettings(ClassificationSettings, RobustSettings):
    """Settings of FedRobust for classification."""

    method: str = "fedrobust"

    @property
    def training_predictions(self) -> int | None:
        """Return 0."""
        return 0
