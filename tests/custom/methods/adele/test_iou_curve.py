"""The curve through the IoU of a class: its fit, its closed form, and when the class is corrected."""

import math

import numpy as np
import pytest
from scipy.optimize import curve_fit

from fedannot.custom.methods.adele.iou_curve import IouCurve, from_first_rise, is_to_be_corrected

NAN = math.nan


def curve(x: np.ndarray, a: float, b: float, c: float) -> np.ndarray:
    return a * (1 - np.exp(-(x**b) / c))


@pytest.mark.parametrize(
    ("parameters", "change", "expected"),
    [((0.9, 0.8, 3.0), 0.9, 11), ((0.9, 0.8, 3.0), 0.8, 7), ((0.5, 1.0, 5.0), 0.9, 13), ((0.5, 1.0, 2.0), 0.5, 3)],
)
def test_the_class_is_corrected_where_the_slope_has_changed(
    parameters: tuple[float, float, float], change: float, expected: int
) -> None:
    """For b = 1 the slope has changed by r at 1 − c ln(1 − r), 12.51 of c = 5 and r = 0.9; else by differences."""
    a, b, c = parameters
    assert IouCurve(a, b, c).slows_down_at(change, last=100) == expected
    if b == 1:
        assert expected == math.floor(1 - c * math.log(1 - change)) + 1
    step = 1e-6
    slopes = [float(np.diff(curve(np.array([t - step, t + step]), a, b, c))[0]) for t in (1, expected - 1, expected)]
    assert 1 - slopes[1] / slopes[0] <= change < 1 - slopes[2] / slopes[0]


def test_a_constant_curve_asks_for_nothing() -> None:
    assert [
        IouCurve(*one).slows_down_at(0.9, last=50) for one in ((0.0, 1.0, 1.0), (0.5, 0.0, 1.0), (0.5, 1.0, 0.0))
    ] == [None] * 3


def test_the_fit_is_that_of_scipy_with_weights_that_grow() -> None:
    generator = np.random.default_rng(0)
    x = np.arange(12.0)
    values = curve(x, 0.8, 0.7, 2.0) + 0.03 * generator.normal(size=12)
    values[4] = NAN
    known = np.isfinite(values)
    limits = ([0, 0, 0], [1, 1, np.inf])
    sigma = np.geomspace(1, 0.1, 11)
    expected, _ = curve_fit(
        curve, x[known], values[known], p0=(1, 1, 1), sigma=sigma, absolute_sigma=True, bounds=limits
    )
    fitted = IouCurve.fit(values.tolist())
    assert fitted is not None
    assert [fitted.a, fitted.b, fitted.c] == pytest.approx(expected.tolist(), rel=1e-4)
    exact = IouCurve.fit(curve(x, 0.8, 0.7, 2.0).tolist())
    assert exact is not None
    assert [exact.a, exact.b, exact.c] == pytest.approx([0.8, 0.7, 2.0], rel=1e-4)


def test_the_curve_begins_before_the_first_rise_of_a_tenth() -> None:
    assert from_first_rise([0.0, 0.02, 0.05, 0.15, 0.2]) == [0.05, 0.15, 0.2]
    assert from_first_rise([0.0, NAN, 0.3, 0.35]) == []
    assert from_first_rise([0.5, 0.59, 0.68]) == []
    assert from_first_rise([]) == []


def test_what_is_known_of_three_rounds_can_ask_for_a_correction() -> None:
    """Along the curve with c = 5 it is the fourteenth number, x = 13, that does; zeros before only shift it."""
    values = curve(np.arange(15.0), 0.9, 1.0, 5.0).tolist()
    asks = [is_to_be_corrected(values[:count], 0.9) for count in range(16)]
    assert asks.index(True) == 14
    shifted = [0.0, 0.0, *values]
    assert [is_to_be_corrected(shifted[:count], 0.9) for count in range(18)].index(True) == 16
    assert not any(is_to_be_corrected(flat, 0.9) for flat in ([0.5] * 20, [0.0, 0.5], [NAN] * 9, [0.0, 0.5, NAN]))
    # At once at its limit, an IoU of 1; and one that falls.
    assert is_to_be_corrected([0.0, 1.0, 1.0], 0.9)
    assert not is_to_be_corrected([0.0, 0.6, 0.4, 0.2, 0.0], 0.9)
