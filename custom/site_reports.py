"""What a site reports of itself: the fields of the outbound registry, made from its data and the received model."""

import math
from typing import Any

from torch import nn

from .data.site_data import SiteData
from .outbound import MINIMUM_CASES
from .settings import FedAvgSettings


def training_report(data: SiteData, mean_loss: float, *, embedded: bool) -> dict[str, Any]:
    """Return what goes with a trained model; leaves the site.

    The mean loss is held back where fewer than the minimum number of cases stand behind it.
    """
    report: dict[str, Any] = {
        "num_samples": data.num_samples,
        "num_excluded": len(data.excluded),
        "embedded_data": embedded,
    }
    if data.num_samples >= MINIMUM_CASES:
        report["train_loss"] = mean_loss
    return report


def quality_report(network: nn.Module, data: SiteData, settings: FedAvgSettings) -> dict[str, Any]:
    """Return the learning difficulty of a site (FedA³I, Eq. 3 and 4); leaves the site.

    A class with fewer usable samples than the minimum count is NaN: the site has no estimate for it.
    """
    from .quality.learning_difficulty import site_difficulty

    device = next(network.parameters()).device
    difficulty = site_difficulty(
        network,
        data.images.to(device),
        data.labels.to(device),
        settings.network.num_classes,
        batch_size=settings.training.batch_size,
    )
    num_annotated = int(data.labels.flatten(1).any(1).sum())
    counts = [int(count) for count in difficulty.num_samples]
    report: dict[str, Any] = {
        "num_samples": data.num_samples,
        "num_annotated": num_annotated,
        "num_estimated": counts,
        "inner_difficulty": _withhold(difficulty.inner, counts),
        "outer_difficulty": _withhold(difficulty.outer, counts),
    }
    if num_annotated >= MINIMUM_CASES:
        report["predicted_share"] = float(difficulty.predicted_share)
    return report


def validation_report(network: nn.Module, data: SiteData | None, settings: FedAvgSettings) -> dict[str, Any]:
    """Return the mean scores on the site's own validation cases; leaves the site.

    With fewer cases than the minimum count only their number is reported, 0 for a site without any.
    """
    report: dict[str, Any] = {"num_samples": 0 if data is None else data.num_samples}
    if data is None or data.num_samples < MINIMUM_CASES:
        return report
    from .evaluation import evaluate

    scores = evaluate(network, data.images, data.labels, settings.network.num_classes, settings.training.batch_size)
    defined = [scores.num_cases - count for count in scores.hd95_undefined]
    return report | {"dice": list(scores.dice), "hd95": _withhold(scores.hd95, defined), "num_defined": defined}


def _withhold(values: Any, counts: list[int]) -> list[float]:
    return [float(value) if count >= MINIMUM_CASES else math.nan for value, count in zip(values, counts, strict=True)]
