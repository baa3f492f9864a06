"""Which labels are changed, what noise is left, and the corrected loss, against numbers worked by hand."""

import numpy as np

from fedannot.custom.channel.confusion import Confusion
from fedannot.custom.methods.auto_classification.undoing import residual_transition, undo

# The last three samples look like class 0 and are given as 1: very surely, surely, and hardly.
PROBABILITIES = np.array([[0.9, 0.1]] * 5 + [[0.1, 0.9]] * 2 + [[0.95, 0.05], [0.9, 0.1], [0.6, 0.4]])
LABELS = np.array([0] * 5 + [1] * 5)


def confusion(wrong: int) -> Confusion:
    """Of ten samples, so many that are given as 1 are truly 0."""
    counts = np.array([[5, 0], [wrong, 5 - wrong]])
    return Confusion(counts / 10, counts)


def changed(wrong: int, margin: float, treatment: str = "relabel") -> list[int]:
    found = undo(PROBABILITIES, LABELS, confusion(wrong), treatment=treatment, margin=margin)  # type: ignore[arg-type]
    assert (found.labels[found.changed] == 0).all()
    assert (found.labels[~found.changed] == LABELS[~found.changed]).all()
    return np.flatnonzero(found.changed).tolist()


def test_no_more_labels_are_changed_than_are_wrong_and_the_surest_first() -> None:
    assert changed(3, 0.1) == [7, 8, 9]
    assert changed(2, 0.1) == [7, 8]
    assert changed(1, 0.1) == [7]
    assert changed(0, 0.1) == []


def test_labels_of_which_the_model_is_not_sure_stay() -> None:
    assert changed(3, 0.5) == [7, 8]


def test_the_margin_is_relative_to_how_sure_the_model_usually_is() -> None:
    """Halfway to even odds everywhere, the model is as sure of one as of another."""
    flattened = PROBABILITIES / 2 + 0.25
    found = undo(flattened, LABELS, confusion(3), treatment="relabel", margin=0.4)
    assert np.flatnonzero(found.changed).tolist() == [7, 8]


def test_treatments() -> None:
    assert changed(3, 0.1, "forward") == []
    only = undo(PROBABILITIES, LABELS, confusion(3), treatment="relabel", margin=0.1)
    assert only.transition is None
    forward = undo(PROBABILITIES, LABELS, confusion(3), treatment="forward", margin=0.1).transition
    # Truly 0 are eight, of which three are given as 1; and one more of each class that has its label.
    np.testing.assert_allclose(forward, [[6 / 9, 3 / 9], [0, 1]])


def test_what_is_left_of_the_noise_when_two_of_three_labels_were_changed() -> None:
    undone = LABELS.copy()
    undone[[7, 8]] = 0
    np.testing.assert_allclose(residual_transition(confusion(3), LABELS, undone), [[8 / 9, 1 / 9], [0, 1]])
