"""Which labels are changed, what noise is left, and the corrected loss, against numbers worked by hand."""

import numpy as np
import pytest

from fedannot.custom.annotation_bias.confusion import Confusion
from fedannot.custom.methods.auto_classification.relabelling import mixed_up, relabel, residual_transition

# The last three samples look like class 0 and are given as 1: very surely, surely, and hardly.
PROBABILITIES = np.array([[0.9, 0.1]] * 7 + [[0.1, 0.9]] * 2 + [[0.95, 0.05], [0.9, 0.1], [0.6, 0.4]])
LABELS = np.array([0] * 7 + [1] * 5)


def confusion(wrong: int) -> Confusion:
    """Of twelve samples, so many that are given as 1 are truly 0."""
    counts = np.array([[7, 0], [wrong, 5 - wrong]])
    return Confusion(counts / 12, counts)


def changed(wrong: int, margin: float, treatment: str = "relabel") -> list[int]:
    result = relabel(PROBABILITIES, LABELS, confusion(wrong), treatment=treatment, margin=margin)  # type: ignore[arg-type]
    assert (result.labels[result.changed] == 0).all()
    assert (result.labels[~result.changed] == LABELS[~result.changed]).all()
    return np.flatnonzero(result.changed).tolist()


def test_no_more_labels_are_changed_than_are_wrong_and_the_most_confident_first() -> None:
    assert changed(3, 0.1) == [9, 10, 11]
    assert changed(2, 0.1) == [9, 10]
    assert changed(1, 0.1) == [9]
    assert changed(0, 0.1) == []


def test_labels_of_which_the_model_is_not_sure_stay() -> None:
    assert changed(3, 0.5) == [9, 10]


def test_the_margin_is_relative_to_how_sure_the_model_typically_is() -> None:
    """Halfway to even odds everywhere, the model is as sure of one as of another."""
    flattened = PROBABILITIES / 2 + 0.25
    result = relabel(flattened, LABELS, confusion(3), treatment="relabel", margin=0.4)
    assert np.flatnonzero(result.changed).tolist() == [9, 10]


def test_treatments() -> None:
    assert changed(3, 0.1, "forward") == []
    only = relabel(PROBABILITIES, LABELS, confusion(3), treatment="relabel", margin=0.1)
    assert only.transition is None
    forward = relabel(PROBABILITIES, LABELS, confusion(3), treatment="forward", margin=0.1).transition
    # Truly 0 are ten, of which three are given as 1; and one more of each class that has its label.
    np.testing.assert_allclose(forward, [[8 / 11, 3 / 11], [0, 1]])


def test_what_is_left_of_the_noise_when_two_of_three_labels_were_changed() -> None:
    relabelled = LABELS.copy()
    relabelled[[9, 10]] = 0
    np.testing.assert_allclose(residual_transition(confusion(3), LABELS, relabelled), [[10 / 11, 1 / 11], [0, 1]])


# A model that has not learnt class 2 takes its samples for class 0. Of eighteen samples six are of each class.
TRUE = np.repeat([0, 1, 2], 6)
MIXES = np.eye(3)[np.where(TRUE == 2, 0, TRUE)] * 0.8 + 0.2 / 3


def test_a_class_that_the_model_takes_for_another_one_keeps_its_labels() -> None:
    assert np.argwhere(mixed_up(MIXES, TRUE)).tolist() == [[2, 0]]
    counts = np.array([[6, 0, 0], [0, 6, 0], [6, 0, 0]])
    result = relabel(MIXES, TRUE, Confusion(counts / 18, counts), treatment="both", margin=0.1)
    assert not result.changed.any()
    np.testing.assert_allclose(result.transition, np.eye(3))


def test_labels_that_are_wrong_at_random_are_changed_beside_such_a_class() -> None:
    """Each class has two samples that are given as the next one: class 1 too few to be taken for class 0."""
    given = TRUE.copy()
    given[[0, 1]], given[[6, 7]], given[[12, 13]] = 1, 2, 0
    counts = np.zeros((3, 3), dtype=np.int64)
    np.add.at(counts, (given, MIXES.argmax(axis=1)), 1)
    assert np.argwhere(mixed_up(MIXES, given)).tolist() == [[2, 0]]
    result = relabel(MIXES, given, Confusion(counts / 18, counts), treatment="relabel", margin=0.1)
    assert np.flatnonzero(result.changed).tolist() == [0, 1, 6, 7]
    assert (result.labels[[0, 1, 6, 7]] == TRUE[[0, 1, 6, 7]]).all()


@pytest.mark.parametrize(("given_as_other", "is_mixed_up"), [(2, False), (4, False), (5, True)])
def test_a_third_of_wrong_labels_is_the_most_that_can_be_distinguished_from_a_mix_up(
    given_as_other: int, is_mixed_up: bool
) -> None:
    seems = np.eye(2)[np.repeat([0, 1], [9 + given_as_other, 10])]
    labels = np.repeat([0, 1, 1], [9, given_as_other, 10])
    assert bool(mixed_up(seems, labels)[1, 0]) == is_mixed_up
