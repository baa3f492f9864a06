"""Classification metrics of a model on labelled cases: macro F1, recall and precision, from the confusion matrix."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from torch import nn

from ...transforms.array_types import Floats, Labels
from ..data.site_data import LoadedCase
from .inference import Inference


class ClassScores(TypedDict):
    """Macro means over the classes that have cases, None without cases, and the values of each class."""

    f1: float | None
    recall: float | None
    precision: float | None
    f1_per_class: list[float | None]
    recall_per_class: list[float | None]
    precision_per_class: list[float | None]
    num_cases: int


class PooledClassScores(ClassScores):
    """The same of the sites' validation cases together."""

    evaluated_on: Literal["sites"]


@dataclass(frozen=True)
class ClassCounts:
    """What scores follow from; sums of the counts of several sites are those of their cases together.

    Attributes:
        correct: ``(C,)`` cases of each class that are predicted as it.
        labelled: ``(C,)`` cases of each class.
        predicted: ``(C,)`` cases predicted as each class.
    """

    correct: Labels
    labelled: Labels
    predicted: Labels

    @classmethod
    def of_confusion(cls, confusion: Labels) -> "ClassCounts":
        """Count in a confusion matrix ``(C, C)``, rows for the true and columns for the predicted class."""
        return cls(np.diag(confusion).copy(), confusion.sum(axis=1), confusion.sum(axis=0))

    @property
    def recall(self) -> Floats:
        """Fraction of each class's cases that are found, NaN for a class without cases."""
        return _shares(self.correct, self.labelled)

    @property
    def precision(self) -> Floats:
        """Fraction of the cases predicted as each class that are of it, 0 where none is; NaN for a class without
        cases.
        """
        precision = np.where(self.predicted > 0, _shares(self.correct, self.predicted), 0.0)
        return np.where(self.labelled > 0, precision, np.nan)

    @property
    def f1(self) -> Floats:
        """Harmonic mean of precision and recall of each class, NaN for a class without cases."""
        return np.where(self.labelled > 0, _shares(2 * self.correct, self.labelled + self.predicted), np.nan)

    def scores(self) -> ClassScores:
        """Return the macro means over the classes that have cases, and the values of each class, None without cases."""
        f1, recall, precision = self.f1, self.recall, self.precision
        return {
            "f1": self._mean(f1),
            "recall": self._mean(recall),
            "precision": self._mean(precision),
            "f1_per_class": _known(f1),
            "recall_per_class": _known(recall),
            "precision_per_class": _known(precision),
            "num_cases": int(self.labelled.sum()),
        }

    def _mean(self, values: Floats) -> float | None:
        return float(np.nanmean(values)) if self.labelled.any() else None


def confusion_matrix(network: nn.Module, cases: Sequence[LoadedCase], num_classes: int, inference: Inference) -> Labels:
    """Return the numbers of cases ``(C, C)``, rows for the given and columns for the predicted class.

    Args:
        network: the model; it is run in evaluation mode.
        cases: at least one case.
        num_classes: number of classes C.
        inference: how the model is run.
    """
    confusion = np.zeros((num_classes, num_classes), dtype=np.int64)
    probabilities = inference.class_probabilities(network, cases)
    labels = torch.cat([case.label for case in cases]).numpy()
    np.add.at(confusion, (labels, probabilities.argmax(dim=1).numpy()), 1)
    return confusion


def pool_site_counts(answers: Mapping[str, Mapping[str, Any]]) -> PooledClassScores | None:
    """Pool the sites' validation counts to the scores of their cases together.

    Args:
        answers: what sites sent for the task ``validate_classes``: ``num_samples``, and where that is at least the
            minimum count ``num_correct``, ``num_labelled`` and ``num_predicted`` per class. An answer whose
            counts contradict each other, or are of more than the site's cases, does not count.

    Returns:
        The scores; None where no answer counts.
    """
    scored = [answer for answer in answers.values() if "num_correct" in answer and _could_be_counts(answer)]
    if not scored:
        return None
    correct, labelled, predicted = (
        np.sum([answer[name] for answer in scored], axis=0) for name in ("num_correct", "num_labelled", "num_predicted")
    )
    return {"evaluated_on": "sites", **ClassCounts(correct, labelled, predicted).scores()}


def _could_be_counts(answer: Mapping[str, Any]) -> bool:
    correct, labelled, predicted = (answer[f"num_{name}"] for name in ("correct", "labelled", "predicted"))
    within = all(right <= min(of, said) for right, of, said in zip(correct, labelled, predicted, strict=True))
    return within and max(sum(labelled), sum(predicted)) <= answer["num_samples"]


def _known(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _shares(part: Labels, whole: Labels) -> Floats:
    shares: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
    return shares
