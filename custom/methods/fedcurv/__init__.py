"""FedCurv: federated averaging that keeps what bends the other sites' losses (Shoham et al., 2019)."""

from ..declaration import Method
from .settings import FedCurvSettings

METHOD = Method(
    "fedcurv",
    "segmentation",
    FedCurvSettings,
    f"{__name__}.server:FedCurvServer",
    f"{__name__}.site:FedCurvSite",
)
