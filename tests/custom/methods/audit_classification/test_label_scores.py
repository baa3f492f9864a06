"""Scores of labels, by hand."""

import numpy as np
import pytest

from fedannot.custom.methods.audit_classification.label_scores import score_labels, with_look_alikes

SAID = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]])


def test_a_label_is_as_suspect_as_the_next_class_is_more_probable() -> None:
    result = score_labels(SAID, np.array([0, 1, 2, 1]))
    assert result.scores == pytest.approx([0.3 / 0.9, 0.6 / 0.9, 0.2 / 0.8, 1.0])
    assert result.others.tolist() == [1, 0, 0, 0]


def test_where_neither_class_has_any_probability_it_is_even() -> None:
    result = score_labels(np.array([[0.0, 0.0]]), np.array([1]))
    assert result.scores.tolist() == [0.5]


def test_look_alikes_of_other_patients_say_what_their_labels_are() -> None:
    """Two groups of samples that look alike; in each one label is another one, and patients have two samples."""
    said = np.array([[0.8, 0.2]] * 60 + [[0.2, 0.8]] * 60) + np.linspace(-0.01, 0.01, 120)[:, None] * [1, -1]
    labels = np.array([1] + [0] * 59 + [0] + [1] * 59)
    units = [str(index // 2) for index in range(120)]
    result = with_look_alikes(said, labels, units)
    scores, plain = (score_labels(q, labels).scores for q in (result, said))
    assert (scores[[0, 60]] > plain[[0, 60]]).all()
    right = np.setdiff1d(np.arange(120), [0, 60])
    assert (scores[right] <= 0.5).all()


def test_what_look_alikes_say_by_brute_force() -> None:
    random = np.random.default_rng(0)
    said, labels = random.dirichlet([1.0] * 3, 60), random.integers(3, size=60)
    units = [str(index // 3) for index in range(60)]
    logs = np.log(said)
    scaled = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    frequency = np.array([(np.sum(labels == label) + 1) / 63 for label in range(3)])
    for index, result in enumerate(with_look_alikes(said, labels, units)):
        order = sorted(range(60), key=lambda other: float(((scaled[other] - scaled[index]) ** 2).sum()))
        near = [other for other in order if units[other] != units[index]][:20]
        counts = np.array([sum(labels[other] == label for other in near) for label in range(3)])
        expected = said[index] * np.sqrt((counts + 2 * frequency) / np.sqrt(frequency))
        assert result == pytest.approx(expected / expected.sum())


def test_a_samples_own_label_decides_nothing() -> None:
    random = np.random.default_rng(1)
    said, labels = random.dirichlet([1.0] * 3, 60), random.integers(3, size=60)
    units = [str(index) for index in range(60)]
    other = labels.copy()
    other[7] = (labels[7] + 1) % 3
    # The frequencies of two classes change by one sample.
    result, changed = (with_look_alikes(said, item, units)[7] for item in (labels, other))
    assert result == pytest.approx(changed, abs=0.01)


def test_a_patient_alone_has_no_look_alikes() -> None:
    said = np.array([[0.7, 0.3], [0.4, 0.6]])
    result = with_look_alikes(said, np.array([0, 1]), ["a", "a"])
    assert result == pytest.approx(said)
