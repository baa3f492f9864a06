"""What a site reports of the completeness of its annotations."""

from typing import Any

from torch import nn

from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...outbound.fields import MINIMUM_CASES
from ...outbound.private_statistics import SampleValues
from ...settings import RunSettings
from ..views import Answer
from .lesion_counts import count_lesions_by_case


def completeness_report(network: nn.Module, data: SiteData, settings: RunSettings) -> Answer:
    """Return how many lesions are annotated and found at a site (FedIA, Eq. 3); its fields leave the site.

    With fewer patients or volumes than the minimum count only the number of samples is reported.
    """
    report: dict[str, Any] = {"num_samples": data.num_samples}
    num_patients = len(set(data.units))
    if num_patients < MINIMUM_CASES:
        return Answer(report)
    counts = count_lesions_by_case(network, data.cases, settings.network.num_classes, Inference.of(settings))
    by_case = {
        "num_annotated_lesions": [case.annotated for case in counts],
        "num_predicted_lesions": [case.predicted for case in counts],
        "num_matched_lesions": [case.matched for case in counts],
    }
    units = [case.unit for case in data.cases]
    return Answer(
        report | {"num_patients": num_patients} | {name: sum(values) for name, values in by_case.items()},
        {name: SampleValues.of(values, units, is_mean=False) for name, values in by_case.items()},
    )
