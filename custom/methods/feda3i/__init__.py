"""FedA³I: annotation quality-aware aggregation (Wu et al., AAAI 2024)."""

from ..declaration import Method
from .outbound import LEAVES
from .settings import FedA3ISettings

METHOD = Method(
    "feda3i",
    "segmentation",
    FedA3ISettings,
    f"{__name__}.server:FedA3IServer",
    f"{__name__}.site:FedA3ISite",
    LEAVES,
)
