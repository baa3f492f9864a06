"""Discs drawn too large or too small by a known length."""

from dataclasses import replace

import numpy as np
import pytest
from support.examined_cases import drawn, examined, measured, scores, seen, site

from fedannot.custom.audit.kinds.boundary import Boundary
from fedannot.custom.audit.kinds.kind import CaseMasks

CENTRE = (32, 32)


def of_offset(offset, index=12, spacing=None):
    return examined(drawn((CENTRE, 10 + offset)), seen((CENTRE, 10)), index=index, spacing=spacing)


@pytest.mark.parametrize("offset", [-3, 2, 4])
def test_a_disc_drawn_farther_outside_has_that_amount(offset):
    (result,), _ = measured(Boundary(), [of_offset(offset)])
    _, typical = measured(Boundary(), [of_offset(0, index) for index in range(3)])
    assert Boundary().amount(result[0], typical) == pytest.approx(offset, abs=0.3)


def test_what_all_contours_have_in_common_is_no_problem():
    result, typical = measured(Boundary(), [of_offset(3, index) for index in range(12)])
    assert typical[1].offset == pytest.approx(3, abs=0.3)
    assert all(abs(Boundary().amount(item[0], typical)) < 0.1 for item in result)


def test_amounts_are_in_millimetres():
    cases = [of_offset(0, index, (0.5, 0.5)) for index in range(3)]
    result, typical = measured(Boundary(), [*cases, of_offset(4, 3, (0.5, 0.5))])
    assert Boundary().amount(result[3][0], typical) == pytest.approx(2, abs=0.2)


def test_the_case_that_differs_comes_first():
    result = scores(Boundary(), [*site(), of_offset(4)])
    assert np.argmax(result) == 12
    assert result[12] > Boundary.threshold > max(result[:12])


def test_the_score_is_that_of_the_geometric_mean_of_deviations_and_fraction_of_the_radius():
    result, typical = measured(Boundary(), [of_offset(0, index) for index in range(5)])
    one = result[0][0]
    evidence = replace(one.features, by_model=typical[1].offset + 3.0, by_size=np.nan, slopes=0 * one.features.slopes)
    moved = replace(one, features=evidence)
    measure = np.sqrt(3.0 / typical[1].deviations[0] / 4 * 3.0 / evidence.radius / 0.15)
    assert Boundary().score(moved, typical) == pytest.approx(measure / (1 + measure))


def test_a_contour_off_the_images_edge_is_reported_where_the_model_sees_nothing():
    cases = site()
    wrong = examined(drawn((CENTRE, 14)), seen((CENTRE, 10)), index=12)
    unseen = replace(wrong, probabilities=np.stack([np.ones((64, 64)), np.zeros((64, 64))])[None])
    result, typical = measured(Boundary(), [*cases, unseen])
    assert np.isnan(result[12][0].features.by_model)
    assert Boundary().amount(result[12][0], typical) == pytest.approx(4, abs=0.7)
    assert Boundary().score(result[12][0], typical) > Boundary.threshold
    suggested = Boundary().suggestion(result[12][0], typical, CaseMasks(unseen.annotation, unseen.predicted))
    assert suggested.sum() == pytest.approx(np.pi * 10**2, rel=0.15)


def test_the_amount_says_how_far_and_where():
    result, typical = measured(Boundary(), [of_offset(0, index) for index in range(5)] + [of_offset(-3, 5)])
    assert Boundary().amount(result[5][0], typical) == pytest.approx(-3.0, abs=0.15)


def test_the_suggestion_is_the_predicted_object():
    cases = [of_offset(0, index) for index in range(5)] + [of_offset(4, 5)]
    result, typical = measured(Boundary(), cases)
    one = result[5][0]
    suggested = Boundary().suggestion(one, typical, CaseMasks(cases[5].annotation, cases[5].predicted))
    assert np.array_equal(suggested, one.place.of(cases[5].predicted))


def test_the_suggestion_follows_what_is_typical_at_the_site():
    cases = [of_offset(3, index) for index in range(5)] + [of_offset(-3, 5)]
    result, typical = measured(Boundary(), cases)
    one = result[5][0]
    whole = cases[5].annotation.copy()
    one.place.of(whole)[...] = Boundary().suggestion(one, typical, CaseMasks(cases[5].annotation, cases[5].predicted))
    # The place holds the predicted object with a pixel around, so that it cuts what is moved by three.
    assert whole.sum() > cases[5].predicted.sum()
