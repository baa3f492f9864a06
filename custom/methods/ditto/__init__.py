"""Ditto: federated averaging, and beside it a model of each site near the global one (Li et al., ICML 2021)."""

from ..declaration import Method
from ..personal import LEAVES, PERSONAL_SERVER
from .settings import DittoSettings

METHOD = Method(
    "ditto",
    "segmentation",
    DittoSettings,
    PERSONAL_SERVER,
    f"{__name__}.site:DittoSite",
    LEAVES,
)
