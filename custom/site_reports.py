"""What a site reports of itself: the fields of the outbound registry, made from its data and the received model."""

import math
from collections.abc import Sequence
from typing import Any

from torch import nn

from .data.site_data import SiteData
from .inference import Inference
from .outbound import MINIMUM_CASES
from .settings import FedAvgSettings


def training_report(data: SiteData, mean_loss: float, *, embedded: bool) -> dict[str, Any]:
    """Return what goes with a trained model; leaves the site.

    The mean loss is held back where fewer than the minimum number of patients or volumes stand behind it.
    """
    report: dict[str, Any] = {
        "num_samples": data.num_samples,
        "num_excluded": len(data.excluded),
        "embedded_data": embedded,
    }
    num_patients = len(set(data.units))
    if num_patients >= MINIMUM_CASES:
        report |= {"train_loss": mean_loss, "num_patients": num_patients}
    return report


def quality_report(network: nn.Module, data: SiteData, settings: FedAvgSettings) -> dict[str, Any]:
    """Return the learning difficulty of a site (FedA³I, Eq. 3 and 4); leaves the site.

    A class with usable samples of fewer patients or volumes than the minimum count is NaN: the site has no estimate for
    it.
    """
    from .quality.learning_difficulty import site_difficulty

    difficulty = site_difficulty(network, data.cases, settings.network.num_classes, Inference.of(settings))
    counts = [int(count) for count in difficulty.num_units]
    report: dict[str, Any] = {
        "num_samples": data.num_samples,
        "num_annotated": difficulty.annotated_units,
        "num_estimated": counts,
        "inner_difficulty": _withhold(difficulty.inner, counts),
        "outer_difficulty": _withhold(difficulty.outer, counts),
    }
    if difficulty.annotated_units >= MINIMUM_CASES:
        report["predicted_share"] = float(difficulty.predicted_share)
    return report


def validation_report(network: nn.Module, data: SiteData | None, settings: FedAvgSettings) -> dict[str, Any]:
    """Return the mean scores on the site's own validation cases; leaves the site.

    The slices of a volume are one case. With fewer patients or volumes than the minimum count only the number of cases
    is reported, 0 for a site without any.
    """
    report: dict[str, Any] = {"num_samples": 0 if data is None else len(data.cases)}
    num_patients = 0 if data is None else len(set(data.units))
    if data is None or num_patients < MINIMUM_CASES:
        return report
    from .evaluation import evaluate

    scores = evaluate(network, data.cases, settings.network.num_classes, Inference.of(settings))
    defined = [scores.num_cases - count for count in scores.hd95_undefined]
    hd95 = _withhold(scores.hd95, scores.hd95_units)
    scored = {"dice": list(scores.dice), "hd95": hd95, "num_defined": defined}
    return report | scored | {"num_patients": num_patients}


def _withhold(values: Any, counts: Sequence[int]) -> list[float]:
    return [float(value) if count >= MINIMUM_CASES else math.nan for value, count in zip(values, counts, strict=True)]
