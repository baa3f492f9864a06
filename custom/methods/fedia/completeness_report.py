"""What a site reports of the completeness of its annotations."""

import math
from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from ...annotation_bias.estimate import three_digits
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer
from ...outbound.fields import MINIMUM_CASES
from ...outbound.private_statistics import SampleValues
from ...outbound.values import OutboundValues
from ...settings import RunSettings
from .lesion_counts import LesionCounts, count_lesions_by_case
from .outbound import ASSESSMENT, COUNTS
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
    if not settings.establishes_completeness or not _has_enough_patients(data):
        return count_report(network, data, settings)
    lesions = predict_lesions(network, data.cases, Inference.of(settings), smallest=settings.smallest_lesion)
    answer = _report(data, [case.counts for case in lesions])
    return replace(answer, fields={**answer.fields, **_assessment(lesions, settings.network.num_classes, seed)})


def count_report(network: nn.Module, data: SiteData, settings: RunSettings, counts: Sequence[str] = COUNTS) -> Answer:
    """Return lesion counts alone; with fewer patients than the minimum count as above.

    Args:
        network: the received model.
        data: the training cases, with the annotations in use.
        settings: the job's.
        counts: names of the counts that leave.
    """
    if not _has_enough_patients(data):
        return Answer({"num_samples": data.num_samples})
    inference = Inference.of(settings)
    by_case = count_lesions_by_case(network, data.cases, settings.network.num_classes, inference)
    return _report(data, by_case, counts)


def _has_enough_patients(data: SiteData) -> bool:
    return len(set(data.units)) >= MINIMUM_CASES


def _report(data: SiteData, counts: Sequence[LesionCounts], names: Sequence[str] = COUNTS) -> Answer:
    by_case = {f"num_{name}_lesions": [getattr(case, name) for case in counts] for name in names}
    units = [case.unit for case in data.cases]
    report: OutboundValues = {"num_samples": data.num_samples, "num_patients": len(set(data.units))}
    return Answer(
        report | {name: sum(values) for name, values in by_case.items()},
        {name: SampleValues.of(values, units, is_mean=False) for name, values in by_case.items()},
    )


def _assessment(lesions: Sequence[CaseLesions], num_classes: int, seed: int) -> dict[str, float]:
    """The completeness with its interval, and the model's recall and precision; nothing where it is not defined."""
    share = confident_completeness(lesions, num_classes, seed=seed)
    if not all(map(math.isfinite, (share.value, share.low, share.high))):
        return {}
    values = (share.value, share.low, share.high, lesion_recall(lesions), lesion_precision(lesions))
    return {name: three_digits(value) for name, value in zip(ASSESSMENT, values, strict=True)}
