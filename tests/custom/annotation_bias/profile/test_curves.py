"""The curve of a case: where images change, seen from an annotated contour."""

import numpy as np
import pytest
from scipy import ndimage
from support.disc_cases import disc_case

from fedannot.custom.annotation_bias.profile.curves import LEVELS, case_curve, site_curve


def plane(bias: float, *, shape=(48, 64), sign=1.0) -> tuple[np.ndarray, np.ndarray]:
    """A smooth step along a straight edge at column 32, annotated so far beyond it."""
    columns = np.arange(shape[1]) + 0.5
    image = np.broadcast_to(sign * np.tanh((columns - 32) / 1.5), shape)
    mask = np.broadcast_to(columns < 32 + bias, shape)
    return image[None], mask.copy()


def middle_of_top(curve: np.ndarray) -> float:
    """Pixels of a straight edge are half a pixel from it, so that the curve has a flat top."""
    return float(LEVELS[np.nan_to_num(curve) >= 0.99 * np.nanmax(curve)].mean())


@pytest.mark.parametrize("bias", [-5, -2, 0, 3, 6])
def test_the_curve_is_highest_as_far_inside_as_the_annotation_is_too_large(bias):
    image, mask = plane(bias)

    curve = case_curve(image, mask)

    assert middle_of_top(curve) == pytest.approx(-bias, abs=0.25)
    assert np.nanmean(curve) == pytest.approx(1.0)


def test_a_level_is_the_root_mean_square_of_the_change_on_pixels_around_it():
    image, mask = plane(2, shape=(40, 64))
    image = image + np.random.default_rng(0).normal(scale=0.1, size=image.shape)
    scaled = ndimage.gaussian_filter((image[0] / (image[0].std() + 1e-6)).astype(np.float32), 0.7)
    change = np.gradient(scaled, axis=1) ** 2
    distance = np.arange(64)[None] + 0.5 - 34 + np.zeros((40, 1))
    expected = []
    for level in LEVELS:
        # Each pixel counts for the two nearest levels, and each level takes those within three quarters of a pixel.
        weights = np.zeros(distance.shape)
        for near in LEVELS:
            kernel = max(0.0, 1 - abs(level - near) / 0.75) if abs(level - near) <= 0.5 else 0.0
            weights += kernel * np.clip(1 - np.abs(distance - near) / 0.25, 0, None)
        expected.append(np.sqrt((weights * change).sum() / weights.sum()))

    curve = case_curve(image, mask)

    inner = np.abs(LEVELS) <= 10
    ratio = curve[inner] / np.array(expected)[inner]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)


def test_contrast_that_changes_sign_between_channels_and_cases_does_not_cancel():
    image, mask = plane(3)
    opposite = np.concatenate([image, -image])

    np.testing.assert_allclose(case_curve(opposite, mask), case_curve(image, mask), rtol=1e-4, atol=1e-5)
    with_missing = np.concatenate([opposite, image, 0 * image])
    np.testing.assert_allclose(case_curve(with_missing, mask), case_curve(image, mask), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(case_curve(-image, mask), case_curve(image, mask), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(case_curve(5 * image + 7, mask), case_curve(image, mask), rtol=1e-3, atol=1e-5)


def test_a_coarse_axis_takes_no_part_in_the_images_change():
    flat, inside = plane(2, shape=(40, 64))
    image, mask = np.repeat(flat[..., None], 6, axis=-1), np.repeat(inside[..., None], 6, axis=-1)
    steps = image + np.arange(6) * 50.0

    curve = case_curve(steps, mask, spacing=(1.0, 1.0, 4.0))

    assert middle_of_top(curve) == pytest.approx(-2, abs=0.25)


def test_lengths_are_in_units_of_the_finest_spacing():
    case = disc_case("p", 3.0)
    inside = case.annotation == 1

    np.testing.assert_allclose(
        case_curve(case.image, inside, spacing=(0.4, 0.4)), case_curve(case.image, inside), equal_nan=True
    )


def test_what_is_nearer_to_another_class_does_not_count():
    image, mask = plane(0)
    other = np.zeros_like(mask)
    other[:, 36:] = True
    brighter = np.where(other, 9.0, image)

    curve = case_curve(brighter, mask, other=other)

    assert np.isnan(curve[LEVELS > 2.5]).all()
    assert middle_of_top(curve) == pytest.approx(0, abs=0.25)


@pytest.mark.parametrize("pixels", [0, 11])
def test_too_small_an_object_has_no_curve(pixels):
    mask = np.zeros((32, 32), dtype=bool)
    mask.flat[:pixels] = True

    assert case_curve(np.ones((1, 32, 32)), mask) is None
    assert case_curve(np.ones((1, 32, 32)), ~mask) is None


def test_a_constant_image_has_no_curve():
    _, mask = plane(0)

    assert case_curve(np.ones((1, *mask.shape)), mask) is None


def test_an_image_that_is_not_finite_is_refused():
    image, mask = plane(0)
    image = image.copy()
    image[0, 3, 3] = np.nan

    with pytest.raises(ValueError, match="finite"):
        case_curve(image, mask)


def test_an_image_of_another_size_is_refused():
    image, mask = plane(0)

    with pytest.raises(ValueError, match="mask's size"):
        case_curve(image[:, 1:], mask)


def test_a_sites_curve_is_the_mean_of_its_cases_where_they_have_a_value():
    first, second = np.ones(len(LEVELS)), np.full(len(LEVELS), 3.0)
    second[0] = np.nan
    first[:2], second[1] = np.nan, np.nan

    curve = site_curve([first, second])

    assert np.isnan(curve[:2]).all()
    np.testing.assert_allclose(curve[2:], 2.0)
