"""Missing and spurious objects, worked by hand."""

import numpy as np
import pytest
from judged import JudgedCase, case_of

from fedannot.custom.channel.detections import case_detections, unannotated_sureness
from fedannot.custom.channel.site_estimates import estimate_detections


def squares(*corners, shape=(30, 30)):
    mask = np.zeros(shape, dtype=np.uint8)
    for row, column in corners:
        mask[row : row + 3, column : column + 3] = 1
    return mask


ANNOTATED, PREDICTED = squares((2, 2), (2, 12), (20, 20)), squares((2, 2), (2, 12), (12, 2), (12, 12))


def test_objects_are_counted_by_hand():
    found = case_detections(case_of(ANNOTATED, PREDICTED), 1)
    assert (found.num_annotated, found.num_predicted, found.num_spurious) == (3, 4, 1)
    assert found.matched.tolist() == [0.9, 0.9]
    assert found.unmatched.tolist() == [0.9, 0.9]


def test_an_object_that_is_drawn_far_too_small_is_not_left_out():
    predicted = np.zeros((30, 30), dtype=np.uint8)
    predicted[2:14, 2:14] = predicted[20:26, 20:26] = 1
    drawn = squares((6, 6))  # 9 of 144 pixels: an intersection over union of 0.06
    found = case_detections(case_of(drawn, predicted), 1)
    assert (len(found.matched), len(found.unmatched)) == (1, 1)


def test_an_annotated_object_of_which_the_model_sees_something_nearby_is_not_spurious():
    case = case_of(squares((10, 10)), squares())
    probabilities = case.probabilities.copy()
    probabilities[1, 14, 11] = 0.4  # two pixels below
    near = JudgedCase("patient", case.annotation, probabilities)
    assert case_detections(case, 1).num_spurious == 1
    assert case_detections(near, 1).num_spurious == 0


def test_estimates_of_a_site_are_ratios_of_sums():
    other = case_of(squares((2, 2)), squares((2, 2)), unit="other", sureness=0.6)
    found = estimate_detections([case_of(ANNOTATED, PREDICTED), other], 1, seed=100)
    assert found.counted.value == pytest.approx(4 / 5)
    assert found.matched.value == pytest.approx(3 / 5)
    assert found.calibrated.value == pytest.approx((1.8 + 0.6) / (3.6 + 0.6))
    assert found.spurious.value == pytest.approx(1 / 4)
    assert found.counted.patients == 2


def test_of_what_is_not_annotated_only_sure_objects_are_left_out():
    """Three in four matched objects have 0.8 and more. Of the unmatched ones one has it: it stands for 4/3."""
    given, extra = squares((2, 2), (2, 8), (2, 14), (2, 20)), [(12, 2), (12, 12), (20, 20)]
    case = case_of(given, given | squares(*extra))
    probabilities = case.probabilities.copy()
    sureness = {(2, 2): 0.6, (2, 8): 0.8, (2, 14): 0.9, (2, 20): 1.0, (12, 2): 0.85, (12, 12): 0.7, (20, 20): 0.55}
    for (row, column), value in sureness.items():
        probabilities[1, row : row + 3, column : column + 3] = value
        probabilities[0, row : row + 3, column : column + 3] = 1 - value
    found = estimate_detections([JudgedCase("patient", case.annotation, probabilities)], 1, seed=100)
    assert found.sure.value == pytest.approx(4 / (4 + 1 / 0.75))
    assert found.matched.value == pytest.approx(4 / 7)


def test_where_all_are_as_sure_all_count():
    found = estimate_detections([case_of(ANNOTATED, PREDICTED)], 1, seed=100)
    assert found.sure.value == found.matched.value == pytest.approx(1 / 2)


def test_where_nothing_matches_everything_that_is_found_is_left_out():
    assert estimate_detections([case_of(squares(), PREDICTED)], 1, seed=100).sure.value == 0


def test_counted_completeness_is_at_most_one():
    assert estimate_detections([case_of(PREDICTED, squares((2, 2)))], 1, seed=100).counted.value == 1


def test_unannotated_objects_are_shown_and_those_touched_are_not():
    case = case_of(squares((2, 2), (14, 14)), PREDICTED)
    found = unannotated_sureness(case, 1)
    assert np.array_equal(found > 0, squares((2, 12), (12, 2)) > 0)
    assert found.max() == 0.9


def test_ignored_pixels_are_no_missing_object():
    annotation = squares((2, 2))
    annotation[12:15, 2:5] = 255
    found = case_detections(case_of(annotation, squares((2, 2), (12, 2))), 1)
    assert found.num_predicted == 1
