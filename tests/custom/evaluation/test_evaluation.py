"""Scores against hand-worked squares and brute-force distances."""

import math

import numpy as np
import pytest
import torch
from monai.metrics.utils import get_edge_surface_distance
from torch import nn

from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.evaluation import segmentation_scores as evaluation
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import (
    SegmentationScores,
    evaluate,
    mean_scores,
    pool_site_scores,
    score_case,
    score_labels,
    surface_distances,
)
from fedannot.transforms.ignored_label import IGNORED_LABEL


def canvas(*squares, shape=(24, 24)):
    """A label image with squares given as (label, top, left, height, width)."""
    image = torch.zeros(shape, dtype=torch.uint8)
    for label, top, left, height, width in squares:
        image[top : top + height, left : left + width] = label
    return image


def score(predicted, labels, num_classes):
    """Mean scores of cases that are samples by themselves."""
    cases = [score_labels(*pair, num_classes) for pair in zip(predicted, labels, strict=True)]
    return mean_scores(cases, [str(number) for number in range(len(cases))])


def make_case(label, image=None, **details):
    """A case of samples with labels (S, H, W[, D]); its image says the label unless another is given."""
    image = label[:, None].float() if image is None else image
    return LoadedCase(
        **{"name": "a", "unit": "a", "clean_label": None, "spacing": None} | details, image=image, label=label
    )


def brute_force_hd95(first, second, spacing=1.0):
    """Larger of the two directed 95th percentiles of the distances between border pixels (4-neighbourhood)."""
    borders = []
    for mask in (first.numpy() > 0, second.numpy() > 0):
        padded = np.pad(mask, 1)
        surrounded = np.ones_like(mask)
        for axis in range(mask.ndim):
            for shift in (-1, 1):
                surrounded &= np.roll(padded, shift, axis)[(slice(1, -1),) * mask.ndim]
        borders.append(np.argwhere(mask & ~surrounded) * spacing)
    distances = np.sqrt(((borders[0][:, None] - borders[1][None]) ** 2).sum(axis=2))
    return max(np.percentile(distances.min(axis=axis), 95) for axis in (0, 1))


def test_two_shifted_squares_by_hand():
    truth, predicted = canvas((1, 4, 4, 8, 8)), canvas((1, 4, 8, 8, 8))
    scores = score(predicted[None], truth[None], 1)
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
    scores = score(predicted[None], truth[None], 1)
    overlap = int(((predicted == 1) & (truth == 1)).sum())
    assert scores.dice[0] == pytest.approx(2 * overlap / int((predicted == 1).sum() + (truth == 1).sum()))
    assert scores.hd95[0] == pytest.approx(brute_force_hd95(predicted, truth))


def test_volumes_equal_brute_force():
    predicted, truth = torch.zeros(2, 1, 12, 12, 12, dtype=torch.uint8)
    predicted[0, 2:7, 3:8, 2:6] = 1
    truth[0, 3:9, 3:7, 4:9] = 1
    scores = score(predicted, truth, 1)
    assert scores.dice[0] == pytest.approx(2 * (4 * 4 * 2) / (5 * 5 * 4 + 6 * 4 * 5))
    assert scores.hd95[0] == pytest.approx(brute_force_hd95(predicted[0], truth[0]))


def test_perfect_prediction_has_dice_one_and_no_distance():
    labels = torch.stack([canvas((1, 3, 3, 5, 6), (2, 12, 12, 4, 4)), canvas((1, 8, 8, 3, 3), (2, 15, 2, 4, 4))])
    scores = score(labels, labels, 2)
    assert scores.dice == (1.0, 1.0)
    assert scores.hd95 == (0.0, 0.0)


def test_empty_masks_are_distinguished_from_annotated_ones_and_never_read_as_perfect():
    square, empty = canvas((1, 4, 4, 8, 8)), canvas()
    predicted = torch.stack([canvas((1, 4, 8, 8, 8)), empty, square, empty, empty])
    truth = torch.stack([square, square, empty, empty, empty])
    scores = score(predicted, truth, 1)
    assert scores.dice == (0.25,)  # of the first, 0.5, and of the second, which is missed
    assert scores.left_empty[0] == pytest.approx(2 / 3)  # of three empty cases one has a false finding
    assert scores.hd95 == (4.0,)  # of the only case that has a distance
    assert scores.hd95_undefined == (1,)  # the missed one; empty cases could not have any
    assert (scores.num_cases, scores.num_annotated) == (5, (2,))


