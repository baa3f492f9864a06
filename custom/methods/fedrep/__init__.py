"""FedRep: the representation is averaged, every site has a head of its own (Collins et al., ICML 2021)."""

from ..declaration import Method
from ..personal import LEAVES, PERSONAL_SERVER
from .settings import FedRepSettings

METHOD = Method(
    "fedrep",
    "segmentation",
    FedRepSettings,
    PERSONAL_SERVER,
    f"{__name__}.site:FedRepSite",
    LEAVES,
)
