"""Two squares of two classes, one of them annotated as the other class."""

import numpy as np
import pytest
from support.examined_cases import measured

from fedannot.custom.audit.examined import ExaminedCase
from fedannot.custom.audit.kinds.confused_class import Confused
from fedannot.custom.audit.kinds.kind import CaseMasks
from fedannot.custom.audit.kinds.missing import Missing
from fedannot.custom.audit.kinds.spurious import Spurious

NAMES = ("background", "anterior", "posterior")


def squares(first, second):
    mask = np.zeros((1, 40, 40), dtype=np.uint8)
    mask[0, 4:14, 4:14], mask[0, 20:30, 20:30] = first, second
    return mask


def case(annotation):
    """The model gives 0.7 to the true class and 0.2 to the other one."""
    true = squares(1, 2)
    probabilities = np.stack(
        [np.where(true > 0, 0.1, 0.98), np.where(true == 1, 0.7, 0.01), np.where(true == 2, 0.7, 0.01)]
    )
    probabilities[2][true == 1] = probabilities[1][true == 2] = 0.2
    return ExaminedCase(0, "patient", annotation, np.moveaxis(probabilities, 0, 1), np.zeros((1, 1, 40, 40)))


def test_the_score_is_the_other_class_beside_the_given_one():
    result, typical = measured(Confused(), [case(squares(2, 2))])
    wrong = next(item for item in result[0] if item.place.start[0] < 10)
    assert wrong.labels == (2, 1)
    assert Confused().score(wrong, typical) == pytest.approx(0.7 / 0.9)


def test_the_right_class_is_not_suspect():
    result, typical = measured(Confused(), [case(squares(1, 2))])
    scores = [Confused().score(item, typical) for item in result[0]]
    assert scores == [pytest.approx(0.2 / 0.9)] * 2
    assert max(scores) < Confused.threshold


def test_a_confused_object_is_neither_missing_nor_spurious():
    wrong = case(squares(2, 2))
    result, typical = measured(Missing(), [wrong])
    assert max((Missing().score(item, typical) for item in result[0]), default=0.0) == 0.0
    result, typical = measured(Spurious(), [wrong])
    assert max(Spurious().score(item, typical) for item in result[0]) < 0.1


def test_the_suggestion_gives_it_the_other_class():
    wrong = case(squares(2, 2))
    result, typical = measured(Confused(), [wrong])
    one = next(item for item in result[0] if item.place.start[0] < 10)
    whole = wrong.annotation.copy()
    one.place.of(whole)[...] = Confused().suggestion(one, typical, CaseMasks(wrong.annotation, wrong.predicted))
    assert np.array_equal(whole, squares(1, 2))
    assert one.labels == (2, 1)