def test_a_class_that_is_annotated_nowhere_has_no_dice_and_no_distance():
    scores = score(canvas((1, 4, 4, 8, 8))[None], canvas()[None], 1)
    assert math.isnan(scores.dice[0])
    assert math.isnan(scores.hd95[0])
    assert (scores.left_empty, scores.hd95_undefined) == ((0.0,), (0,))
    assert (scores.mean_dice, scores.mean_left_empty, scores.mean_hd95) == (None, 0.0, None)


def test_a_class_that_is_annotated_everywhere_has_no_empty_case():
    square = canvas((1, 4, 4, 8, 8))[None]
    scores = score(square, square, 1)
    assert math.isnan(scores.left_empty[0])
    assert (scores.mean_dice, scores.mean_left_empty) == (1.0, None)


def test_means_over_classes_leave_out_those_without_a_case():
    """Class 1 is everywhere, class 2 in one case of two, class 3 in none."""
    both, first = canvas((1, 2, 2, 4, 4), (2, 12, 12, 4, 4)), canvas((1, 2, 2, 4, 4))
    predicted = torch.stack([canvas((1, 2, 4, 4, 4), (2, 12, 12, 4, 4)), canvas((1, 2, 2, 4, 4), (3, 0, 20, 1, 1))])
    scores = score(predicted, torch.stack([both, first]), 3)
    assert scores.dice[:2] == (0.75, 1.0)
    assert math.isnan(scores.dice[2])
    assert scores.mean_dice == pytest.approx(0.875)
    assert scores.left_empty[1:] == (1.0, 0.5)
    assert math.isnan(scores.left_empty[0])
    assert scores.mean_left_empty == pytest.approx(0.75)
    assert scores.num_annotated == (2, 1, 0)


