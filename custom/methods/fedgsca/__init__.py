"""FedGSCA: a global sample selector tells clean from noisy labels at every site (Ye et al., 2025)."""

from ..declaration import Method
from .outbound import LEAVES
from .settings import FedGSCASettings

METHOD = Method(
    "fedgsca",
    "classification",
    FedGSCASettings,
    f"{__name__}.server:FedGSCAServer",
    f"{__name__}.site:FedGSCASite",
    LEAVES,
)
