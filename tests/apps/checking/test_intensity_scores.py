"""The robust z-scores of intensities, against hand-worked values."""

import numpy as np
import pytest

from fedannot.apps.checking.facts import ImageFacts
from fedannot.apps.checking.intensity_checks import intensity_scores


def image(mean, deviation, minimum=0.0):
    return ImageFacts((1, 4, 4), None, None, "L", minimum, 9e9, mean, deviation, (0, 0, 0), "")


def test_scores_are_distances_of_logarithms_over_the_scaled_median_absolute_deviation():
    # Logarithms to base 2 of the means: 0 1 2 3 10; median 2, absolute deviations 2 1 0 1 8, their median 1.
    images = [image(2.0**power, 1) for power in (0, 1, 2, 3, 10)]
    assert intensity_scores(images)["mean"] == pytest.approx(np.array([-2, -1, 0, 1, 8]) / 1.4826)


def test_scores_do_not_depend_on_the_unit():
    values = [(3, 1), (4, 2), (5, 4), (9, 3)]
    small = intensity_scores([image(*pair) for pair in values])
    large = intensity_scores([image(1000 * mean, 1000 * deviation) for mean, deviation in values])
    for name in ("mean", "deviation"):
        np.testing.assert_allclose(small[name], large[name], rtol=1e-9)


def test_means_of_images_with_negative_intensities_are_compared_as_they_are():
    images = [image(mean, 10.0, minimum=-1000.0) for mean in (-20, -10, 0, 10, 80)]
    assert intensity_scores(images)["mean"] == pytest.approx(np.array([-2, -1, 0, 1, 8]) / 1.4826)


def test_differences_of_a_few_percent_are_no_outliers_however_alike_the_others_are():
    scores = intensity_scores([image(100.0, 10.0)] * 9 + [image(105.0, 10.0)])
    assert scores["mean"][-1] == pytest.approx(np.log(1.05) / 0.05)
