"""Settings of FedCurv."""

from typing import Annotated, ClassVar

from pydantic import Field

from ...settings import NetworkSettings
from ..fedavg.settings import FedAvgSettings


class CurvatureNetworkSettings(NetworkSettings):
    """A network that carries the curvature of the sites' losses.

    See :mod:`fedannot.custom.methods.fedcurv.curvature`.
    """

    wrapper: ClassVar[str] = "fedannot.custom.methods.fedcurv.curvature:with_curvature"


class FedCurvSettings(FedAvgSettings):
    """Settings of FedCurv: federated averaging that keeps what bends the other sites' losses.

    Args:
        curvature_weight: λ.
    """

    method: str = "fedcurv"
    network: CurvatureNetworkSettings = CurvatureNetworkSettings()
    curvature_weight: Annotated[float, Field(ge=0)] = 1.0

    @property
    def training_predictions(self) -> int | None:
        """Return None: curvatures are computed over all samples in every round."""
        return None
