"""Missing and spurious objects, worked by hand."""

import itertools
import math

import numpy as np
import pytest
from predicted_cases import PredictedCase, case_of

from fedannot.custom.annotation_bias.bootstrap import bootstrap_interval
from fedannot.custom.annotation_bias.detections import case_detections, completeness_of_draws, unannotated_confidence
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.site_estimates import estimate_completeness, estimate_spurious


def squares(*corners, shape=(30, 30)):
    mask = np.zeros(shape, dtype=np.uint8)
    for row, column in corners:
        mask[row : row + 3, column : column + 3] = 1
    return mask


ANNOTATED, PREDICTED = squares((2, 2), (2, 12), (20, 20)), squares((2, 2), (2, 12), (12, 2), (12, 12))


def test_objects_are_counted_by_hand():
    result = case_detections(case_of(ANNOTATED, PREDICTED), 1)
    assert (result.num_annotated, result.num_predicted, result.num_spurious) == (3, 4, 1)
    assert result.found.tolist() == [0.9, 0.9]
    assert result.left_out.tolist() == [0.9, 0.9]


def test_an_object_that_is_drawn_far_too_small_is_not_left_out():
    predicted = np.zeros((30, 30), dtype=np.uint8)
    predicted[2:14, 2:14] = predicted[20:26, 20:26] = 1
    drawn = squares((6, 6))  # 9 of 144 pixels: an intersection over union of 0.06
    result = case_detections(case_of(drawn, predicted), 1)
    assert (len(result.found), len(result.left_out)) == (1, 1)


def test_an_annotated_object_of_which_the_model_sees_something_nearby_is_not_spurious():
    case = case_of(squares((10, 10)), squares())
    probabilities = case.probabilities.copy()
    probabilities[1, 14, 11] = 0.4  # two pixels below
    near = PredictedCase("patient", case.annotation, probabilities)
    assert case_detections(case, 1).num_spurious == 1
    assert case_detections(near, 1).num_spurious == 0


def test_estimates_of_a_site_are_of_all_its_cases_together():
    other = case_of(squares((2, 2)), squares((2, 2)), unit="other", confidence=0.6)
    cases = [case_of(ANNOTATED, PREDICTED), other]
    # Annotated objects have 0.9, 0.9 and 0.6: two in three have the 0.75 that three in four have, as have both others.
    result = estimate_completeness(cases, 1, seed=100)
    assert result.value == pytest.approx(3 / (3 + 2 / (2 / 3)))
    assert result.patients == 2
    assert estimate_spurious(cases, 1, seed=100).value == pytest.approx(1 / 4)


def test_of_what_is_not_annotated_only_sure_objects_are_left_out():
    """Three in four annotated objects have 0.8 and more. Of the others one has it: it stands for 4/3."""
    given, extra = squares((2, 2), (2, 8), (2, 14), (2, 20)), [(12, 2), (12, 12), (20, 20)]
    case = case_of(given, given | squares(*extra))
    probabilities = case.probabilities.copy()
    confidence = {(2, 2): 0.6, (2, 8): 0.8, (2, 14): 0.9, (2, 20): 1.0, (12, 2): 0.85, (12, 12): 0.7, (20, 20): 0.55}
    for (row, column), value in confidence.items():
        probabilities[1, row : row + 3, column : column + 3] = value
        probabilities[0, row : row + 3, column : column + 3] = 1 - value
    result = estimate_completeness([PredictedCase("patient", case.annotation, probabilities)], 1, seed=100)
    assert result.value == pytest.approx(4 / (4 + 1 / 0.75))


def test_where_all_are_as_sure_all_count():
    assert estimate_completeness([case_of(ANNOTATED, PREDICTED)], 1, seed=100).value == pytest.approx(1 / 2)


def test_where_nothing_is_annotated_everything_that_is_found_is_left_out():
    assert estimate_completeness([case_of(squares(), PREDICTED)], 1, seed=100).value == 0


def test_where_nothing_is_predicted_there_is_no_completeness():
    assert not estimate_completeness([case_of(PREDICTED, squares())], 1, seed=100).is_known


def objects_of(confidence, annotated, unit):
    """A case with an object of one pixel for every sureness, of which some are annotated."""
    probabilities, annotation = np.zeros((2, 4, 4 * len(confidence) + 4)), np.zeros((4, 4 * len(confidence) + 4))
    probabilities[1, 1, 1 : 4 * len(confidence) : 4] = confidence
    annotation[1, 1 : 4 * len(confidence) : 4] = annotated
    probabilities[0] = 1 - probabilities[1]
    return PredictedCase(unit, annotation.astype(np.uint8), probabilities)


