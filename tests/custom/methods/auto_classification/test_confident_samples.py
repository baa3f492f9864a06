"""Noise level, support and confusion by the most confident samples, on tables that are worked by hand."""

import numpy as np
import pytest

from fedannot.custom.methods.auto_classification.confident_samples import (
    calibrate_noise_level,
    confident_confusion,
    estimate_noise_level,
    estimate_support,
    most_confident_samples,
)

# Six samples seem to be of class 0, two of class 1; of each the surer half counts: the first three, and the last.
CONFIDENCES = [0.95, 0.9, 0.85, 0.7, 0.6, 0.55, 0.6, 0.8]
SEEMS = np.array([0, 0, 0, 0, 0, 0, 1, 1])
PROBABILITIES = np.array([[c, 1 - c] if s == 0 else [1 - c, c] for c, s in zip(CONFIDENCES, SEEMS, strict=True)])
LABELS = np.array([0, 1, 0, 1, 1, 1, 0, 1])
UNITS = tuple("abcdefgh")


def test_the_most_confident_half_of_what_seems_to_be_of_each_class() -> None:
    assert most_confident_samples(PROBABILITIES, 0.5).tolist() == [True, True, True, False, False, False, False, True]


def test_at_least_one_sample_of_each_class_that_something_seems_to_be_of() -> None:
    assert most_confident_samples(PROBABILITIES, 0.01).tolist() == [True, *[False] * 6, True]


def test_counts_of_given_and_seeming_classes_and_the_transition() -> None:
    """Of three that are truly 0 one is given as 1; the one that is truly 1 has its label."""
    result = confident_confusion(PROBABILITIES, LABELS, 0.5)
    assert result.counts.tolist() == [[2, 0], [1, 1]]
    assert result.noise_level == pytest.approx(1 / 4)
    np.testing.assert_allclose(result.transition, [[2 / 3, 1 / 3], [0, 1]])


def test_no_sample_has_no_confusion() -> None:
    with pytest.raises(ValueError, match="at least one; got 0"):
        confident_confusion(np.zeros((0, 2)), np.zeros(0, dtype=np.int64), 0.5)


def drawn(noise: float, num: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A model that is right of all samples, more or less sure, and labels of which a share is wrong."""
    generator = np.random.default_rng(seed)
    true = generator.integers(4, size=num)
    table = generator.uniform(0, 0.2, size=(num, 4))
    table[np.arange(num), true] = generator.uniform(0.5, 2.0, size=num)
    wrong = generator.random(num) < noise
    return table / table.sum(axis=1, keepdims=True), np.where(wrong, (true + 1) % 4, true)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.4])
def test_the_noise_level_of_a_good_model_is_the_fraction_of_wrong_labels(noise: float) -> None:
    probabilities, labels = drawn(noise, num=2000)
    estimate = estimate_noise_level(probabilities, labels, [str(index) for index in range(2000)], 0.5, seed=0)
    assert estimate.value == pytest.approx(noise, abs=0.04)
    assert estimate.low <= estimate.value <= estimate.high
    assert 998 <= estimate.patients <= 1002
    assert estimate.slope == pytest.approx(1, abs=0.2)


def test_the_interval_is_over_patients_and_not_over_samples() -> None:
    probabilities, labels = drawn(0.3)
    of_four = [str(index // 100) for index in range(400)]
    estimate = estimate_noise_level(probabilities, labels, of_four, 0.5, seed=0)
    assert estimate.patients == 4


def test_of_labels_that_all_look_wrong_nothing_can_be_calibrated() -> None:
    probabilities = np.tile([0.9, 0.1], (10, 1))
    assert np.isnan(calibrate_noise_level(probabilities, np.ones(10, dtype=np.int64), seed=0).auroc)


def test_a_model_that_is_right_tells_injected_errors_from_right_labels() -> None:
    probabilities, labels = drawn(0.0)
    assert calibrate_noise_level(probabilities, labels, seed=0).auroc == 1.0


def groups(labels: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Two groups of twelve alike samples; the first seems to be of class 0 and the second of class 1."""
    spread = np.linspace(0.0, 0.02, 12)
    first = np.stack([0.9 - spread, 0.1 + spread], axis=1)
    return np.concatenate([first, first[:, ::-1]]), np.array(labels)


def test_samples_that_look_alike_side_with_the_model_where_single_labels_are_wrong() -> None:
    probabilities, labels = groups([1, 1, *[0] * 10, *[1] * 12])
    support = estimate_support(probabilities, labels, [str(index) for index in range(24)], 1.0, seed=0)
    assert (support.value, support.patients) == (1.0, 2)


def test_they_side_with_the_labels_where_the_model_takes_a_group_for_another_class() -> None:
    probabilities, labels = groups([1] * 12 + [1] * 12)
    support = estimate_support(probabilities, labels, [str(index) for index in range(24)], 1.0, seed=0)
    assert (support.value, support.patients) == (0.0, 12)


def test_samples_of_the_same_patient_say_nothing() -> None:
    """All of the group are of one patient, whose labels are wrong alike; the others are far away and side with none."""
    probabilities, labels = groups([1] * 12 + [0] * 12)
    units = ["one"] * 12 + [str(index) for index in range(12)]
    support = estimate_support(probabilities, labels, units, 1.0, seed=0)
    alone = estimate_support(probabilities, labels, [str(index) for index in range(24)], 1.0, seed=0)
    assert alone.value == 0.0
    assert support.value > 0


def test_without_doubted_labels_there_is_no_support() -> None:
    probabilities, labels = groups([0] * 12 + [1] * 12)
    assert not estimate_support(probabilities, labels, [str(index) for index in range(24)], 1.0, seed=0).is_known
