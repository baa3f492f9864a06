"""What a site reports of itself: the fields of the outbound registry, made from its data and the received model."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..data.site_data import SiteData
from ..evaluation.class_scores import ClassCounts, confusion_matrix
from ..evaluation.inference import Inference
from ..evaluation.segmentation_scores import evaluate
from ..method_settings import FedAvgSettings
from ..methods.fedgsca.label_selection import Selection
from ..methods.fedgsca.sample_selector import SampleSelector
from ..settings import RunSettings
from ..training.local_training import TrainingOutcome
from .private_statistics import SampleValues
from .registry import MINIMUM_CASES


@dataclass(frozen=True)
class EstimateReport:
    """What a site says of its annotations.

    Attributes:
        fields: what leaves the site.
        samples: what these fields are made of, for noise that hides single patients; stays at the site.
    """

    fields: dict[str, Any]
    samples: dict[str, SampleValues] = field(default_factory=dict)


def training_report(
    data: SiteData,
    outcome: TrainingOutcome,
    *,
    embedded: bool,
    trained_on: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return what goes with a trained model; leaves the site.

    Means are held back where fewer than the minimum number of patients or volumes stand behind them. A site without any
    annotated object reports a Dice loss of NaN.

    Args:
        data: the site's data.
        outcome: of the training.
        embedded: whether the site runs on the embedded phantom.
        trained_on: the patient or volume of every sample that was trained on; None for all.
    """
    report: dict[str, Any] = {
        "num_samples": data.num_samples,
        "num_excluded": len(data.excluded),
        "embedded_data": embedded,
        "num_threads": torch.get_num_threads(),
    }
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


def selection_report(
    data: SiteData, selection: Selection, selector: SampleSelector | None, losses: NDArray[np.float64]
) -> dict[str, Any]:
    """Return the noise level of a site and its sample selector (FedGSCA, Eq. 2 and 8); leaves the site.

    Nothing is reported with training on fewer patients than the minimum count. No selector is reported where the
    mixture collapsed, the site keeps its own to itself, or a component has fewer patients: its mean and variance would
    tell their losses.

    Args:
        data: the site's data.
        selection: what was trained on.
        selector: the mixture, None if there is none to report.
        losses: that it was fitted to, ``(N,)``.
    """
    units = np.array(data.units, dtype=str)
    if len(set(units[selection.used])) < MINIMUM_CASES:
        return {}
    report: dict[str, Any] = {"noise_level": selection.noise_level}
    if selector is None:
        return report
    is_first = selector.clean_probability(losses) > 0.5
    patients = [len(set(units[of_component])) for of_component in (is_first, ~is_first)]
    if min(patients) < MINIMUM_CASES:
        return report
    mixture = {f"selector_{name}": list(values) for name, values in asdict(selector).items()}
    return report | mixture | {"selector_patients": patients}


def class_validation_report(network: nn.Module, data: SiteData | None, settings: RunSettings) -> dict[str, Any]:
    """Return what the scores of a classifier on the site's own validation cases follow from; leaves the site.

    Cases of a class with fewer patients than the minimum count are left out, so that no single case is scored. With
    fewer patients in all only the number of cases is reported, 0 for a site without any.
    """
    report: dict[str, Any] = {"num_samples": 0 if data is None else len(data.cases)}
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


def completeness_report(network: nn.Module, data: SiteData, settings: FedAvgSettings) -> EstimateReport:
    """Return how many lesions are annotated and found at a site (FedIA, Eq. 3); its fields leave the site.

    With fewer patients or volumes than the minimum count only the number of samples is reported.
    """
    # SciPy's image functions take 0.3 s.
    from ..methods.fedia.lesion_counts import count_lesions_by_case  # noqa: PLC0415

    report: dict[str, Any] = {"num_samples": data.num_samples}
    num_patients = len(set(data.units))
    if num_patients < MINIMUM_CASES:
        return EstimateReport(report)
    counts = count_lesions_by_case(network, data.cases, settings.network.num_classes, Inference.of(settings))
    by_case = {
        "num_annotated_lesions": [case.annotated for case in counts],
        "num_predicted_lesions": [case.predicted for case in counts],
        "num_matched_lesions": [case.matched for case in counts],
    }
    units = [case.unit for case in data.cases]
    return EstimateReport(
        report | {"num_patients": num_patients} | {name: sum(values) for name, values in by_case.items()},
        {name: SampleValues.of(values, units, is_mean=False) for name, values in by_case.items()},
    )


def quality_report(network: nn.Module, data: SiteData, settings: FedAvgSettings) -> EstimateReport:
    """Return the learning difficulty of a site (FedA³I, Eq. 3 and 4); its fields leave the site.

    A class with usable samples of fewer patients or volumes than the minimum count is NaN: the site has no estimate for
    it.
    """
    # SciPy's image functions take 0.3 s.
    from ..methods.feda3i.learning_difficulty import sample_difficulties  # noqa: PLC0415

    samples = sample_difficulties(network, data.cases, settings.network.num_classes, Inference.of(settings))
    difficulty = samples.mean()
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
    by_sample = {
        "inner_difficulty": np.where(samples.usable, samples.inner, np.nan),
        "outer_difficulty": np.where(samples.usable, samples.outer, np.nan),
        "predicted_share": samples.found,
    }
    return EstimateReport(
        report, {name: SampleValues.of(values, samples.units, is_mean=True) for name, values in by_sample.items()}
    )


def validation_report(network: nn.Module, data: SiteData | None, settings: FedAvgSettings) -> dict[str, Any]:
    """Return the mean scores on the site's own validation cases; leaves the site.

    The slices of a volume are one case. With fewer patients or volumes than the minimum count only the number of cases
    is reported, 0 for a site without any. Dice of a class is held back where fewer have the class in an annotation, the
    share of cases without it that were left empty where fewer have such a case.
    """
    report: dict[str, Any] = {"num_samples": 0 if data is None else len(data.cases)}
    num_patients = 0 if data is None else len(set(data.units))
    if data is None or num_patients < MINIMUM_CASES:
        return report
    scores = evaluate(network, data.cases, settings.network.num_classes, Inference.of(settings))
    defined = [count - missed for count, missed in zip(scores.num_annotated, scores.hd95_undefined, strict=True)]
    return report | {
        "num_patients": num_patients,
        "dice": _withhold(scores.dice, scores.dice_units),
        "num_class_patients": list(scores.dice_units),
        "num_class_cases": list(scores.num_annotated),
        "left_empty": _withhold(scores.left_empty, scores.empty_units),
        "num_empty_patients": list(scores.empty_units),
        "hd95": _withhold(scores.hd95, scores.hd95_units),
        "num_distance_patients": list(scores.hd95_units),
        "num_defined": defined,
    }


def _withhold(values: Any, counts: Sequence[int]) -> list[float]:
    return [float(value) if count >= MINIMUM_CASES else math.nan for value, count in zip(values, counts, strict=True)]
