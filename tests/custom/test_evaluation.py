"""Scores against hand-worked squares and brute-force distances."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.evaluation import SegmentationScores, evaluate, pool_site_scores, predict_labels, score_labels


def canvas(*squares, shape=(24, 24)):
    """A label image with squares given as (label, top, left, height, width)."""
    image = torch.zeros(shape, dtype=torch.uint8)
    for label, top, left, height, width in squares:
        image[top : top + height, left : left + width] = label
    return image


def brute_force_hd95(first, second):
    """Larger of the two directed 95th percentiles of the distances between border pixels (4-neighbourhood)."""
    borders = []
    for mask in (first.numpy() > 0, second.numpy() > 0):
        padded = np.pad(mask, 1)
        surrounded = np.ones_like(mask)
        for axis in range(mask.ndim):
            for shift in (-1, 1):
                surrounded &= np.roll(padded, shift, axis)[(slice(1, -1),) * mask.ndim]
        borders.append(np.argwhere(mask & ~surrounded))
    distances = np.sqrt(((borders[0][:, None] - borders[1][None]) ** 2).sum(axis=2))
    return max(np.percentile(distances.min(axis=axis), 95) for axis in (0, 1))


def test_two_shifted_squares_by_hand():
    truth, predicted = canvas((1, 4, 4, 8, 8)), canvas((1, 4, 8, 8, 8))
    scores = score_labels(predicted[None], truth[None], 1)
    # 8×4 pixels in common of 64 and 64; every border pixel is at most the shift of 4 away, more than 5% are exactly so.
    assert scores.dice == (0.5,)
    assert scores.hd95 == (4.0,)
    assert scores.hd95_undefined == (0,)
    assert scores.num_cases == 1


@pytest.mark.parametrize("seed", range(6))
def test_scores_equal_brute_force_on_random_shapes(seed):
    generator = np.random.default_rng(seed)
    masks = []
    for _ in range(2):
        squares = [
            (1, *generator.integers(2, 12, 2).tolist(), *generator.integers(2, 10, 2).tolist()) for _ in range(3)
        ]
        masks.append(canvas(*squares))
    predicted, truth = masks
    scores = score_labels(predicted[None], truth[None], 1)
    overlap = int(((predicted == 1) & (truth == 1)).sum())
    assert scores.dice[0] == pytest.approx(2 * overlap / int((predicted == 1).sum() + (truth == 1).sum()))
    assert scores.hd95[0] == pytest.approx(brute_force_hd95(predicted, truth))


def test_volumes_equal_brute_force():
    predicted, truth = torch.zeros(2, 1, 12, 12, 12, dtype=torch.uint8)
    predicted[0, 2:7, 3:8, 2:6] = 1
    truth[0, 3:9, 3:7, 4:9] = 1
    scores = score_labels(predicted, truth, 1)
    assert scores.dice[0] == pytest.approx(2 * (4 * 4 * 2) / (5 * 5 * 4 + 6 * 4 * 5))
    assert scores.hd95[0] == pytest.approx(brute_force_hd95(predicted[0], truth[0]))


def test_perfect_prediction_has_dice_one_and_no_distance():
    labels = torch.stack([canvas((1, 3, 3, 5, 6), (2, 12, 12, 4, 4)), canvas((1, 8, 8, 3, 3), (2, 15, 2, 4, 4))])
    scores = score_labels(labels, labels, 2)
    assert scores.dice == (1.0, 1.0)
    assert scores.hd95 == (0.0, 0.0)


def test_empty_masks_are_counted_and_never_read_as_perfect():
    square, empty = canvas((1, 4, 4, 8, 8)), canvas()
    predicted = torch.stack([canvas((1, 4, 8, 8, 8)), empty, square, empty])
    truth = torch.stack([square, square, empty, empty])
    scores = score_labels(predicted, truth, 1)
    assert scores.dice[0] == pytest.approx((0.5 + 0 + 0 + 1) / 4)  # both empty counts 1
    assert scores.hd95 == (4.0,)  # of the only case that has a distance
    assert scores.hd95_undefined == (3,)
    assert scores.num_cases == 4


def test_distance_is_undefined_where_no_case_has_one():
    scores = score_labels(canvas((1, 4, 4, 8, 8))[None], canvas()[None], 1)
    assert scores.dice == (0.0,)
    assert math.isnan(scores.hd95[0])
    assert math.isnan(scores.mean_hd95)


def test_classes_are_scored_by_themselves():
    truth = canvas((1, 2, 2, 4, 4), (2, 12, 12, 6, 6))
    predicted = canvas((1, 2, 4, 4, 4), (2, 12, 12, 6, 6))
    scores = score_labels(predicted[None], truth[None], 3)
    assert scores.dice == (0.5, 1.0, 1.0)  # class 3 is absent from both
    assert scores.hd95[:2] == (2.0, 0.0)
    assert math.isnan(scores.hd95[2])
    assert scores.hd95_undefined == (0, 0, 1)
    assert scores.mean_dice == pytest.approx(2.5 / 3)
    assert scores.mean_hd95 == 1.0


def test_a_confused_class_counts_as_wrong_in_both():
    scores = score_labels(canvas((2, 4, 4, 8, 8))[None], canvas((1, 4, 4, 8, 8))[None], 2)
    assert scores.dice == (0.0, 0.0)
    assert scores.hd95_undefined == (1, 1)


class Threshold(nn.Module):
    """Predicts the class that the intensity rounds to; only in evaluation mode, and one batch at a time is noted."""

    def __init__(self, num_classes):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.num_classes = num_classes
        self.batch_sizes: list[int] = []

    def forward(self, images):
        assert not self.training
        assert not torch.is_grad_enabled()
        self.batch_sizes.append(len(images))
        classes = torch.arange(self.num_classes + 1).view(1, -1, *[1] * (images.ndim - 2))
        return -((images - classes) ** 2) + self.bias


@pytest.mark.parametrize("training", [True, False])
def test_prediction_runs_in_evaluation_mode_and_puts_the_mode_back(training):
    labels = torch.from_numpy(np.random.default_rng(0).integers(0, 3, size=(5, 6, 7)))
    network = Threshold(2).train(training)
    predicted = predict_labels(network, labels[:, None].float() + 0.2, batch_size=2)
    assert torch.equal(predicted, labels.to(torch.uint8))
    assert predicted.dtype == torch.uint8
    assert network.batch_sizes == [2, 2, 1]
    assert network.training is training


def test_mode_is_put_back_after_an_error():
    network = nn.Conv2d(3, 2, 1).train()
    with pytest.raises(RuntimeError, match="channels"):
        predict_labels(network, torch.zeros(1, 1, 4, 4), batch_size=1)
    assert network.training


def test_evaluate_predicts_and_scores():
    truth, predicted = canvas((1, 4, 4, 8, 8)), canvas((1, 4, 8, 8, 8))
    scores = evaluate(Threshold(1), predicted[None, None].float(), truth[None], 1, batch_size=4)
    assert scores == SegmentationScores(dice=(0.5,), hd95=(4.0,), hd95_undefined=(0,), num_cases=1)


def test_site_scores_are_pooled_by_their_numbers_of_cases():
    pooled = pool_site_scores(
        {
            "site-1": {"num_samples": 10, "dice": [0.9, 0.6], "hd95": [2.0, math.nan], "num_defined": [10, 2]},
            "site-2": {"num_samples": 30, "dice": [0.5, 0.8], "hd95": [6.0, 3.0], "num_defined": [20, 5]},
            "site-3": {"num_samples": 2},
        }
    )
    assert pooled["dice_per_class"] == pytest.approx([(9 + 15) / 40, (6 + 24) / 40])  # 0.6, 0.75
    assert pooled["dice"] == pytest.approx(0.675)
    assert pooled["hd95"] == pytest.approx(
        ((2 * 10 + 6 * 20) / 30 + 3) / 2
    )  # the mean of the classes' means, as for a test set
    assert pooled["num_cases"] == 40
    assert pooled["evaluated_on"] == "sites"


@pytest.mark.parametrize("num_defined", [0, 2])
def test_distances_that_a_site_held_back_count_nothing(num_defined):
    pooled = pool_site_scores(
        {"site-1": {"num_samples": 10, "dice": [0.9, 0.6], "hd95": [2.0, math.nan], "num_defined": [8, num_defined]}}
    )
    assert pooled == {
        "evaluated_on": "sites",
        "dice": pytest.approx(0.75),
        "dice_per_class": [0.9, 0.6],
        "hd95": 2.0,
        "num_cases": 10,
    }


def test_pooling_scores_of_all_cases_is_scoring_them_together():
    squares = [(1, 4, 4, 8, 8), (1, 6, 3, 5, 9), (1, 2, 2, 4, 4), (1, 9, 9, 6, 6), (1, 3, 8, 7, 4)]
    predicted = torch.stack([canvas(square) for square in squares])
    truth = torch.stack([canvas(square) for square in squares[1:] + squares[:1]])
    together = score_labels(predicted, truth, 1)
    answers = {}
    for site, cases in {"site-1": slice(0, 2), "site-2": slice(2, 5)}.items():
        scores = score_labels(predicted[cases], truth[cases], 1)
        defined = [scores.num_cases - count for count in scores.hd95_undefined]
        answers[site] = {
            "num_samples": scores.num_cases,
            "dice": list(scores.dice),
            "hd95": list(scores.hd95),
            "num_defined": defined,
        }
    pooled = pool_site_scores(answers)
    assert pooled["dice"] == pytest.approx(together.mean_dice)
    assert pooled["hd95"] == pytest.approx(together.mean_hd95)


@pytest.mark.parametrize("answers", [{}, {"site-1": {"num_samples": 2}}, {"site-1": {"num_samples": 0}}])
def test_no_score_without_sites_that_have_one(answers):
    assert pool_site_scores(answers) == {"evaluated_on": None, "dice": None, "hd95": None}


def test_distance_is_none_where_no_site_has_one():
    answer = {"num_samples": 3, "dice": [0.0], "hd95": [math.nan], "num_defined": [0]}
    pooled = pool_site_scores({"site-1": answer})
    assert pooled["hd95"] is None
    assert (pooled["dice"], pooled["num_cases"]) == (0.0, 3)
