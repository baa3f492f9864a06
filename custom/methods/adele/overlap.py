"""How far predictions agree with given masks, class by class: what sites count, and the IoU of all together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import numpy as np
from torch import nn

from ....transforms.array_types import Classes, Labels
from ....transforms.ignored_label import IGNORED_LABEL
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer
from ...outbound.fields import MINIMUM_CASES
from ...settings import RunSettings
from .outbound import ANNOTATED, ANNOTATED_PATIENTS, PREDICTED, TRUE_POSITIVE

# A site counts as many times the middle one at most.
_LARGEST_PART = 3


@dataclass(frozen=True)
class Overlap:
    """Pixels of a class at a site, over all of its training cases; ignored ones are not counted.

    Attributes:
        true_positive: annotated and predicted.
        predicted: predicted.
        annotated: annotated.
    """

    true_positive: int
    predicted: int
    annotated: int

    @property
    def union(self) -> int:
        """Pixels that are annotated or predicted."""
        return self.predicted + self.annotated - self.true_positive


def overlaps_of(fields: Mapping[str, Any]) -> list[Overlap] | None:
    """Return the counts of each class in a site's answer, which the guard has checked; None where it sends none."""
    if ANNOTATED not in fields:
        return None
    return [
        Overlap(*counts) for counts in zip(*(fields[n] for n in (TRUE_POSITIVE, PREDICTED, ANNOTATED)), strict=True)
    ]


def pooled_iou(overlaps: Sequence[Overlap]) -> float:
    """Return the IoU of a class over all sites; NaN where none has annotated it.

    It is Σ TP / Σ (predicted + annotated − TP). A site whose union is more than three times the middle one, of an even
    number the lower middle one, counts as if it had that many pixels, so that no site's numbers decide alone.

    Args:
        overlaps: of the sites.

    Example:
        >>> pooled_iou([Overlap(10, 20, 10), Overlap(10, 10, 20)])
        0.5
    """
    counting = [overlap for overlap in overlaps if overlap.annotated]
    if not counting:
        return float("nan")
    limit = _LARGEST_PART * median_low(overlap.union for overlap in counting)
    parts = [min(1.0, limit / overlap.union) for overlap in counting]
    matched = sum(part * overlap.true_positive for part, overlap in zip(parts, counting, strict=True))
    return matched / sum(part * overlap.union for part, overlap in zip(parts, counting, strict=True))


def overlap_report(network: nn.Module, data: SiteData, settings: RunSettings) -> Answer:
    """Return the counts of each class at a site, of predictions in evaluation mode; its fields leave.

    A class that is annotated in fewer patients or volumes than the minimum count is 0 throughout. Where the model finds
    it in fewer, what is predicted and found is 0. With fewer patients in all only the number of samples is reported.

    Args:
        network: the received model.
        data: the site's training cases with their given annotations.
        settings: the job's.
    """
    if len(set(data.units)) < MINIMUM_CASES:
        return Answer({"num_samples": data.num_samples})
    num_classes = settings.network.num_classes
    by_patient: dict[str, Labels] = {}
    predictions = Inference.of(settings).predictions(network, data.cases)
    for case, predicted in zip(data.cases, predictions, strict=True):
        counts = count_pixels(case.label.numpy(), predicted.numpy(), num_classes)
        by_patient[case.unit] = by_patient.get(case.unit, 0) + counts
    table = np.stack(list(by_patient.values()))
    patients, counts = (table > 0).sum(axis=0), table.sum(axis=0)
    is_sent = patients[2] >= MINIMUM_CASES
    is_found = is_sent & (patients[0] >= MINIMUM_CASES)
    sent = np.where([is_found, is_found, is_sent], counts, 0)
    names = (TRUE_POSITIVE, PREDICTED, ANNOTATED)
    return Answer(
        {
            "num_samples": data.num_samples,
            ANNOTATED_PATIENTS: np.where(is_sent, patients[2], 0).tolist(),
            **{name: row.tolist() for name, row in zip(names, sent, strict=True)},
        }
    )


def count_pixels(annotated: Classes, predicted: Classes, num_classes: int) -> Labels:
    """Return the true positive, predicted and annotated pixels of each class, ``(3, C)`` int64.

    >>> count_pixels(np.array([0, 1, 1, 2, 255]), np.array([1, 1, 2, 2, 2]), 2).tolist()
    [[1, 1], [2, 2], [2, 1]]

    Args:
        annotated: classes, 255 for ignored pixels, which count nowhere; of any shape.
        predicted: classes, of the same shape.
        num_classes: number of foreground classes C.
    """
    counted = annotated != IGNORED_LABEL
    given, found = annotated[counted], predicted[counted]
    every = (given[given == found], found, given)
    return np.stack([np.bincount(one, minlength=num_classes + 1)[1 : num_classes + 1] for one in every])
