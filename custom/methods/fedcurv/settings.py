"""Settings of FedCurv."""

from typing import Annotated

from pydantic import Field

from ...settings import CurvatureNetworkSettings
from ..fedavg.settings import FedAvgSettings


class FedCurvSettings(FedAvgSettings):
    """Settings of FedCurv: federated averaging that keeps what bends the other sites' losses.

    Args:
        curvature_weight: λ.
    """

    method: str = "fedcurv"
    network: CurvatureNetworkSettings = CurvatureNetworkSettings()
    curvature_weight: Annotated[float, Field(ge=0)] = 1.0
