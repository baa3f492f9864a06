"""Lesions side by side: which are new, how many are missing, what is chosen, and what the model is fit as a
reference.
"""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedannot.custom.annotation_bias.cases import PredictedCase
from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.fedia.lesion_counts import LesionCounts
from fedannot.custom.methods.fedia.predicted_lesions import (
    CaseLesions,
    PredictedLesion,
    as_mask,
    case_lesions,
    confident_completeness,
    lesion_precision,
    lesion_recall,
    missing_lesions,
    predict_lesions,
)


def predicted_case(annotation, *found, num_classes=1):
    """A case in which lesions are found at boxes with a probability: ``(rows, columns, label, probability)``."""
    probabilities = np.zeros((num_classes + 1, *annotation.shape))
    for rows, columns, label, probability in found:
        probabilities[label, slice(*rows), slice(*columns)] = probability
    probabilities[0] = 1 - probabilities[1:].sum(axis=0)
    return PredictedCase("p", annotation, probabilities)


def annotated(shape, *boxes):
    mask = np.zeros(shape, dtype=np.uint8)
    for rows, columns, label in boxes:
        mask[slice(*rows), slice(*columns)] = label
    return mask


def test_new_is_what_lies_apart_from_everything_annotated_and_large_enough():
    annotation = annotated((20, 20), ((2, 6), (2, 6), 1), ((14, 17), (14, 17), 2))
    annotation[18, 0] = 255
    case = predicted_case(
        annotation,
        ((2, 6), (7, 9), 1, 0.8),  # a pixel lies between it and the first lesion: new
        ((3, 8), (2, 6), 1, 0.9),  # shares 3 × 4 of its 5 × 4 pixels with the first lesion
        ((11, 14), (14, 17), 1, 0.7),  # no pixel between it and the lesion of the other class
        ((18, 20), (1, 4), 1, 0.95),  # beside an ignored pixel
        ((10, 12), (2, 4), 1, 0.6),  # four pixels
        ((10, 13), (7, 9), 1, 0.75),
        num_classes=2,
    )
    result = case_lesions(case, 5)
    assert [(item.size, item.annotated_voxels, item.is_new, item.confidence) for item in result.predicted] == [
        (8, 0, True, pytest.approx(0.8)),
        (20, 12, False, pytest.approx(0.9)),
        (6, 0, True, pytest.approx(0.75)),
        (9, 0, False, pytest.approx(0.7)),
        (6, 0, False, pytest.approx(0.95)),
    ]
    # The lesion of the second class is not found.
    assert (result.annotated, result.found) == (2, 1)
    assert result.counts == LesionCounts(annotated=2, predicted=6, matched=1)
    assert lesion_recall([result]) == 0.5
    assert lesion_precision([result]) == pytest.approx(12 / 20)


def lesion(confidence, is_new=True, label=1, place=0):
    voxels = np.ones((1, 5), dtype=bool)
    return PredictedLesion(
        label, confidence, 0 if is_new else 5, is_new, (slice(place, place + 1), slice(0, 5)), voxels
    )


def case_of(known=(), new=(), unit="p", label=1):
    predicted = [lesion(item, is_new=False, label=label) for item in known]
    predicted += [lesion(item, label=label) for item in new]
    return CaseLesions(unit, (9, 9), LesionCounts(), len(known), len(known), tuple(predicted))


KNOWN = (0.80, 0.90, 0.92, 0.94, 0.96)  # a quarter of them is below 0.90, a tenth below 0.84


def test_of_as_sure_lesions_three_in_four_are_counted():
    cases = [case_of(KNOWN, (0.95, 0.85), "a"), case_of(KNOWN, (0.9, 0.7, 0.99), "b")]
    # Three new ones are at least as sure as 0.90, so four are missing: 10 of 14 are annotated.
    share = confident_completeness(cases, 1, seed=0)
    assert share.value == pytest.approx(10 / 14)
    # One case alone has 5 / (5 + 4/3), the other 5 / (5 + 8/3).
    assert share.low == pytest.approx(15 / 23)
    assert share.high == pytest.approx(15 / 19)


