"""The confident joint against a case worked by hand, and against noise that was drawn."""

import numpy as np
import pytest
from predicted_cases import PredictedCase

from fedannot.custom.annotation_bias.confusion import (
    ObjectSamples,
    are_of_known_classes,
    class_samples,
    confident_joint,
    confused_share,
    exchanged_part,
)
from fedannot.custom.annotation_bias.site_estimates import estimate_confused, estimate_confusion
from fedannot.transforms.noise.class_noise import ClassNoise
from fedannot.transforms.noise.mislabel import Mislabel

# Given 0: p_0 = .9, .8, .1, mean .6; given 1: p_1 = .7, .9, .8, .2, mean .65.
LABELS = np.array([0, 0, 0, 1, 1, 1, 1])
FIRST = np.array([0.9, 0.8, 0.1, 0.3, 0.1, 0.2, 0.8])
PROBABILITIES = np.stack([FIRST, 1 - FIRST], axis=1)


def test_a_case_worked_by_hand():
    result = confident_joint(PROBABILITIES, LABELS)
    assert result.counts.tolist() == [[2, 1], [1, 3]]
    assert result.joint == pytest.approx(np.array([[2 / 7, 1 / 7], [1 / 7, 3 / 7]]))
    assert result.noise_level == pytest.approx(2 / 7)
    # Truly 0 are 2/7 given 0 and 1/7 given 1.
    assert result.transition == pytest.approx(np.array([[2 / 3, 1 / 3], [1 / 4, 3 / 4]]))


def test_samples_below_every_threshold_are_not_counted_but_scaled():
    labels = np.array([0, 0, 1, 1])
    probabilities = np.array([[0.9, 0.1, 0.0], [0.5, 0.1, 0.4], [0.1, 0.9, 0.0], [0.1, 0.9, 0.0]])
    result = confident_joint(probabilities, labels)
    assert result.counts.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 0]]
    assert result.joint.diagonal().tolist() == [0.5, 0.5, 0.0]
    assert result.transition[2].tolist() == [0, 0, 1]


@pytest.mark.parametrize("rate", [0, 10, 30])
def test_the_noise_level_is_that_which_was_drawn(rate):
    generator = np.random.default_rng(100)
    true = generator.integers(0, 4, 2000)
    logits = 4.0 * np.eye(4)[true] + generator.standard_normal((2000, 4))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    given = Mislabel(ClassNoise("symmetric", rate / 100), 4).set_random_state(seed=100)(true)
    result, level = estimate_confusion(probabilities, given, [str(i) for i in range(2000)], seed=100)
    assert result.noise_level == pytest.approx((given != true).mean(), abs=0.05)
    assert level.low <= level.value <= level.high


def probabilities_of(true, num_classes, seed=100):
    """What a model says that is right and sure of itself."""
    logits = 4.0 * np.eye(num_classes)[true] + np.random.default_rng(seed).standard_normal((len(true), num_classes))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("num_classes", [2, 3, 4, 5])
def test_the_fraction_of_exchanged_codes_is_right_with_any_number_of_classes(num_classes):
    true = np.random.default_rng(100).integers(0, num_classes, 600)
    codes = np.array([1, 0, *range(2, num_classes)])
    share = confused_share(probabilities_of(true, num_classes), codes[true])
    assert share == pytest.approx((true < 2).mean(), abs=0.03)


def test_a_fraction_of_confused_samples_worked_by_hand():
    """Of three that seem to be 0 (.9, .8, .8) the sure one is right, of four that seem to be 1 one of two is."""
    assert confused_share(PROBABILITIES, LABELS) == pytest.approx(4 / 7 * 1 / 2)


def test_a_class_that_a_model_is_seldom_sure_of_counts_no_less():
    """A fifth of the first class is surely seen, all of the second; all of the second are wrong."""
    first = np.array([0.99] * 10 + [0.7] * 40)
    probabilities = np.concatenate([np.stack([first, 1 - first], axis=1), np.tile([0.1, 0.9], (50, 1))])
    assert confused_share(probabilities, np.zeros(100, dtype=np.int64)) == pytest.approx(0.5)


@pytest.mark.parametrize("count", range(1, 60, 7))
def test_equal_samples_are_all_sure(count):
    assert confused_share(np.tile([0.9, 0.1], (count, 1)), np.ones(count, dtype=np.int64)) == 1.0


