"""What a site reports of the completeness of its annotations."""

import math
from collections.abc import Sequence

from torch import nn

from ...annotation_bias.estimate import three_digits
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer
from ...outbound.fields import MINIMUM_CASES
from ...outbound.private_statistics import SampleValues
from ...outbound.values import OutboundValues
from .lesion_counts import count_lesions_by_case
from .outbound import ASSESSMENT
from .predicted_lesions import CaseLesions, confident_completeness, lesion_precision, lesion_recall, predict_lesions
from .settings import FedIASettings


def completeness_report(network: nn.Module, data: SiteData, settings: FedIASettings, *, seed: int) -> Answer:
    """Return how many lesions are annotated and found at a site (FedIA, Eq. 3); its fields leave the site.

    Where the completeness has to be confirmed, it is there with its interval, and what the model is fit as a reference.
    With fewer patients or volumes than the minimum count only the number of samples is reported.

    Args:
        network: the received model.
        data: the training cases, with the annotations in use.
        settings: the job's.
        seed: decides the interval.
    """
    report: OutboundValues = {"num_samples": data.num_samples}
    num_patients = len(set(data.units))
    if num_patients < MINIMUM_CASES:
        return Answer(report)
    inference, assessment = Inference.of(settings), dict[str, float]()
    if settings.establishes_completeness:
        lesions = predict_lesions(network, data.cases, inference, smallest=settings.smallest_lesion)
        counts, assessment = [case.counts for case in lesions], _assessment(lesions, settings.network.num_classes, seed)
    else:
        counts = count_lesions_by_case(network, data.cases, settings.network.num_classes, inference)
    by_case = {
        "num_annotated_lesions": [case.annotated for case in counts],
        "num_predicted_lesions": [case.predicted for case in counts],
        "num_matched_lesions": [case.matched for case in counts],
    }
    units = [case.unit for case in data.cases]
    return Answer(
        report | {"num_patients": num_patients} | {name: sum(values) for name, values in by_case.items()} | assessment,
        {name: SampleValues.of(values, units, is_mean=False) for name, values in by_case.items()},
    )


def _assessment(lesions: Sequence[CaseLesions], num_classes: int, seed: int) -> dict[str, float]:
    """The completeness with its interval, and the model's recall and precision; nothing where it is not defined."""
    share = confident_completeness(lesions, num_classes, seed=seed)
    if not all(map(math.isfinite, (share.value, share.low, share.high))):
        return {}
    values = (share.value, share.low, share.high, lesion_recall(lesions), lesion_precision(lesions))
    return {name: three_digits(value) for name, value in zip(ASSESSMENT, values, strict=True)}
