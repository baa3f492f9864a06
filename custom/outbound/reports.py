"""What a site reports of itself: the fields of the outbound registry, made from its data and the received model."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ..data.description_values import description_values
from ..data.site_data import SiteData
from ..evaluation.class_scores import ClassCounts, confusion_matrix
from ..evaluation.inference import Inference
from ..evaluation.segmentation_scores import evaluate
from ..networks.precision import computed_precision, significand_bits
from ..settings import Precision, RunSettings
from ..training.loop import TrainingOutcome
from .fields import MINIMUM_CASES, PREPARATION
from .values import OutboundValues


def data_report(data: SiteData, *, embedded: bool) -> OutboundValues:
    """Return what goes with a trained model and follows from neither model; leaves the site.

    Args:
        data: the site's data.
        embedded: whether the site runs on the embedded phantom.
    """
    report: OutboundValues = {
        "num_samples": data.num_samples,
        "num_excluded": len(data.excluded),
        "embedded_data": embedded,
        "num_threads": torch.get_num_threads(),
    }
    preparation = description_values(data.description)
    return report if preparation is None else report | {PREPARATION: preparation}


def precision_report(asked: Precision, device: torch.device) -> OutboundValues:
    """Return in which precision a site's network computes; nothing in float32 jobs. It leaves the site.

    Args:
        asked: by the job.
        device: of the network.
    """
    return {} if asked == "fp32" else {"significand_bits": significand_bits(computed_precision(asked, device))}


def validated_cases(data: SiteData | None) -> OutboundValues:
    """Return the number of a site's validation cases, 0 without any; leaves the site."""
    return {"num_samples": 0 if data is None else len(data.cases)}


def training_report(
    data: SiteData,
    outcome: TrainingOutcome,
    *,
    embedded: bool,
    trained_on: Sequence[str] | None = None,
) -> OutboundValues:
    """Return what goes with a trained model; leaves the site.

    Means are held back where fewer than the minimum number of patients or volumes stand behind them. A site without any
    annotated object reports a Dice loss of NaN.

    Args:
        data: the site's data.
        outcome: of the training.
        embedded: whether the site runs on the embedded phantom.
        trained_on: the patient or volume of every sample that was trained on; None for all.
    """
    report = data_report(data, embedded=embedded)
    num_patients = len(set(data.units if trained_on is None else trained_on))
    if num_patients >= MINIMUM_CASES:
        mean_loss = outcome.mean_loss if math.isfinite(outcome.mean_loss) else math.nan
        report |= {"train_loss": mean_loss, "num_patients": num_patients}
    if outcome.dice_loss is not None:
        behind = len({data.units[sample] for sample in outcome.dice_samples})
        if behind >= MINIMUM_CASES or math.isnan(outcome.dice_loss):
            # Rounding may lead a hair's breadth out of the range.
            dice_loss = min(max(outcome.dice_loss, 0.0), 1.0) if math.isfinite(outcome.dice_loss) else math.nan
            report |= {"dice_loss": dice_loss, "num_dice_patients": behind}
    return report


def class_validation_report(network: nn.Module, data: SiteData | None, settings: RunSettings) -> OutboundValues:
    """Return what the scores of a classifier on the site's own validation cases follow from; leaves the site.

    Cases of a class with fewer patients than the minimum count are left out, so that no single case is scored. With
    fewer patients in all only the number of cases is reported, 0 for a site without any.
    """
    report = validated_cases(data)
    if data is None:
        return report
    patients = [
        len({case.unit for case in data.cases if int(case.label) == label})
        for label in range(settings.network.num_classes)
    ]
    cases = [case for case in data.cases if patients[int(case.label)] >= MINIMUM_CASES]
    num_patients = len({case.unit for case in cases})
    if num_patients < MINIMUM_CASES:
        return report
    counts = ClassCounts.of_confusion(
        confusion_matrix(network, cases, settings.network.num_classes, Inference.of(settings))
    )
    return report | {
        "num_patients": num_patients,
        "num_class_patients": [number if number >= MINIMUM_CASES else 0 for number in patients],
        "num_correct": counts.correct.tolist(),
        "num_labelled": counts.labelled.tolist(),
        "num_predicted": counts.predicted.tolist(),
    }


def validation_report(network: nn.Module, data: SiteData | None, settings: RunSettings) -> OutboundValues:
    """Return the mean scores on the site's own validation cases; leaves the site.

    The slices of a volume are one case. With fewer patients or volumes than the minimum count only the number of cases
    is reported, 0 for a site without any. Dice of a class is held back where fewer have the class in an annotation, the
    fraction of cases without it that were left empty where fewer have such a case.
    """
    report = validated_cases(data)
    num_patients = 0 if data is None else len(set(data.units))
    if data is None or num_patients < MINIMUM_CASES:
        return report
    scores = evaluate(network, data.cases, settings.network.num_classes, Inference.of(settings), data.annotated_labels)
    defined = [count - missed for count, missed in zip(scores.num_annotated, scores.hd95_undefined, strict=True)]
    return report | {
        "num_patients": num_patients,
        "dice": withhold(scores.dice, scores.dice_units),
        "num_class_patients": list(scores.dice_units),
        "num_class_cases": list(scores.num_annotated),
        "left_empty": withhold(scores.left_empty, scores.empty_units),
        "num_empty_patients": list(scores.empty_units),
        "hd95": withhold(scores.hd95, scores.hd95_units),
        "num_distance_patients": list(scores.hd95_units),
        "num_defined": defined,
    }


def withhold(values: Any, counts: Sequence[int]) -> list[float]:
    """Return numbers with NaN in place of those over fewer patients or volumes than the minimum count."""
    return [float(value) if count >= MINIMUM_CASES else math.nan for value, count in zip(values, counts, strict=True)]
