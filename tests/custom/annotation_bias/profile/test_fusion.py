"""Boundary biases from images and from a model together: precision, the model's own error, and when it is left out."""

import math

import numpy as np
import pytest

from fedannot.custom.annotation_bias.estimate import INTERVAL_DEVIATIONS, Estimate
from fedannot.custom.annotation_bias.profile.decision import ProfileEstimate
from fedannot.custom.annotation_bias.profile.fusion import fused_biases
from fedannot.custom.annotation_bias.profile.interval import half_width


def by_image(bias: float, *, error: float = 0.1, unit: float = 1.0, is_known: bool = True) -> ProfileEstimate:
    width = half_width(error, 12, is_alone=False) * unit
    return ProfileEstimate(12, bias * unit, error, width, unit, 0.6 if is_known else 0.1, 0.99)


def by_model(bias: float, *, error: float = 0.2) -> Estimate:
    half = INTERVAL_DEVIATIONS * error
    return Estimate(12, bias, bias - half, bias + half, 1.0, 0.9)


BIASES = {"a": 3.0, "b": -2.0, "c": 0.0, "d": 1.5}


def test_both_count_by_their_precision_on_the_scale_of_the_image_boundary():
    """The model draws 1.2 inside the image boundary, and agrees but for 0.4 at one site of four.

    By hand at "a": the variance of images is 0.1² + 0.2² = 0.05, that of the model 0.2² + 0.3² = 0.13 (the spread shows
    no more), so that 3 and 3.4 together are (3 / 0.05 + 3.4 / 0.13) / (1 / 0.05 + 1 / 0.13).
    """
    images = {site: by_image(bias) for site, bias in BIASES.items()}
    model = {site: by_model(bias - 1.2 + (0.4 if site == "a" else 0.0)) for site, bias in BIASES.items()}

    fused = fused_biases(images, model)

    assert fused.is_model_used
    assert fused.constant == pytest.approx(1.2)
    assert fused.estimates["a"].value == pytest.approx((3 / 0.05 + 3.4 / 0.13) / (1 / 0.05 + 1 / 0.13))
    error = 1 / math.sqrt(1 / 0.05 + 1 / 0.13)
    assert fused.estimates["a"].high - fused.estimates["a"].value == pytest.approx(INTERVAL_DEVIATIONS * error)
    assert fused.estimates["b"].value == pytest.approx(-2.0)


def test_a_site_of_which_images_say_nothing_has_that_of_the_model():
    images = {site: by_image(bias) for site, bias in BIASES.items()} | {"e": by_image(9.0, is_known=False)}
    model = {site: by_model(bias - 1.2) for site, bias in BIASES.items()} | {"e": by_model(4.0)}

    fused = fused_biases(images, model)

    assert fused.estimates["e"].value == pytest.approx(5.2)
    assert not fused_biases(images, {}).estimates["e"].is_known


def test_the_spread_of_the_differences_is_the_error_of_the_model():
    """Six sites whose models differ by ±0.8: MAD 0.8, times 1.4826, less the images' 0.05 in squares."""
    images = {str(number): by_image(float(number)) for number in range(6)}
    model = {str(number): by_model(number + (0.8 if number % 2 else -0.8), error=0.01) for number in range(6)}
    model["9"] = by_model(1.0, error=0.01)
    images["9"] = by_image(0.0, is_known=False)
    wide = fused_biases(images, model)
    assert not wide.is_model_used
    assert wide.spread == pytest.approx(0.8 * 1.4826, abs=1e-3)

    near = {site: by_model(one.value * 0.5 + images[site].bias * 0.5, error=0.01) for site, one in model.items()}
    fused = fused_biases(images, near)
    assert fused.is_model_used
    variance = (0.4 * 1.4826) ** 2 - 0.05
    assert fused.estimates["9"].high - fused.estimates["9"].value == pytest.approx(
        INTERVAL_DEVIATIONS * math.sqrt(variance), abs=1e-3
    )


def test_a_model_that_contradicts_the_images_at_a_site_is_left_out():
    images = {site: by_image(bias) for site, bias in BIASES.items()}
    model = {site: by_model(bias + (9.0 if site == "d" else 0.0)) for site, bias in BIASES.items()}

    fused = fused_biases(images, model)

    assert fused.chi_square > 3
    assert not fused.is_model_used
    assert {site: one.value for site, one in fused.estimates.items()} == BIASES


def test_of_two_sites_the_model_is_not_used():
    images = {"a": by_image(3.0), "b": by_image(-2.0)}
    fused = fused_biases(images, {"a": by_model(0.0), "b": by_model(0.0)})
    assert not fused.is_model_used
    assert fused.constant == pytest.approx(0.5)
    assert math.isnan(fused.spread)
    assert math.isnan(fused_biases(images, {}).constant)


def test_the_unit_changes_nothing():
    """The same in millimetres, a pixel being half a millimetre."""
    generator = np.random.default_rng(0)
    noise = dict(zip(BIASES, generator.normal(scale=0.3, size=4), strict=True))
    pixels = fused_biases(
        {site: by_image(bias) for site, bias in BIASES.items()},
        {site: by_model(bias - 1 + noise[site]) for site, bias in BIASES.items()},
    )
    lengths = fused_biases(
        {site: by_image(bias, unit=0.5) for site, bias in BIASES.items()},
        {site: by_model((bias - 1 + noise[site]) / 2, error=0.1) for site, bias in BIASES.items()},
    )
    for site, one in pixels.estimates.items():
        assert lengths.estimates[site].value == pytest.approx(one.value / 2)
        assert lengths.estimates[site].high == pytest.approx(one.high / 2)
