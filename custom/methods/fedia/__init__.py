"""FedIA: weights by the completeness of annotations, and corrections (Xiang et al., MICCAI 2024)."""

from ..declaration import Method
from .outbound import LEAVES
from .settings import FedIASettings

METHOD = Method(
    "fedia",
    "segmentation",
    FedIASettings,
    f"{__name__}.server:FedIAServer",
    f"{__name__}.site:FedIASite",
    LEAVES,
)
