"""Decoupled predictions: a global model, and at each site an adaptation of it (Gao et al., MICCAI 2022)."""

from ..declaration import Method
from ..personal import LEAVES
from .settings import DecoupledSettings

METHOD = Method(
    "decoupled",
    "segmentation",
    DecoupledSettings,
    f"{__name__}.server:DecoupledServer",
    f"{__name__}.site:DecoupledSite",
    LEAVES,
)
