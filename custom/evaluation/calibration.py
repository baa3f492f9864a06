"""Calibration: whether a model that is confident to 80 % is right in 80 % (Guo et al., 2017)."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from ...transforms.array_types import Floats
from ...transforms.ignored_label import IGNORED_LABEL

NUM_BINS = 15


@dataclass(frozen=True)
class CalibrationBins:
    """Predictions by their confidence, in bins of equal width between 0 and 1; bins of several cases can be added.

    A prediction is the most probable of all classes, the background among them, and its probability the confidence.

    Attributes:
        count: predictions in each bin, ``(B,)``.
        confidence: sum of their confidences.
        correct: how many of them are right.
    """

    count: Floats
    confidence: Floats
    correct: Floats

    @classmethod
    def empty(cls) -> "CalibrationBins":
        """Return bins without a prediction."""
        return cls(*np.zeros((3, NUM_BINS)))

    def __add__(self, other: "CalibrationBins") -> "CalibrationBins":
        return CalibrationBins(
            self.count + other.count, self.confidence + other.confidence, self.correct + other.correct
        )

    @property
    def ece(self) -> float:
        """Expected calibration error Σ_b n_b/n |accuracy_b − confidence_b|; NaN without a prediction."""
        total = self.count.sum()
        return float(np.abs(self.correct - self.confidence).sum() / total) if total else math.nan


def sample_bins(probabilities: torch.Tensor, labels: torch.Tensor) -> CalibrationBins:
    """Return the bins of a sample's pixels, or of the cases of a classification.

    Bin b holds confidences in (b/B, (b + 1)/B].

    Args:
        probabilities: ``(C, ...)``.
        labels: true classes ``(...)``; ignored pixels do not count.
    """
    confidence, predicted = probabilities.max(dim=0)
    counts = labels != IGNORED_LABEL
    of_pixels, right = confidence[counts].double().numpy(), (predicted == labels)[counts].numpy()
    place = np.clip(np.ceil(of_pixels * NUM_BINS).astype(np.int64) - 1, 0, NUM_BINS - 1)
    return CalibrationBins(
        *(np.bincount(place, weights, NUM_BINS).astype(np.float64) for weights in (None, of_pixels, right))
    )
