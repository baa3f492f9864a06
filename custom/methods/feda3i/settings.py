"""Settings of FedA³I."""

from typing import Annotated, Literal

from pydantic import Field

from ..fedavg.settings import WarmupSettings


class FedA3ISettings(WarmupSettings):
    """Settings of FedA³I: federated averaging for the warm-up, then quality-aware aggregation.

    Args:
        weighting: ``intra_and_inter`` is Eq. 6; ``intra`` weighs inside the groups alone, the paper's ablation.
        balance: r, the fraction of the weight that the group of larger contours gets.
        layer_weight: factor of λ(j).
        layer_power: exponent of λ(j).
        layer_bias: added to λ(j).
        group_decision: ``test`` decides between two groups and one; with ``shrink`` quality counts by the evidence.
        group_scale: what the groups are looked for in: ``difficulty``, q as in the paper, or its ``log``. The latter
            finds fewer groups where all sites err in one direction, and fewer where there are two.
        group_test_level: level of the test; 1 switches it off.
        min_predicted_fraction: the warm-up goes on while the model finds anything in fewer of the annotated images.
    """

    method: str = "feda3i"
    weighting: Literal["intra_and_inter", "intra"] = "intra_and_inter"
    balance: Annotated[float, Field(ge=0, le=1)] = 0.5
    layer_weight: float = 1.0
    layer_power: Annotated[float, Field(ge=0)] = 1.0
    layer_bias: float = 0.0
    group_decision: Literal["test", "shrink"] = "test"
    group_scale: Literal["difficulty", "log"] = "difficulty"
    group_test_level: Annotated[float, Field(gt=0, le=1)] = 0.05
    min_predicted_fraction: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def training_predictions(self) -> int | None:
        """Return 1, of the estimate after the warm-up."""
        return 1
