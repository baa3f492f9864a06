"""Settings of FedA³I."""

from typing import Annotated, Literal

from pydantic import Field

from ..fedavg.settings import WarmupSettings


class FedA3ISettings(WarmupSettings):
    """Settings of FedA³I: federated averaging for the warm-up, then quality-aware aggregation."""

    method: str = "feda3i"
    weighting: Literal["intra_and_inter", "intra"] = "intra_and_inter"
    balance: Annotated[float, Field(ge=0, le=1)] = 0.5
    layer_weight: float = 1.0
    layer_power: Annotated[float, Field(ge=0)] = 1.0
    layer_bias: float = 0.0
    group_decision: Literal["test", "shrink"] = "test"
    group_test_level: Annotated[float, Field(gt=0, le=1)] = 0.05
    min_predicted_share: Annotated[float, Field(ge=0, le=1)] = 0.5
