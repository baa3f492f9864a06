"""Discs that a model sees and nobody has drawn."""

import numpy as np
import pytest
from support.examined_cases import drawn, examined, measured, scores, seen, site

from fedannot.custom.audit.kinds.kind import CaseMasks
from fedannot.custom.audit.kinds.missing import Missing

TWO = (((20, 20), 8), ((46, 46), 7))


def test_a_disc_left_out_is_the_first_finding():
    result = scores(Missing(), [*site(), examined(drawn(TWO[0]), seen(*TWO), index=12)])
    assert np.argmax(result) == 12
    assert result[12] > Missing.threshold > max(result[:12])


def test_what_is_annotated_is_not_missing():
    assert max(scores(Missing(), [*site(), examined(drawn(*TWO), seen(*TWO), index=12)])) == 0.0


def test_objects_of_less_than_five_pixels_are_not_looked_for():
    small = seen(((20, 20), 8), ((46, 46), 0.9), softness=0.1)
    assert (small > 0.5).sum() - (drawn(((20, 20), 8)) > 0).sum() < 5
    result, _ = measured(Missing(), [examined(drawn(((20, 20), 8)), small)])
    assert len(result[0]) == 1


def test_a_larger_and_surer_object_is_more_suspect():
    cases = site()
    faint = seen(((20, 20), 8)) + 0.6 * seen(((46, 46), 3))
    confident = seen(((20, 20), 8), ((46, 46), 7))
    given = drawn(((20, 20), 8))
    result = scores(
        Missing(), [*cases, examined(given, np.clip(faint, 0, 1), index=12), examined(given, confident, index=13)]
    )
    assert result[13] > result[12]


def test_a_case_scores_the_probability_that_any_object_is_missing():
    assert Missing().of_case([0.5, 0.2, 0.0]) == pytest.approx(1 - 0.5 * 0.8)


def test_the_suggestion_adds_the_object():
    case = examined(drawn(TWO[0]), seen(*TWO), index=12)
    result, typical = measured(Missing(), [*site(), case])
    one = next(item for item in result[12] if Missing().score(item, typical) > 0)
    whole = case.annotation.copy()
    one.place.of(whole)[...] = Missing().suggestion(one, typical, CaseMasks(case.annotation, case.predicted))
    assert np.array_equal(whole, case.predicted | case.annotation)


def test_a_site_that_leaves_much_out_is_no_measure_of_what_is_right():
    assert not Missing().doubts(np.full(4, 0.1)).any()
    assert Missing().doubts(np.array([0.9, 0.3])).tolist() == [0.9, 0.3]
    # Half-way between 0.2 and 0.4.
    assert Missing().doubts(np.full(4, 0.3)) == pytest.approx(np.full(4, 0.15))
