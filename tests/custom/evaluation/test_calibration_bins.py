import math

import numpy as np
import pytest
import torch
from monai.metrics import calibration_binning

from fedannot.custom.evaluation.calibration import NUM_BINS, CalibrationBins, sample_bins


def test_error_by_hand() -> None:
    """Four predictions: two of 0.9, one of which is right, and two of 0.6 that are right."""
    probabilities = torch.tensor([[0.9, 0.9, 0.6, 0.6], [0.1, 0.1, 0.4, 0.4]])
    bins = sample_bins(probabilities, torch.tensor([0, 1, 0, 0]))
    assert bins.ece == pytest.approx(0.5 * abs(0.5 - 0.9) + 0.5 * abs(1 - 0.6))


def test_bins_are_monais() -> None:
    """Of the top label, in three classes."""
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.randn(3, 400, generator=generator).softmax(0)
    labels = torch.randint(0, 3, (400,), generator=generator)
    bins = sample_bins(probabilities, labels)
    confidence, predicted = probabilities.max(0)
    mean, right, count = calibration_binning(
        confidence[None, None], (predicted == labels).float()[None, None], num_bins=NUM_BINS
    )
    np.testing.assert_array_equal(bins.count, count[0, 0])
    known = bins.count > 0
    np.testing.assert_allclose((bins.confidence / bins.count.clip(1))[known], mean[0, 0][known], rtol=1e-5)
    np.testing.assert_allclose((bins.correct / bins.count.clip(1))[known], right[0, 0][known], rtol=1e-5)


def test_sums_of_bins_are_those_of_all_predictions_and_ignored_ones_do_not_count() -> None:
    probabilities, labels = torch.full((2, 6), 0.5), torch.tensor([0, 0, 0, 1, 1, 255])
    together = sample_bins(probabilities[:, :3], labels[:3]) + sample_bins(probabilities[:, 3:], labels[3:])
    assert together.count.sum() == 5
    assert together.ece == pytest.approx(sample_bins(probabilities, labels).ece)
    assert together.ece == pytest.approx(0.1)
    assert math.isnan(CalibrationBins.empty().ece)