@pytest.mark.parametrize(
    ("given", "seems", "part"),
    [
        ("AABBCCDD", "AABBCCDD", 1.0),  # right codes
        ("AABBCCDD", "BBAACCDD", 0.5),  # two exchanged
        ("AABBCCDD", "BBCCAADD", 0.75),  # three in a circle
        ("AABBCCDD", "BBAADDCC", 1.0),  # two pairs
        ("AABBCCDD", "BBBBCCDD", 1.0),  # a class that is taken for another, which is not taken for it
        ("AABBCCDD", "BABBCCDD", 1.0),  # half of a class is not most of it
        ("AAABCCDD", "BBAACCDD", 0.5),  # most of three, all of one
        ("AABBCCCC", "BBAACCCC", 0.5),  # a class that nothing is given as
        ("AABB", "BBAA", 1.0),
    ],
)
def test_the_part_with_exchanged_codes_worked_by_hand(given, seems, part):
    given, seems = (np.array([("ABCD").index(item) for item in row]) for row in (given, seems))
    assert exchanged_part(0.9 * np.eye(4)[seems] + 0.025, given) == part


def test_without_samples_no_code_is_exchanged():
    assert exchanged_part(np.zeros((0, 3)), np.zeros(0, dtype=np.int64)) == 1.0


def test_without_samples_there_is_no_share():
    with pytest.raises(ValueError, match="at least one sample"):
        confused_share(np.zeros((0, 2)), np.zeros(0, dtype=np.int64))


@pytest.mark.parametrize(
    ("given", "seems", "known"),
    [
        ("BBBB", "AAAA", "----"),
        ("AABB", "AAAA", "AA--"),
        ("BBBCC", "AAACC", "---CC"),
        ("AABBB", "BBAAA", "AABBB"),
        ("B" * 30 + "A", "A" * 30 + "B", "-" * 30 + "A"),
        ("B" * 10 + "A", "A" * 10 + "B", "B" * 10 + "A"),
    ],
)
def test_a_class_that_looks_like_another_throughout_is_not_known(given, seems, known):
    """A model that has not learnt it says the same as a site that gives another class its name."""
    given, seems = ([("ABC").index(item) for item in row] for row in (given, seems))
    result = are_of_known_classes(0.9 * np.eye(3)[seems] + 0.03, np.array(given))
    assert result.tolist() == [item != "-" for item in known]


def test_the_fraction_of_confused_samples_is_right_where_a_model_is_less_sure_of_one_class():
    """A fifth of the labels is wrong."""
    generator = np.random.default_rng(100)
    true = generator.integers(0, 2, 4000)
    logits = np.array([1.0, 6.0])[true][:, None] * np.eye(2)[true] + 0.3 * generator.standard_normal((4000, 2))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    given = np.where(generator.random(4000) < 0.2, 1 - true, true)
    assert confused_share(probabilities, given) == pytest.approx(0.2, abs=0.02)


def test_the_interval_of_a_share_is_that_of_the_patients():
    """Half of the patients have exchanged codes; each has four objects, of which nobody doubts the class."""
    true = np.tile([0, 1], 40)
    given = np.where(np.arange(80) < 40, true, 1 - true)
    units = tuple(f"patient-{index // 4}" for index in range(80))
    result = estimate_confused(ObjectSamples(np.eye(2)[true], given, units), seed=100)
    assert (result.patients, result.value) == (20, 0.5)
    # A binomial fraction of 20 patients: its 90 % interval is 1.64 · √(0.25 / 20) = 0.18 wide on either side.
    assert (result.low, result.high) == (pytest.approx(0.32, abs=0.05), pytest.approx(0.68, abs=0.05))
    unknown = ObjectSamples(np.eye(2)[np.zeros(80, dtype=np.int64)], np.ones(80, dtype=np.int64), units)
    assert not estimate_confused(unknown, seed=100).is_known
    assert not estimate_confused(class_samples([]), seed=100).is_known
    nothing = ObjectSamples(np.zeros((0, 2)), np.zeros(0, dtype=np.int64), ())
    assert not estimate_confused(nothing, seed=100).is_known


def test_objects_of_confused_classes_are_found():
    annotation = np.zeros((20, 40), dtype=np.uint8)
    annotation[5:10, 5:10], annotation[5:10, 25:30] = 1, 2
    probabilities = np.full((3, 20, 40), 0.01)
    probabilities[0] = 0.98
    probabilities[:, 5:10, 5:10] = np.array([0.1, 0.3, 0.6])[:, None, None]
    probabilities[:, 5:10, 25:30] = np.array([0.1, 0.1, 0.8])[:, None, None]
    result = class_samples([PredictedCase("patient", annotation, probabilities)])
    assert result.labels.tolist() == [0, 1]
    assert result.probabilities == pytest.approx(np.array([[1 / 3, 2 / 3], [1 / 9, 8 / 9]]))
    assert result.units == ("patient", "patient")


def test_labels_that_are_no_classes_are_refused():
    with pytest.raises(ValueError, match="from 0 to 1"):
        confident_joint(PROBABILITIES, LABELS + 1)
