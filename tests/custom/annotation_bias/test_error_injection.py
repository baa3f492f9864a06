"""Errors that are put in, on cases of which it is known how they must show."""

import math

import numpy as np
import pytest
from predicted_cases import PredictedCase, case_of, site

from fedannot.custom.annotation_bias.error_injection import (
    UNTRIED,
    calibrate_completeness,
    calibrate_confusion,
    calibrate_offset,
)


def squares(count):
    mask = np.zeros((60, 60), dtype=np.uint8)
    for index in range(count):
        row, column = 4 + 14 * (index // 4), 4 + 14 * (index % 4)
        mask[row : row + 6, column : column + 6] = 1
    return mask


def test_a_model_that_knows_the_contours_sees_every_offset():
    result = calibrate_offset(site(0.0), 1, seed=100)
    assert result.slope == pytest.approx(1.0, abs=0.1)
    assert result.auroc > 0.95


def test_an_error_smaller_than_the_spread_of_cases_is_not_distinguished():
    assert calibrate_offset(site(0.0, spread=6.0), 1, seed=100).auroc < 0.7


def test_a_model_that_repeats_its_training_masks_sees_nothing_less():
    # The slope is of the annotation alone; it is the estimate's, not the model's.
    assert calibrate_offset(site(3.0), 1, seed=100).slope == pytest.approx(1.0, abs=0.1)


def test_a_model_that_finds_nothing_leaves_it_untried():
    cases = [PredictedCase(c.unit, c.annotation, np.stack([0 * c.probabilities[0] + 0.9] * 2)) for c in site(0.0)]
    result = calibrate_offset(cases, 1, seed=100)
    assert np.isnan(result.slope)
    assert np.isnan(result.auroc)


def test_missing_objects_show_in_full_where_all_objects_are_found():
    cases = [case_of(squares(8), squares(8), unit=str(index)) for index in range(6)]
    result = calibrate_completeness(cases, 1, seed=100)
    assert result.slope == pytest.approx(1.0)
    assert result.auroc == 1.0


def test_missing_objects_show_by_half_where_half_of_the_predicted_are_none():
    # Eight of sixteen predicted objects are real: the fraction of annotated ones falls from 1/2 to 1/4, half of itself.
    cases = [case_of(squares(8), squares(16), unit=str(index)) for index in range(6)]
    assert calibrate_completeness(cases, 1, seed=100).slope == pytest.approx(1.0)


def test_a_model_that_sees_no_object_tells_none_that_is_missing():
    predicted = np.roll(squares(8), 30, axis=0)
    result = calibrate_completeness(
        [case_of(squares(8), predicted, unit=str(index)) for index in range(6)], 1, seed=100
    )
    assert result.auroc <= 0.5


def test_a_site_that_leaves_most_out_is_seen_to_do_so():
    """One of eight objects is annotated; the model sees all of them, and more of them than of what is elsewhere."""
    cases = [case_of(squares(1), squares(8), unit=str(index)) for index in range(8)]
    result = calibrate_completeness(cases, 1, seed=100)
    assert result.auroc >= 0.7
    # Of four of eight cases the only object goes: completeness falls from an eighth to none.
    assert result.slope == pytest.approx(1.0)


def test_wrong_labels_show_where_the_model_is_right():
    generator = np.random.default_rng(100)
    true = generator.integers(0, 3, 600)
    logits = 5.0 * np.eye(3)[true] + generator.standard_normal((600, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    result = calibrate_confusion(probabilities, true, seed=100)
    assert result.slope == pytest.approx(1.0, abs=0.1)
    assert result.auroc > 0.95


def test_wrong_labels_do_not_show_where_the_model_guesses():
    generator = np.random.default_rng(100)
    probabilities = generator.dirichlet([1, 1, 1], 600)
    result = calibrate_confusion(probabilities, generator.integers(0, 3, 600), seed=100)
    assert result.auroc == pytest.approx(0.5, abs=0.1)
    # As many labels are wrong as by chance: others in their place are as often right.
    half = np.tile([0, 1], 300)
    assert math.isnan(calibrate_confusion(np.eye(2)[half], np.repeat([0, 1, 0, 1], 150), seed=100).slope)


@pytest.mark.parametrize("codes", [(1, 0), (1, 0, 2), (1, 2, 0), (1, 0, 2, 3), (1, 0, 3, 2), (4, 1, 2, 3, 0)])
def test_a_model_tells_classes_apart_whose_codes_are_exchanged_as_well_as_with_the_right_ones(codes):
    generator = np.random.default_rng(100)
    true = generator.integers(0, len(codes), 300)
    logits = 3.0 * np.eye(len(codes))[true] + generator.standard_normal((300, len(codes)))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    result = calibrate_confusion(probabilities, np.array(codes)[true], seed=100)
    assert result == calibrate_confusion(probabilities, true, seed=100)
    assert result.slope == pytest.approx(1.0, abs=0.2)
    assert result.auroc > 0.9


def test_labels_that_were_wrong_before_become_right():
    """Of two classes three in ten are wrong: of a fifth that is changed only 4 in 10 look worse than before."""
    generator = np.random.default_rng(100)
    true = generator.integers(0, 2, 2000)
    given = np.where(generator.random(2000) < 0.3, 1 - true, true)
    result = calibrate_confusion(0.9 * np.eye(2)[true] + 0.05, given, seed=100)
    assert result.slope == pytest.approx(1.0, abs=0.1)


def test_a_few_objects_are_enough_for_the_slope_and_fewer_are_not_tried():
    true = np.tile([0, 1], 6)
    slopes = [calibrate_confusion(0.9 * np.eye(2)[true] + 0.05, true, seed=seed).slope for seed in range(40)]
    assert 0.8 <= min(slopes) <= max(slopes) <= 1.2
    assert calibrate_confusion(np.eye(2)[true[:9]], true[:9], seed=100) == UNTRIED


def test_classes_that_the_model_does_not_know_calibrate_nothing():
    """They are all seen as another class: nobody can say that it would be known."""
    seen = np.eye(2)[np.zeros(40, dtype=np.int64)]
    assert calibrate_confusion(seen, np.ones(40, dtype=np.int64), seed=100) == UNTRIED


def test_annotations_are_not_changed():
    cases = site(0.0)
    before = [case.annotation.copy() for case in cases]
    calibrate_offset(cases, 1, seed=100)
    assert all(np.array_equal(case.annotation, kept) for case, kept in zip(cases, before, strict=True))
