"""Clean samples, thresholds and pseudo-labels, worked by hand and against a plain reading of the equations."""

import math

import numpy as np
import pytest

from fedannot.custom.methods.fedgsca.label_selection import (
    class_thresholds,
    looks_like_another,
    sample_losses,
    select_samples,
)
from fedannot.custom.methods.fedgsca.sample_selector import SampleSelector, selector_coefficient

SELECTOR = SampleSelector((0.2, 2.5), (0.05, 0.5), (0.7, 0.3))
OPTIONS = {"smallest_noise_level": 0.1, "threshold": 0.8, "adaptive": True}

# Five samples of three classes; the last two have losses of 2.3 and 4.6 for their labels.
PROBABILITIES = np.array(
    [[0.9, 0.05, 0.05], [0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.1, 0.85, 0.05], [0.3, 0.69, 0.01]],
)
LABELS = np.array([0, 0, 1, 0, 2])


def test_samples_are_divided_by_the_posterior_and_relabelled_by_the_thresholds():
    selection = select_samples(PROBABILITIES, LABELS, SELECTOR, **OPTIONS)
    losses = -np.log([0.9, 0.8, 0.7, 0.1, 0.01])
    np.testing.assert_allclose(sample_losses(PROBABILITIES, LABELS, "ce"), losses)
    assert selection.coefficient == selector_coefficient(losses) == pytest.approx(0.8)
    assert selection.clean.tolist() == [True, True, True, False, False]
    assert selection.noise_level == 0.4
    # Avg = (1.7, 0.7, 0) / 3, so thresholds 0.8, 0.8 · 7/17 = 0.33, 0: both are confidently of class 1.
    assert selection.labels.tolist() == [0, 0, 1, 1, 1]
    assert selection.pseudo.tolist() == [False, False, False, True, True]
    assert selection.used.all()


def test_a_fixed_threshold_drops_what_the_adaptive_one_keeps():
    selection = select_samples(PROBABILITIES, LABELS, SELECTOR, **(OPTIONS | {"adaptive": False, "threshold": 0.7}))
    assert selection.used.tolist() == [True, True, True, True, False]
    assert selection.labels.tolist()[:4] == [0, 0, 1, 1]


def test_bounded_losses_by_hand():
    np.testing.assert_allclose(sample_losses(PROBABILITIES, LABELS, "mae"), [0.1, 0.2, 0.3, 0.9, 0.99])
    one_hot = np.eye(3)[LABELS]
    np.testing.assert_allclose(np.abs(one_hot - PROBABILITIES).sum(axis=1) / 2, [0.1, 0.2, 0.3, 0.9, 0.99])
    selector = SampleSelector((0.2, 0.9), (0.05, 0.05), (0.6, 0.4))
    selection = select_samples(PROBABILITIES, LABELS, selector, sample_loss="mae", **OPTIONS)
    assert selection.clean.tolist() == [True, True, True, False, False]
    # With the same variances the posterior is logistic in the loss.
    expected = 1 / (1 + np.exp((np.array([0.1, 0.2, 0.3, 0.9, 0.99]) - 0.55) * 0.7 / 0.05) * 0.4 / 0.6)
    np.testing.assert_allclose(selection.clean_probability, expected)


# The first class is typically given (0.9 + 0.5) / 2 = 0.7, the second (0.5 + 0.3) / 2 = 0.4; no sample is of the third.
TWO_CLASSES = np.array([[0.9, 0.1, 0.0], [0.5, 0.3, 0.2], [0.35, 0.5, 0.15], [0.6, 0.3, 0.1]])
TWO_LABELS = np.array([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("probabilities", "label", "expected"),
    [
        ([0.8, 0.15, 0.05], 1, True),  # as sure of the first class as its samples are
        ([0.65, 0.3, 0.05], 1, False),  # another class is predicted, but not as surely as typical
        ([0.45, 0.5, 0.05], 0, True),  # little is enough for a class that the model is never sure of
        ([0.5, 0.45, 0.05], 0, False),  # as sure of another class as typical, but surer of the label
        ([0.01, 0.01, 0.98], 0, False),  # a class without samples says nothing
    ],
)
def test_what_looks_like_another_class_by_hand(probabilities, label, expected):
    """The sample itself counts for the average of its class: copies of the four others leave it as it was."""
    copies = 10_000
    everything = np.concatenate([np.repeat(TWO_CLASSES, copies, axis=0), [probabilities]])
    labels = np.append(np.repeat(TWO_LABELS, copies), label)
    assert looks_like_another(everything, labels)[-1] == expected


def test_doubts_need_a_high_loss_and_another_class():
    """All but the first and the last have high losses; the fourth alone looks like another class as its samples do: of
    the second class with 0.7, whose only sample has 0.6.
    """
    probabilities = np.array(
        [[0.98, 0.01, 0.01], [0.3, 0.3, 0.4], [0.2, 0.4, 0.4], [0.1, 0.7, 0.2], [0.3, 0.6, 0.1], [0.0, 0.1, 0.9]]
    )
    labels = np.array([0, 0, 0, 0, 1, 2])
    selector = SampleSelector((0.1, 1.5), (0.01, 0.5), (0.5, 0.5))
    doubted = {
        confident: (~select_samples(probabilities, labels, selector, confident_doubts=confident, **OPTIONS).clean)
        for confident in (False, True)
    }
    assert doubted[False].tolist() == [False, True, True, True, True, False]
    assert doubted[True].tolist() == [False, False, False, True, False, False]


def test_thresholds_by_hand():
    clean = np.array([[0.9, 0.1, 0.0, 0.0], [0.6, 0.4, 0.0, 0.0], [0.2, 0.2, 0.6, 0.0]])
    # Sums of confidences 1.5, 0, 0.6, 0 over three samples.
    np.testing.assert_allclose(class_thresholds(clean, 0.8), [0.8, 0.0, 0.32, 0.0])
    np.testing.assert_array_equal(class_thresholds(np.zeros((0, 3)), 0.8), [0.8] * 3)


def test_without_a_selector_every_sample_is_clean():
    selection = select_samples(PROBABILITIES, LABELS, None, **OPTIONS)
    assert selection.clean.all()
    assert selection.used.all()
    assert (selection.noise_level, selection.coefficient) == (0.0, 0.0)
    np.testing.assert_array_equal(selection.labels, LABELS)


def test_little_noise_leaves_all_labels():
    labels = np.argmax(PROBABILITIES, axis=1)
    probabilities = np.concatenate([PROBABILITIES[[0, 1, 3]]] * 4 + [PROBABILITIES[[3]]])
    given = np.array([*np.tile(labels[[0, 1, 3]], 4), 0])
    selection = select_samples(probabilities, given, SELECTOR, **OPTIONS)
    assert selection.noise_level == pytest.approx(1 / 13)
    np.testing.assert_array_equal(selection.labels, given)
    assert selection.used.all()
    assert not selection.pseudo.any()


def test_where_nothing_is_clean_all_is_trained_on():
    wrong = np.argmin(PROBABILITIES, axis=1)
    selection = select_samples(PROBABILITIES[3:], wrong[3:], SELECTOR, **OPTIONS)
    assert selection.noise_level == 1.0
    assert selection.used.all()
    np.testing.assert_array_equal(selection.labels, wrong[3:])


def test_a_probability_of_zero_has_a_finite_loss():
    losses = sample_losses(np.array([[1.0, 0.0]]), np.array([1]), "ce")
    assert losses[0] == pytest.approx(12 * math.log(10))
