"""What images are like, against scipy, closed forms for white noise, and by hand; what may leave the site."""

import math

import numpy as np
import pytest
from scipy import ndimage, stats

from fedannot.custom.annotation_bias.image_features import (
    FEATURES,
    ImageStatistics,
    image_features,
    image_statistics,
    statistics_of_features,
)

SMALLEST = 1e-3


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def feature(image, name):
    return image_features(image)[FEATURES.index(name)]


def test_a_number_per_feature_whatever_the_shape():
    for shape in ((1, 1, 32, 40), (5, 1, 32, 32), (1, 3, 16, 24), (1, 2, 16, 20, 12), (1, 1, 8, 1)):
        result = image_features(noise(*shape))
        assert result.shape == (len(FEATURES),)
        assert np.isfinite(result).all()
    assert len(FEATURES) <= 24


def test_a_constant_case_has_finite_features():
    assert np.isfinite(image_features(np.full((1, 1, 16, 16), 3.0, dtype=np.float32))).all()


def test_moments_are_those_of_scipy():
    image = np.exp(noise(1, 1, 64, 64))
    skewness = math.asinh(stats.skew(image.ravel().astype(np.float64)))
    tails = math.log(stats.kurtosis(image.ravel().astype(np.float64), fisher=False) + SMALLEST)
    assert feature(image, "skewness of intensities") == pytest.approx(skewness, rel=1e-4)
    assert feature(image, "tails of intensities") == pytest.approx(tails, rel=1e-4)


def test_fine_detail_of_white_noise_is_that_of_the_kernel():
    impulse = np.zeros((41, 41))
    impulse[20, 20] = 1.0
    kernel = impulse - ndimage.gaussian_filter(impulse, 1.0)
    energy = (kernel**2).sum()
    correlation = (kernel[1:] * kernel[:-1]).sum() / energy
    image = noise(1, 1, 512, 512)
    assert feature(image, "detail below 1 px") == pytest.approx(math.log(math.sqrt(energy) + SMALLEST), abs=0.01)
    assert feature(image, "correlation of fine detail") == pytest.approx(correlation, abs=0.01)
    # The median of |x| of a normal distribution is 0.6745 standard deviations, its fourth moment 3.
    assert feature(image, "noise") == pytest.approx(math.log(0.6745 * math.sqrt(energy) + SMALLEST), abs=0.02)
    assert feature(image, "tails of fine detail") == pytest.approx(math.log(3), abs=0.05)


def test_bands_of_slow_waves_lie_above_those_of_fast_ones():
    rows = np.arange(64, dtype=np.float32)[:, None] * np.ones(64, dtype=np.float32)
    fast, slow = (np.sin(2 * np.pi * rows / length)[None, None] for length in (4, 40))
    assert feature(fast, "detail below 1 px") > feature(slow, "detail below 1 px") + 1
    assert feature(slow, "structure above 4 px") > feature(fast, "structure above 4 px") + 1
    # Only the first axis has gradients.
    assert feature(fast, "direction of gradients") > 1
    assert feature(np.swapaxes(fast, 2, 3), "direction of gradients") < -1


def test_brightness_and_contrast_change_nothing_else():
    image = noise(1, 1, 32, 32)
    before, after = image_features(image), image_features(3 * image + 5)
    assert after[0] == pytest.approx(3 * before[0] + 5, abs=1e-3)
    assert after[1] == pytest.approx(before[1] + math.log(3), abs=0.01)
    assert after[2:-2] == pytest.approx(before[2:-2], abs=1e-3)


def test_added_noise_shows_and_blur_takes_it_away():
    image = ndimage.gaussian_filter(noise(1, 1, 64, 64), (0, 0, 2, 2))
    image /= image.std()
    plain = feature(image, "noise")
    noisy = image + 0.3 * noise(1, 1, 64, 64, seed=1)
    assert feature(noisy, "noise") > plain + 0.5
    assert feature(ndimage.gaussian_filter(noisy, (0, 0, 1, 1)), "noise") < plain


def test_border_and_flat_area_by_hand():
    image = np.zeros((1, 1, 16, 16), dtype=np.float32)
    image[..., 2:14, 2:14] = 1.0  # The border is an eighth on each side: all zeros around all ones.
    deviation = image.std()
    assert feature(image, "border against centre") == pytest.approx(-1 / deviation, rel=1e-5)
    # What touches the step, one pixel on each side of it, is not flat: 14² − 10² of 16².
    assert feature(image, "flat area") == pytest.approx(1 - (14**2 - 10**2) / 16**2)


def test_hue_and_colour_by_hand():
    image = np.stack([np.full((8, 8), 1.0), np.full((8, 8), 2.0), np.full((8, 8), 6.0)])[None]
    assert feature(image, "hue") == -5.0
    assert feature(image, "colour") == pytest.approx(np.std([1, 2, 6]))
    assert feature(noise(1, 1, 8, 8), "colour") == 0.0


def test_slices_of_a_case_count_together():
    image = noise(4, 1, 32, 32)
    assert image_features(image[::-1]) == pytest.approx(image_features(image), abs=1e-5)


@pytest.mark.parametrize("shape", [(32, 32), (1, 32, 32), (1, 1, 2, 2, 2, 2), (0, 1, 8, 8)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"Expected a case \(S, C, H, W\[, D\]\)"):
        image_features(np.zeros(shape))


def test_a_patient_counts_once():
    features = [np.full(len(FEATURES), value) for value in (0.0, 4.0, 1.0, 3.0)]
    result = statistics_of_features(features, ["a", "a", "b", "c"])
    # The patients' means are 2, 1 and 3.
    assert result == ImageStatistics(3, (2.0,) * len(FEATURES), (1.0,) * len(FEATURES))


def test_statistics_are_those_of_the_features():
    images = [noise(1, 1, 16, 16, seed=seed) for seed in range(3)]
    each = np.array([image_features(image) for image in images])
    result = image_statistics(iter(images), ["a", "b", "c"])
    assert result.means == pytest.approx(each.mean(axis=0))
    assert result.deviations == pytest.approx(each.std(axis=0, ddof=1))


def test_images_without_units_are_refused():
    with pytest.raises(ValueError, match="as many images as units, but got 1 and 2"):
        image_statistics([noise(1, 1, 8, 8)], ["a", "b"])


def test_of_two_patients_nothing_leaves_the_site():
    left = image_statistics([noise(1, 1, 8, 8, seed=seed) for seed in range(4)], ["a", "b", "a", "b"]).outbound()
    assert left.patients == 0
    assert not left.is_known
    assert all(math.isnan(number) for number in (*left.means, *left.deviations))


def test_what_leaves_is_rounded_to_the_third_decimal():
    many = len(FEATURES)
    left = ImageStatistics(3, (-1.23456,) * many, (0.01234,) * many).outbound()
    assert left == ImageStatistics(3, (-1.235,) * many, (0.012,) * many)
    assert left.is_known


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_pixels_that_are_no_numbers_make_a_site_unknown(value):
    images = [noise(1, 1, 8, 8, seed=seed) for seed in range(3)]
    images[1][0, 0, 4, 4] = value
    with np.errstate(invalid="ignore"):
        assert not image_statistics(images, ["a", "b", "c"]).outbound().is_known


def test_a_single_patient_has_no_statistics():
    assert not image_statistics([noise(1, 1, 8, 8)], ["a"]).is_known


def test_statistics_of_another_length_are_not_known():
    assert not ImageStatistics(5, (0.0,), (1.0,)).is_known
