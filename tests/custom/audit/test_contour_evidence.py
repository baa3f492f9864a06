"""What tells that a disc is drawn too large or too small, against lengths that are known."""

from dataclasses import replace

import numpy as np
import pytest
from support.examined_cases import drawn, examined, seen

from fedannot.custom.audit.contour_evidence import SHARES, ContourEvidence, TypicalContours, contour_evidence

CENTRE, RADIUS = (32, 32), 10


def evidence(case):
    ((_, _, _, result),) = contour_evidence(case, case.part, 1)
    return result


def edge_at(found):
    return SHARES[np.abs(found.slopes[0]).argmax()] * found.radius


@pytest.mark.parametrize("offset", [-3, 0, 3])
def test_model_size_and_edge_agree_on_a_disc(offset):
    result = evidence(examined(drawn((CENTRE, RADIUS + offset)), seen((CENTRE, RADIUS))))
    assert result.radius == pytest.approx(RADIUS + offset, abs=0.3)
    assert result.by_model == pytest.approx(offset, abs=0.3)
    # ln(R / r) R, which is R - r to the first order.
    by_size = (RADIUS + offset) * np.log((RADIUS + offset) / RADIUS)
    assert result.by_size == pytest.approx(by_size, abs=0.5)
    assert edge_at(result) == pytest.approx(-offset, abs=0.7)


def test_lengths_are_in_millimetres():
    result = evidence(examined(drawn((CENTRE, 13)), seen((CENTRE, 10)), spacing=(0.5, 0.5)))
    assert (result.radius, result.by_model) == pytest.approx((6.5, 1.5), abs=0.2)
    assert edge_at(result) == pytest.approx(-1.5, abs=0.4)


def test_of_another_size_than_five_times_nothing_is_said_by_size():
    result = evidence(examined(drawn((CENTRE, 10)), seen((CENTRE, 3))))
    assert np.isnan(result.by_size)


def test_what_belongs_to_the_next_object_is_not_counted():
    alone = evidence(examined(drawn(((20, 32), 6)), seen(((20, 32), 6))))
    first = next(
        iter(
            contour_evidence(
                case := examined(drawn(((20, 32), 6), ((34, 32), 6)), seen(((20, 32), 6), ((34, 32), 6))), case.part, 1
            )
        )
    )[3]
    assert first.by_size == pytest.approx(alone.by_size, abs=0.1)


def test_a_flat_image_has_no_edge():
    case = examined(drawn((CENTRE, 10)), seen((CENTRE, 10)))
    assert not evidence(replace(case, image=np.ones_like(case.image))).slopes.any()


def test_displacement_is_the_mean_weighted_by_inverse_variances():
    def of(by_model, by_size):
        return ContourEvidence(10.0, by_model, by_size, np.zeros((1, len(SHARES))), 0.0)

    # Medians 1 and 0; median absolute deviations 1 and 2.
    typical = TypicalContours.of([of(0, -2), of(1, 0), of(2, 2), of(1, -2), of(1, 0), of(3, 4), of(-1, 0)])
    sigma = 1.4826 * np.array([1.0, 2.0])
    assert typical.deviations.tolist() == pytest.approx([*sigma, np.inf])
    amount, deviation = typical.displacement(of(5.0, 2.0))
    weights = 1 / sigma**2
    assert amount == pytest.approx((4 * weights[0] + 2 * weights[1]) / weights.sum())
    assert deviation == pytest.approx(weights.sum() ** -0.5)
    assert typical.displacement(of(np.nan, np.nan)) is None


def test_contours_on_a_grid_deviate_by_a_quarter_of_a_pixel_at_least():
    same = ContourEvidence(10.0, 1.0, 0.0, np.zeros((1, len(SHARES))), 0.0)
    assert TypicalContours.of([same] * 5).deviations.tolist() == [0.25, 0.25, np.inf]
