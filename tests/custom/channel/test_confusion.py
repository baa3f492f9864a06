"""The confident joint against a case worked by hand, and against noise that was drawn."""

import numpy as np
import pytest
from judged import JudgedCase

from fedannot.custom.channel.confusion import class_samples, confident_joint
from fedannot.custom.channel.site_estimates import estimate_confusion
from fedannot.transforms.noise.class_noise import ClassNoise
from fedannot.transforms.noise.mislabel import Mislabel

# Given 0: p_0 = .9, .8, .1, mean .6; given 1: p_1 = .7, .9, .8, .2, mean .65.
LABELS = np.array([0, 0, 0, 1, 1, 1, 1])
FIRST = np.array([0.9, 0.8, 0.1, 0.3, 0.1, 0.2, 0.8])
PROBABILITIES = np.stack([FIRST, 1 - FIRST], axis=1)


def test_a_case_worked_by_hand():
    found = confident_joint(PROBABILITIES, LABELS)
    assert found.counts.tolist() == [[2, 1], [1, 3]]
    assert found.joint == pytest.approx(np.array([[2 / 7, 1 / 7], [1 / 7, 3 / 7]]))
    assert found.noise_level == pytest.approx(2 / 7)
    # Truly 0 are 2/7 given 0 and 1/7 given 1.
    assert found.transition == pytest.approx(np.array([[2 / 3, 1 / 3], [1 / 4, 3 / 4]]))


def test_samples_below_every_threshold_are_not_counted_but_scaled():
    labels = np.array([0, 0, 1, 1])
    probabilities = np.array([[0.9, 0.1, 0.0], [0.5, 0.1, 0.4], [0.1, 0.9, 0.0], [0.1, 0.9, 0.0]])
    found = confident_joint(probabilities, labels)
    assert found.counts.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 0]]
    assert found.joint.diagonal().tolist() == [0.5, 0.5, 0.0]
    assert found.transition[2].tolist() == [0, 0, 1]


@pytest.mark.parametrize("rate", [0, 10, 30])
def test_the_noise_level_is_that_which_was_drawn(rate):
    generator = np.random.default_rng(100)
    true = generator.integers(0, 4, 2000)
    logits = 4.0 * np.eye(4)[true] + generator.standard_normal((2000, 4))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    given = Mislabel(ClassNoise("symmetric", rate / 100), 4).set_random_state(seed=100)(true)
    found, level = estimate_confusion(probabilities, given, [str(i) for i in range(2000)], seed=100)
    assert found.noise_level == pytest.approx((given != true).mean(), abs=0.05)
    assert level.low <= level.value <= level.high


def probabilities_of(true, num_classes, seed=100):
    """What a model says that is right and sure of itself."""
    logits = 4.0 * np.eye(num_classes)[true] + np.random.default_rng(seed).standard_normal((len(true), num_classes))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("num_classes", [2, 3, 4, 5])
def test_the_share_of_exchanged_codes_is_right_with_any_number_of_classes(num_classes):
    true = np.random.default_rng(100).integers(0, num_classes, 600)
    codes = np.array([1, 0, *range(2, num_classes)])
    found = confident_joint(probabilities_of(true, num_classes), codes[true], usual_of="seeming")
    assert found.noise_level == pytest.approx((true < 2).mean(), abs=0.02)
    # Of what is given as the first class nothing is counted as that.
    assert found.counts[0, 0] == found.counts[1, 1] == 0


def test_averages_over_what_samples_seem_to_be_worked_by_hand():
    """Seem to be 0: .9, .8, .8, mean .8333, one above; seem to be 1: .9, .7, .9, .8, mean .825, two above."""
    found = confident_joint(PROBABILITIES, LABELS, usual_of="seeming")
    assert found.counts.tolist() == [[1, 1], [0, 1]]
    assert found.noise_level == pytest.approx(3 / 7 * 1 / 2)


def test_objects_of_swapped_classes_are_found():
    annotation = np.zeros((20, 40), dtype=np.uint8)
    annotation[5:10, 5:10], annotation[5:10, 25:30] = 1, 2
    probabilities = np.full((3, 20, 40), 0.01)
    probabilities[0] = 0.98
    probabilities[:, 5:10, 5:10] = np.array([0.1, 0.3, 0.6])[:, None, None]
    probabilities[:, 5:10, 25:30] = np.array([0.1, 0.1, 0.8])[:, None, None]
    found = class_samples([JudgedCase("patient", annotation, probabilities)])
    assert found.labels.tolist() == [0, 1]
    assert found.probabilities == pytest.approx(np.array([[1 / 3, 2 / 3], [1 / 9, 8 / 9]]))
    assert found.units == ("patient", "patient")


def test_labels_that_are_no_classes_are_refused():
    with pytest.raises(ValueError, match="from 0 to 1"):
        confident_joint(PROBABILITIES, LABELS + 1)