def test_the_interval_is_that_of_all_draws_of_patients_each_with_a_bound_of_its_own():
    """Three patients with 27 draws, worked one by one."""
    patients = [([0.9, 0.8, 0.95], [1, 1, 0]), ([0.6, 0.7], [1, 0]), ([0.85, 0.75, 0.99], [0, 1, 0])]
    shares = []
    for draw in itertools.product(range(3), repeat=3):
        result = [one for index in draw for one, is_given in zip(*patients[index], strict=True) if is_given]
        left_out = [one for index in draw for one, is_given in zip(*patients[index], strict=True) if not is_given]
        bound = np.quantile(result, 0.25)
        as_confident = sum(item >= bound for item in result) / len(result)
        shares.append(len(result) / (len(result) + sum(item >= bound for item in left_out) / as_confident))
    result = estimate_completeness([objects_of(*one, str(index)) for index, one in enumerate(patients)], 1, seed=100)
    assert result.low == pytest.approx(np.quantile(shares, 0.05), abs=0.03)
    assert result.high == pytest.approx(np.quantile(shares, 0.95), abs=0.03)


def test_most_intervals_of_completeness_hold_the_truth():
    """Sites of 12 patients with 1 to 6 objects each, of which 60 % are annotated; the model errs, less surely."""
    generator = np.random.default_rng(100)
    held, repeats = 0, 60
    for repeat in range(repeats):
        cases = []
        for patient in range(12):
            real, wrong = generator.beta(9, 1, generator.integers(1, 7)), 0.5 + 0.2 * generator.random(2)
            annotated = np.append(generator.random(len(real)) < 0.6, [False, False])
            cases.append(objects_of(np.maximum(np.append(real, wrong), 0.51), annotated, str(patient)))
        result = estimate_completeness(cases, 1, seed=repeat)
        held += result.low <= 0.6 <= result.high
    assert 0.80 <= held / repeats <= 0.98


def completeness_by_numpy(cases):
    """The definition, of the objects of all cases in one list."""
    result, left_out = (np.concatenate([getattr(case, name) for case in cases]) for name in ("found", "left_out"))
    if len(result) == 0:
        return 0.0 if len(left_out) else math.nan
    bound = np.quantile(result, 0.25)
    return len(result) / (len(result) + np.sum(left_out >= bound) / np.mean(result >= bound))


@pytest.mark.parametrize("left_out", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("num_cases", [1, 4, 12])
def test_completeness_of_many_draws_is_that_of_each_of_them(left_out, num_cases):
    """To the bit: cases without an object, ties between probabilities, two cases of a patient."""
    generator = np.random.default_rng(num_cases)
    cases = []
    for index in range(num_cases):
        confidence = np.round(generator.uniform(0.51, 1.0, generator.integers(0, 5)), 2)
        annotated = generator.random(len(confidence)) >= left_out
        cases.append(objects_of(confidence, annotated, str(index // 2)))
    result, units = [case_detections(case, 1) for case in cases], [case.unit for case in cases]
    counts = generator.integers(0, 3, (50, num_cases))
    by_draw = [
        completeness_by_numpy([result[i] for i in np.repeat(np.arange(num_cases), row)] or result) for row in counts
    ]
    drawn = completeness_of_draws(result, np.where(counts.any(axis=1, keepdims=True), counts, 1))
    assert np.array_equal(drawn, by_draw, equal_nan=True)
    slowly = bootstrap_interval(units, lambda chosen: completeness_by_numpy([result[i] for i in chosen]), seed=3)
    expected = Estimate.of_interval(len(set(units)), slowly)
    assert plain(estimate_completeness(cases, 1, seed=3)) == plain(expected)


def plain(estimate):
    """Its values, which are equal where they are NaN, too."""
    return repr(estimate)


def test_what_is_mostly_annotated_as_another_class_is_neither_found_nor_left_out():
    """Two predicted objects of class 1: of one a third is annotated as class 2, of the other two thirds."""
    annotation = squares()
    annotation[2, 2:5] = annotation[12:14, 2:5] = 2
    predicted = squares((2, 2), (12, 2))
    probabilities = np.stack([0.9 - 0.8 * predicted, 0.1 + 0.8 * predicted, np.zeros((30, 30))])
    case = PredictedCase("patient", annotation, probabilities)
    result = case_detections(case, 1)
    assert (len(result.found), len(result.left_out)) == (0, 1)
    assert np.array_equal(unannotated_confidence(case, 1) > 0, squares((2, 2)) > 0)


def test_unannotated_objects_are_shown_and_those_touched_are_not():
    case = case_of(squares((2, 2), (14, 14)), PREDICTED)
    result = unannotated_confidence(case, 1)
    assert np.array_equal(result > 0, squares((2, 12), (12, 2)) > 0)
    assert result.max() == 0.9


def test_ignored_pixels_are_no_missing_object():
    annotation = squares((2, 2))
    annotation[12:15, 2:5] = 255
    result = case_detections(case_of(annotation, squares((2, 2), (12, 2))), 1)
    assert result.num_predicted == 1
