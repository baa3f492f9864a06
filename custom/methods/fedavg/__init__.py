"""Federated averaging (McMahan et al., AISTATS 2017), for segmentation and for classification."""

from ..declaration import Method
from .settings import ClassificationSettings, FedAvgSettings

_HALVES = (f"{__name__}.server:FedAvgServer", f"{__name__}.site:FedAvgSite")

METHODS = (
    Method("fedavg", "segmentation", FedAvgSettings, *_HALVES),
    Method("fedavg", "classification", ClassificationSettings, *_HALVES),
)
