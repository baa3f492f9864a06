"""Which annotated objects get the class that a model sees: the most confident ones, and no more than are confused."""

import numpy as np
import pytest

from fedannot.custom.annotation_bias.cases import PredictedCase
from fedannot.custom.methods.auto.relabelling import ConfusedObjects

PLACES = [(slice(2, 6), slice(2 + 8 * column, 6 + 8 * column)) for column in range(4)]


def predicted(given, seen, confident=0.9):
    """Four squares with their given class and the one that the model sees."""
    annotation = np.zeros((10, 36), dtype=np.uint8)
    probabilities = np.full((3, 10, 36), 0.01)
    probabilities[0] = 0.98
    for place, label, other in zip(PLACES, given, seen, strict=True):
        annotation[place] = label
        probabilities[0][place] = 0.0
        probabilities[other][place] = confident
        probabilities[3 - other][place] = 1 - confident
    return PredictedCase("patient", annotation, probabilities)


def relabelled(share, *samples):
    objects = ConfusedObjects(share)
    for sample in samples:
        objects.see(sample)
    result = objects.relabelled([sample.annotation for sample in samples])
    for sample, (other, _) in zip(samples, result, strict=True):
        # With a decision goes the class that the object has.
        np.testing.assert_array_equal(other.given, np.where(other.becomes != 0, sample.annotation, 0))
    return [(other.becomes, count) for other, count in result]


def classes_at(classes):
    return [np.unique(classes[place]).tolist() for place in PLACES]


def test_confused_objects_get_the_class_that_the_model_sees_as_a_whole():
    ((classes, count),) = relabelled(0.5, predicted((1, 2, 1, 2), (1, 1, 2, 2)))
    assert (count, classes_at(classes)) == (2, [[0], [1], [2], [0]])
    assert np.count_nonzero(classes) == 2 * 16


def test_objects_are_found_whatever_the_order_of_the_samples_in_memory():
    """Volumes of NIfTI files come in Fortran's."""
    sample = predicted((1, 2, 1, 2), (1, 1, 2, 2))
    objects = ConfusedObjects(0.5)
    objects.see(sample)
    ((other, count),) = objects.relabelled([np.asfortranarray(sample.annotation)])
    assert (count, classes_at(other.becomes)) == (2, [[0], [1], [2], [0]])


def test_no_more_objects_than_are_confused_and_the_most_confident_of_all_samples_first():
    unsure, confident = (
        predicted((1, 1, 1, 1), (1, 1, 2, 2), confident=0.9),
        predicted((2, 2, 2, 2), (1, 2, 2, 2), confident=0.99),
    )
    (_, first), (classes, second) = relabelled(1 / 8, unsure, confident)
    assert (first, second, classes_at(classes)) == (0, 1, [[1], [0], [0], [0]])
    assert [count for _, count in relabelled(1.0, unsure, confident)] == [2, 1]


def test_what_the_model_is_not_sure_of_stays():
    assert [count for _, count in relabelled(1.0, predicted((1, 1, 1, 1), (2, 2, 2, 2), confident=0.6))] == [0]


def test_where_nothing_is_confused_no_object_is_looked_at():
    ((classes, count),) = relabelled(0.0, predicted((1, 1, 1, 1), (2, 2, 2, 2)))
    assert (count, int(classes.max())) == (0, 0)


def test_objects_of_a_class_that_the_model_does_not_know_are_no_other():
    assert [count for _, count in relabelled(1.0, predicted((2, 2, 2, 2), (1, 1, 1, 1)))] == [0]
    assert [count for _, count in relabelled(1.0, predicted((2, 2, 2, 1), (1, 1, 1, 2)))] == [4]


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_without_objects_nothing_is_chosen(share):
    empty = PredictedCase(
        "patient", np.zeros((4, 4), np.uint8), np.stack([np.full((4, 4), item) for item in (0.8, 0.1, 0.1)])
    )
    assert [count for _, count in relabelled(share, empty)] == [0]
