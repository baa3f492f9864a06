"""Settings of FedMix's aggregation."""

from typing import Annotated

from pydantic import Field

from ..fedavg.settings import FedAvgSettings


class FedMixSettings(FedAvgSettings):
    """Settings of FedMix's aggregation, which weighs sites by their Dice losses.

    Args:
        loss_weight: λ, how much the losses count, where the numbers of samples have 1; 0 is federated averaging.
        loss_exponent: β, how much a larger loss counts; the authors have 1.5 for breast ultrasound.
    """

    method: str = "fedmix"
    loss_weight: Annotated[float, Field(ge=0)] = 10.0
    loss_exponent: Annotated[float, Field(ge=0)] = 1.5

    @property
    def reports_dice_loss(self) -> bool:
        """Always: weights follow from it."""
        return True