def test_without_new_lesions_everything_is_annotated_and_without_any_nothing_is_known():
    share = confident_completeness([case_of(KNOWN, (0.85,), unit) for unit in "ab"], 1, seed=0)
    assert (share.value, share.low, share.high) == (1.0, 1.0, 1.0)
    assert math.isnan(confident_completeness([case_of(unit=unit) for unit in "ab"], 1, seed=0).value)
    assert math.isnan(lesion_recall([case_of()]))
    assert math.isnan(lesion_precision([case_of()]))


def test_where_nothing_is_annotated_every_found_lesion_is_missing_and_none_is_chosen():
    cases = [case_of((), (0.6, 0.9), unit) for unit in "ab"]
    share = confident_completeness(cases, 1, seed=0)
    assert (share.value, share.high) == (0.0, 0.0)
    assert missing_lesions(cases, 1) == [[], []]


def test_the_most_confident_are_chosen_of_all_cases_together_and_no_more_than_are_missing():
    # Two are at least as sure as 0.90: 2 / 0.75 = 2.67 are missing, so two are chosen although three are sure enough.
    cases = [case_of(KNOWN, (0.89, 0.97), "a"), case_of((), (0.91, 0.86, 0.5), "b")]
    chosen = missing_lesions(cases, 1)
    assert [[item.confidence for item in of_case] for of_case in chosen] == [[0.97], [0.91]]


def test_what_is_less_sure_than_nine_in_ten_annotated_ones_is_no_lesion():
    # Six sure ones: eight are missing; 0.85 is above the tenth, 0.83 below.
    cases = [case_of(KNOWN, (0.95,) * 6 + (0.85, 0.83), "a")]
    (chosen,) = missing_lesions(cases, 1)
    assert [item.confidence for item in chosen] == [0.95] * 6 + [0.85]


def test_classes_are_predicted_each_by_its_own_lesions():
    cases = [case_of(KNOWN, (0.95,), "a"), case_of((0.4, 0.5, 0.6), (0.5,), "b", label=2)]
    assert [[item.confidence for item in of_case] for of_case in missing_lesions(cases, 2)] == [[0.95], [0.5]]
    # Of each class one new lesion counts 4/3.
    assert confident_completeness(cases, 2, seed=0).value == pytest.approx(8 / (8 + 8 / 3))


def test_lesions_are_drawn_as_their_classes():
    mask = as_mask([lesion(0.9, place=1), lesion(0.9, label=2, place=4)], (6, 7))
    expected = np.zeros((6, 7))
    expected[1, :5], expected[4, :5] = 1, 2
    np.testing.assert_array_equal(mask, expected)


class Given(nn.Module):
    """Finds foreground where the image is above 0.5, with the image as its logit; everywhere in training mode."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images):
        foreground = self.scale * images + (100.0 if self.training else 0.0)
        return torch.cat([torch.full_like(foreground, 0.5), foreground], dim=1)


def test_slices_are_predicted_as_the_volumes_that_they_make_up():
    label = torch.zeros(3, 8, 8, dtype=torch.uint8)
    label[:2, 1:3, 1:3] = 1
    image = label[:, None].float()
    image[1:, 0, 5:7, 5:7] = 2.0  # over two slices, with the probability σ(1.5)
    case = LoadedCase("v", "v", image, label, None, (1.0, 1.0), slice_spacing=2.0)
    network = Given().train()
    first, second = predict_lesions(network, [case, case], Inference(2), smallest=5)
    assert network.training
    assert first.shape == (3, 8, 8)
    assert [(item.size, item.annotated_voxels, item.is_new) for item in first.predicted] == [
        (8, 8, False),
        (8, 0, True),
    ]
    assert first.predicted[1].confidence == pytest.approx(1 / (1 + math.exp(-1.5)), abs=1e-6)
    assert first.counts == second.counts == LesionCounts(1, 2, 1)
    picture = LoadedCase("q", "q", image[:1], label[:1], None, None)
    (only,) = predict_lesions(network, [picture], Inference(2), smallest=1)
    assert only.shape == (8, 8)
