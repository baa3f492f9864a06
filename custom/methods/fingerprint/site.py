"""A fingerprint at a site."""

from torch import nn

from ...data.description import read_site_description
from ...interface.views import Answer, SiteView
from ...outbound.fields import MINIMUM_CASES
from ...planning.fingerprint import site_fingerprint
from ..fedavg.site import FedAvgSite


class FingerprintSite(FedAvgSite):
    """Describes the site's training cases as they lie in their files."""

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Return means over the site's cases; the number of cases alone where they are of too few patients.

        Raises:
            DataError: if no case can be read.
        """
        del task, network
        folder = site.locate().folder
        found = site_fingerprint(folder, read_site_description(folder), site=site.name)
        fields = found.as_fields()
        if found.num_patients < MINIMUM_CASES:
            site.warning(f"{found.num_patients} patients are too few for a fingerprint; at least {MINIMUM_CASES}.")
            fields = {"num_samples": found.num_cases}
        return Answer(fields)
