"""Discs that are drawn where a model sees nothing."""

import numpy as np
import pytest
from support.examined_cases import drawn, examined, measured, scores, seen, site

from fedannot.custom.audit.kinds.kind import CaseMasks
from fedannot.custom.audit.kinds.spurious import Spurious

REAL, NONE = ((20, 20), 8), ((46, 46), 6)


def test_a_disc_where_none_is_is_the_first_finding():
    result = scores(Spurious(), [*site(), examined(drawn(REAL, NONE), seen(REAL), index=12)])
    assert np.argmax(result) == 12
    assert result[12] > Spurious.threshold
    assert max(result[:12]) < 0.5


def test_the_score_is_one_less_the_mean_probability():
    foreground = np.full((64, 64), 0.01)
    foreground[20:25, 20:30] = 0.31
    annotation = np.zeros((64, 64), dtype=np.uint8)
    annotation[20:30, 20:30] = 1
    assert scores(Spurious(), [examined(annotation, foreground)]) == [pytest.approx(1 - 0.16)]


def test_an_object_that_is_predicted_too_counts_by_half():
    foreground = np.full((64, 64), 0.01)
    foreground[20:25, 20:30] = 0.61
    annotation = np.zeros((64, 64), dtype=np.uint8)
    annotation[20:30, 20:30] = 1
    assert scores(Spurious(), [examined(annotation, foreground)]) == [pytest.approx(0.5 * (1 - 0.31))]


def test_the_suggestion_leaves_it_out():
    case = examined(drawn(REAL, NONE), seen(REAL))
    result, typical = measured(Spurious(), [case])
    whole = case.annotation.copy()
    one = max(result[0], key=lambda one: Spurious().score(one, typical))
    one.place.of(whole)[...] = Spurious().suggestion(one, typical, CaseMasks(case.annotation, case.predicted))
    assert np.array_equal(whole[0], drawn(REAL))
