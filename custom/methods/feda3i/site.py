"""FedA³I at a site: how hard its annotations are to learn, inside and outside their contours."""

from torch import nn

from ...data.datalist import TRAINING
from ...interface.views import Answer, SiteView
from ..fedavg.site import FedAvgSite
from .quality_report import quality_report


class FedA3ISite(FedAvgSite):
    """Trains as in federated averaging, and reports its learning difficulty when it is asked (Eq. 3 and 4)."""

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_quality``."""
        del task
        return quality_report(network, site.load(TRAINING), self.settings)
