"""Settings of FedIA."""

from typing import Annotated, Literal

from pydantic import Field

from ..fedavg.settings import WarmupSettings


class FedIASettings(WarmupSettings):
    """Settings of FedIA: federated averaging for the warm-up, then weights by completeness, and corrections.

    Args:
        weighting: ``completeness`` is Eq. 4 and 5; ``quantity`` is the ablation without.
        estimator: ``counts`` is Eq. 3; ``matched`` counts among the predicted lesions those that are annotated.
        correction: whether sites correct their annotations; off is the ablation without.
        correction_margin: λ of Eq. 7.
        correction_threshold: τ, the probability from which a background voxel becomes foreground.
    """

    method: str = "fedia"
    weighting: Literal["completeness", "quantity"] = "completeness"
    estimator: Literal["counts", "matched"] = "counts"
    correction: bool = True
    correction_margin: float = 0.03
    correction_threshold: Annotated[float, Field(ge=0.5, lt=1)] = 0.8

    @property
    def reports_dice_loss(self) -> bool:
        """Always: weights and corrections follow from it."""
        return True