class Background(nn.Module):
    """Finds nothing anywhere."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([1.0, 0.0]))

    def forward(self, images):
        return self.bias.view(1, 2, 1, 1).expand(len(images), 2, *images.shape[2:])


def test_a_model_that_finds_nothing_scores_nothing_however_many_images_are_empty():
    square, empty = canvas((1, 4, 4, 8, 8)), canvas()
    cases = [make_case(label[None], unit=str(n)) for n, label in enumerate([square, empty, square, empty, square])]
    scores = evaluate(Background(), cases, 1, Inference(2))
    assert scores.mean_dice == 0.0  # not the 40 % of the images that are empty
    assert scores.mean_left_empty == 1.0
    assert scores.hd95_undefined == (3,)


def test_a_model_that_finds_something_everywhere_leaves_nothing_empty():
    square, empty = canvas((1, 4, 4, 8, 8)), canvas()
    everywhere = square[None, None].float()
    cases = [make_case(label[None], everywhere) for label in (square, empty, square, empty)]
    scores = evaluate(Threshold(1), cases, 1, Inference(2))
    assert (scores.mean_dice, scores.mean_left_empty) == (1.0, 0.0)


def test_classes_are_scored_by_themselves():
    truth = canvas((1, 2, 2, 4, 4), (2, 12, 12, 6, 6))
    predicted = canvas((1, 2, 4, 4, 4), (2, 12, 12, 6, 6))
    scores = score(predicted[None], truth[None], 3)
    assert scores.dice[:2] == (0.5, 1.0)
    assert math.isnan(scores.dice[2])  # class 3 is absent
    assert scores.hd95[:2] == (2.0, 0.0)
    assert math.isnan(scores.hd95[2])
    assert scores.hd95_undefined == (0, 0, 0)
    assert scores.mean_dice == pytest.approx(0.75)
    assert scores.mean_hd95 == 1.0


def test_a_confused_class_counts_as_wrong_in_both():
    scores = score(canvas((2, 4, 4, 8, 8))[None], canvas((1, 4, 4, 8, 8))[None], 2)
    assert scores.dice[0] == 0.0
    assert math.isnan(scores.dice[1])
    assert (scores.left_empty[1], scores.hd95_undefined) == (0.0, (1, 0))


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


def test_evaluate_predicts_and_scores():
    truth, predicted = canvas((1, 4, 4, 8, 8)), canvas((1, 4, 8, 8, 8))
    images = [predicted[None, None].float(), canvas()[None, None].float()]
    cases = [make_case(label[None], image) for label, image in zip((truth, canvas()), images, strict=True)]
    assert evaluate(Threshold(1), cases, 1, Inference(4)) == SegmentationScores(
        dice=(0.5,),
        left_empty=(1.0,),
        hd95=(4.0,),
        hd95_undefined=(0,),
        num_annotated=(1,),
        num_cases=2,
        dice_units=(1,),
        empty_units=(1,),
        hd95_units=(1,),
    )


def solid(*boxes, shape=(6, 12, 10)):
    """A label volume with boxes given as (label, first corner, extents)."""
    volume = torch.zeros(shape, dtype=torch.uint8)
    for label, corner, extents in boxes:
        volume[tuple(slice(start, start + extent) for start, extent in zip(corner, extents, strict=True))] = label
    return volume


TRUTH = solid((1, (1, 2, 2), (3, 6, 5)), (2, (2, 3, 3), (1, 2, 2)))
FOUND = solid((1, (2, 3, 2), (4, 6, 5)), (2, (3, 5, 3), (2, 2, 2)))
SPACING = (3.0, 1.0, 1.5)


def test_slices_of_a_volume_are_scored_as_the_volume():
    sliced = make_case(TRUTH, spacing=SPACING[1:], slice_spacing=SPACING[0])
    whole = make_case(TRUTH[None], spacing=SPACING)
    scores = score_case(sliced, FOUND, 2)
    assert scores == score_case(whole, FOUND[None], 2)
    for index in (0, 1):
        result, true = (volume == index + 1 for volume in (FOUND, TRUTH))
        assert scores.dice[index] == pytest.approx(2 * int((result & true).sum()) / int(result.sum() + true.sum()))
        assert scores.hd95[index] == pytest.approx(brute_force_hd95(result, true, np.array(SPACING)))
    means = [score(FOUND, TRUTH, 2).dice[index] for index in (0, 1)]
    assert scores.dice != pytest.approx(means), "the mean over slices is another number"


def test_without_the_distance_of_slices_there_is_no_distance_of_surfaces():
    scores = score_case(make_case(TRUTH, spacing=SPACING[1:]), FOUND, 2)
    assert scores.dice == score_case(make_case(TRUTH[None]), FOUND[None], 2).dice
    assert all(map(math.isnan, scores.hd95))


def test_a_single_slice_is_scored_in_its_plane_in_millimetres():
    scores = score_case(make_case(TRUTH[2:3], spacing=SPACING[1:]), FOUND[2:3], 1)
    assert scores.hd95[0] == pytest.approx(
        brute_force_hd95(*(volume[2] == 1 for volume in (FOUND, TRUTH)), np.array(SPACING[1:]))
    )


def test_a_volume_is_empty_when_all_its_slices_are():
    """Class 1 is in three of six slices, so the volume is annotated as a whole; class 3 is in none."""
    scores = score_case(make_case(TRUTH, spacing=SPACING[1:], slice_spacing=3.0), FOUND, 3)
    assert scores.annotated == scores.found == (True, True, False)
    assert math.isnan(scores.dice[2])
    assert mean_scores([scores], "a").left_empty[2] == 1.0


def test_evaluation_goes_by_cases_whatever_the_batches():
    volumes = [make_case(TRUTH[start:], FOUND[start:, None].float(), unit=str(start)) for start in (0, 2, 1)]
    expected = mean_scores([score_case(case, case.image[:, 0].to(torch.uint8), 2) for case in volumes], "021")
    for batch_size in (1, 4, 100):
        assert repr(evaluate(Threshold(2), volumes, 2, Inference(batch_size))) == repr(expected)
    assert expected.num_cases == 3


def test_whole_volumes_of_differing_sizes_are_evaluated_by_a_sliding_window():
    sizes = [(20, 18, 33), (9, 30, 16)]
    generator = np.random.default_rng(3)
    cases = []
    for size in sizes:
        truth, result = torch.from_numpy(generator.integers(0, 3, (2, 1, *size)).astype(np.uint8))
        cases.append(make_case(truth, result[:, None].float(), spacing=SPACING))
    network = Threshold(2)
    scores = evaluate(network, cases, 2, Inference(4, (16, 16, 16)))
    expected = mean_scores([score_case(case, case.image[:, 0].to(torch.uint8), 2) for case in cases], "aa")
    assert repr(scores) == repr(expected)
    assert max(network.batch_sizes) == 4


def test_distances_are_counted_by_patient():
    square, empty = canvas((1, 4, 4, 8, 8)), canvas()
    cases = [score_labels(*pair, 1) for pair in [(square, square)] * 3 + [(square, empty)]]
    scores = mean_scores(cases, ["a", "b", "a", "c"])
    assert (scores.num_cases, scores.hd95_undefined, scores.hd95_units) == (4, (0,), (2,))
    assert (scores.dice_units, scores.empty_units) == ((2,), (1,))


def test_annotated_and_empty_cases_are_counted_by_their_own_patients():
    square, empty = canvas((1, 4, 4, 8, 8)), canvas()
    pairs = [(empty, empty), (square, empty), (empty, square), (square, square), (empty, empty)]
    scores = mean_scores([score_labels(*pair, 2) for pair in pairs], list("abbcd"))
    assert (scores.dice_units, scores.empty_units) == ((2, 0), (3, 4))
    assert scores.dice[0] == 0.5
    assert scores.left_empty == (pytest.approx(2 / 3), 1.0)


def test_surfaces_beyond_the_limit_of_torch_have_the_same_percentile(monkeypatch):
    expected = score_labels(FOUND, TRUTH, 2, SPACING)
    monkeypatch.setattr(evaluation, "_QUANTILE_LIMIT", 10)
    limited = score_labels(FOUND, TRUTH, 2, SPACING)
    assert limited.hd95 == pytest.approx(expected.hd95)


def answer(num_samples, dice, hd95, num_defined, *, cases=None, left_empty=None):
    """What a site sends of its scores; without more every class is annotated in all its cases."""
    return {
        "num_samples": num_samples,
        "dice": dice,
        "num_class_cases": [num_samples] * len(dice) if cases is None else cases,
        "left_empty": [math.nan] * len(dice) if left_empty is None else left_empty,
        "hd95": hd95,
        "num_defined": num_defined,
    }


def test_site_scores_are_pooled_by_their_numbers_of_cases():
    pooled = pool_site_scores(
        {
            "site-1": answer(10, [0.9, 0.6], [2.0, math.nan], [10, 2]),
            "site-2": answer(30, [0.5, 0.8], [6.0, 3.0], [20, 5]),
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


def test_site_scores_are_weighted_by_annotated_and_by_empty_cases():
    """Site 1 has the class in 2 of 10 cases, site 2 in 6 of 7."""
    first = answer(10, [0.9], [2.0], [2], cases=[2], left_empty=[0.75])
    second = answer(7, [0.5], [6.0], [6], cases=[6], left_empty=[0.0])
    pooled = pool_site_scores({"site-1": first, "site-2": second})
    assert pooled["dice"] == pytest.approx((2 * 0.9 + 6 * 0.5) / 8)
    assert pooled["left_empty"] == pytest.approx((8 * 0.75 + 1 * 0.0) / 9)
    assert pooled["left_empty_per_class"] == [pooled["left_empty"]]
    assert (pooled["num_cases"], pooled["num_annotated_per_class"]) == (17, [8])


@pytest.mark.parametrize("num_defined", [0, 2])
def test_distances_that_a_site_held_back_count_nothing(num_defined):
    assert pool_site_scores({"site-1": answer(10, [0.9, 0.6], [2.0, math.nan], [8, num_defined])}) == {
        "evaluated_on": "sites",
        "dice": pytest.approx(0.75),
        "dice_per_class": [pytest.approx(0.9), pytest.approx(0.6)],
        "left_empty": None,
        "left_empty_per_class": [None, None],
        "hd95": 2.0,
        "hd95_undefined": 2 + 10 - num_defined,
        "num_cases": 10,
        "num_annotated_per_class": [10, 10],
    }


def test_pooling_scores_of_all_cases_is_scoring_them_together():
    """Of seven cases two are empty, one of which has a false finding."""
    squares = [(1, 4, 4, 8, 8), (1, 6, 3, 5, 9), (1, 2, 2, 4, 4), (1, 9, 9, 6, 6), (1, 3, 8, 7, 4)]
    predicted = torch.stack([canvas(square) for square in squares] + [canvas(), canvas((1, 1, 1, 2, 2))])
    truth = torch.stack([canvas(square) for square in squares[1:] + squares[:1]] + [canvas(), canvas()])
    together = score(predicted, truth, 1)
    answers = {}
    for site, cases in {"site-1": [0, 1, 5], "site-2": [2, 3, 4, 6]}.items():
        scores = score(predicted[cases], truth[cases], 1)
        defined = [scores.num_annotated[0] - scores.hd95_undefined[0]]
        answers[site] = answer(
            len(cases),
            list(scores.dice),
            list(scores.hd95),
            defined,
            cases=list(scores.num_annotated),
            left_empty=list(scores.left_empty),
        )
    pooled = pool_site_scores(answers)
    assert pooled["dice"] == pytest.approx(together.mean_dice)
    assert pooled["left_empty"] == pytest.approx(together.mean_left_empty) == 0.5
    assert pooled["hd95"] == pytest.approx(together.mean_hd95)


@pytest.mark.parametrize("answers", [{}, {"site-1": {"num_samples": 2}}, {"site-1": {"num_samples": 0}}])
def test_no_score_without_sites_that_have_one(answers):
    assert pool_site_scores(answers) is None


def test_a_class_that_a_site_withholds_is_pooled_over_the_others():
    first = answer(10, [0.9, math.nan], [2.0, math.nan], [10, 2])
    second = answer(30, [0.5, 0.8], [6.0, 3.0], [30, 5])
    pooled = pool_site_scores({"site-1": first, "site-2": second})
    assert pooled["dice_per_class"] == pytest.approx([(9 + 15) / 40, 0.8])
    assert pooled["dice"] == pytest.approx(0.7)
    alone = pool_site_scores({"site-1": first})
    assert alone["dice_per_class"] == [0.9, None]
    assert alone["dice"] == 0.9
    none = first | {"dice": [math.nan, math.nan]}
    assert pool_site_scores({"site-1": none})["dice"] is None


def test_a_share_that_a_site_withholds_is_pooled_over_the_others():
    first = answer(10, [0.9], [2.0], [8], cases=[8])  # two empty cases, of too few patients
    second = answer(8, [0.5], [6.0], [4], cases=[4], left_empty=[0.25])
    assert pool_site_scores({"site-1": first, "site-2": second})["left_empty"] == 0.25


def test_distance_is_none_where_no_site_has_one():
    pooled = pool_site_scores({"site-1": answer(3, [0.0], [math.nan], [0])})
    assert pooled["hd95"] is None
    assert (pooled["dice"], pooled["num_cases"]) == (0.0, 3)


@pytest.mark.parametrize(
    "impossible",
    [
        answer(0, [0.9], [2.0], [4]),
        answer(9, [7.0], [2.0], [4]),
        answer(9, [-1.0], [2.0], [4]),
        answer(9, [0.5], [2.0], [4], cases=[5], left_empty=[1.5]),
        answer(9, [0.5], [2.0], [4], cases=[5], left_empty=[math.inf]),
    ],
)
def test_an_answer_that_cannot_be_scores_does_not_count(impossible):
    honest = answer(4, [0.5], [3.0], [4])
    assert pool_site_scores({"site-1": impossible}) is None
    pooled = pool_site_scores({"site-1": impossible, "site-2": honest})
    assert pooled == pool_site_scores({"site-2": honest})


def test_a_distance_counts_for_no_more_cases_than_there_are():
    answers = {
        "site-1": answer(4, [0.5], [100.0], [10**9]),
        "site-2": answer(4, [0.5], [2.0], [4]),
        "site-3": answer(4, [0.5], [math.inf], [4]),
        "site-4": answer(4, [0.5], [9.0], [0]),
    }
    assert pool_site_scores(answers)["hd95"] == pytest.approx(51.0)


def test_dice_and_share_count_for_no_more_cases_than_there_are():
    """One site claims more annotated cases than it has, one a Dice over none, one a share over none."""
    answers = {
        "site-1": answer(4, [1.0], [2.0], [4], cases=[10**9], left_empty=[1.0]),
        "site-2": answer(4, [0.5], [2.0], [4], cases=[2], left_empty=[0.5]),
        "site-3": answer(2, [1.0], [2.0], [0], cases=[0], left_empty=[0.25]),
    }
    pooled = pool_site_scores(answers)
    assert pooled["dice"] == pytest.approx((4 * 1.0 + 2 * 0.5) / 6)
    assert pooled["left_empty"] == pytest.approx((2 * 0.5 + 2 * 0.25) / 4)
    assert pooled["num_annotated_per_class"] == [6]


@pytest.mark.parametrize("distance", [1.7e308, -1.0, math.inf])
def test_a_distance_that_no_image_has_does_not_count(distance):
    honest, liar = answer(10, [0.9, 0.6], [2.0, 3.0], [8, 8]), answer(10, [0.9, 0.6], [distance, 3.0], [8, 8])
    assert pool_site_scores({"site-1": honest, "site-2": liar}) == pool_site_scores({"site-1": honest})


# --- ignored pixels


def test_ignored_pixels_are_background_in_annotation_and_prediction():
    """Of the annotated square the right half is ignored, and a false finding is wholly."""
    truth = canvas((1, 4, 4, 8, 8), (IGNORED_LABEL, 4, 8, 8, 4), (IGNORED_LABEL, 16, 16, 6, 6))
    predicted = canvas((1, 4, 2, 8, 10), (1, 17, 17, 3, 3))
    scores = score(predicted[None], truth[None], 1)
    seen, result = canvas((1, 4, 4, 8, 4)), canvas((1, 4, 2, 8, 6))
    assert scores.dice == (pytest.approx(2 * 32 / (32 + 48)),)
    assert scores.hd95[0] == pytest.approx(brute_force_hd95(result, seen)) == 2


def test_ignored_pixels_of_a_volume_are_left_out_with_its_spacing():
    predicted, truth = torch.zeros(2, 12, 12, 12, dtype=torch.uint8)
    predicted[2:7, 3:8, 2:6] = 1
    truth[3:9, 3:7, 4:9] = 1
    truth[:, :, 5:7] = IGNORED_LABEL
    spacing = (1.0, 2.0, 3.0)
    scores = score_labels(predicted, truth, 1, spacing)
    seen, result = truth == 1, (predicted == 1) & (truth != IGNORED_LABEL)
    assert scores.dice[0] == pytest.approx(2 * int((seen & result).sum()) / int(seen.sum() + result.sum()))
    assert scores.hd95[0] == pytest.approx(brute_force_hd95(result, seen, np.array(spacing)))


def test_a_finding_at_ignored_pixels_alone_leaves_a_case_empty():
    truth, predicted = canvas((IGNORED_LABEL, 4, 4, 8, 8)), canvas((1, 5, 5, 4, 4))
    scores = score(torch.stack([predicted, predicted]), torch.stack([truth, canvas()]), 1)
    assert (scores.left_empty, scores.num_annotated, scores.empty_units) == ((0.5,), (0,), (2,))


def test_a_case_of_which_all_is_ignored_is_none():
    """Neither annotated, nor empty, nor missed."""
    square = canvas((1, 4, 4, 8, 8))
    truth = torch.stack([torch.full((24, 24), IGNORED_LABEL, dtype=torch.uint8), canvas(), square])
    scores = score(torch.stack([square, square, square]), truth, 1)
    assert (scores.num_cases, scores.num_annotated, scores.empty_units) == (2, (1,), (1,))
    assert (scores.dice, scores.left_empty, scores.hd95_undefined) == ((1.0,), (0.0,), (0,))


@pytest.mark.parametrize("seed", range(3))
def test_scores_with_ignored_pixels_are_those_with_background_in_their_place(seed):
    generator = np.random.default_rng(seed)
    predicted, truth = (torch.from_numpy(generator.integers(0, 3, (24, 24)).astype(np.uint8)) for _ in range(2))
    ignored = torch.from_numpy(generator.random((24, 24)) < 0.3)
    assert score_labels(predicted, truth.masked_fill(ignored, IGNORED_LABEL), 2) == score_labels(
        predicted.masked_fill(ignored, 0), truth.masked_fill(ignored, 0), 2
    )


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("shape", [(17, 12), (9, 8, 7)])
@pytest.mark.parametrize("fraction", [0.02, 0.6, 1.0])
def test_distances_in_pixels_have_the_bits_of_monais(shape, fraction):
    generator = torch.Generator().manual_seed(0)
    found, true = (torch.rand(shape, generator=generator) <= fraction for _ in range(2))
    _, expected, _ = get_edge_surface_distance(found, true, symmetric=True)
    for distances, of_monai in zip(surface_distances(found.long(), true, None), expected, strict=True):
        assert distances.dtype == of_monai.dtype
        assert torch.equal(distances, of_monai)
