"""Offset and completeness from bounded means and sums with noise: by hand, and their intervals by many draws."""

import math

import numpy as np
import pytest
from predicted_cases import case_of, round_case, site

from fedannot.custom.annotation_bias.boundary_bias import CaseOffset
from fedannot.custom.annotation_bias.noisy_estimates import (
    noisy_completeness,
    noisy_offset,
    object_samples,
    offset_samples,
)
from fedannot.custom.annotation_bias.noisy_fields import (
    ANNOTATED,
    LARGEST_DIFFERENCE,
    LARGEST_OFFSET,
    MATCHED,
    OFFSET_DIFFERENCE,
    OFFSET_MEAN,
    PREDICTED,
)
from fedannot.custom.annotation_bias.site_estimates import case_offsets
from fedannot.custom.outbound.private_statistics import noise_deviations, private_report

BOUNDS = {OFFSET_MEAN: LARGEST_OFFSET, OFFSET_DIFFERENCE: LARGEST_DIFFERENCE}


def with_offset(unit, offset, spacing=None):
    return round_case((8, 8), 4, 0, shape=(16, 16), unit=unit, spacing=spacing), CaseOffset(offset, 0.0, 1)


def test_a_patient_counts_once_in_pixels_and_is_in_one_pair():
    result = [
        with_offset("c", 1.0),
        with_offset("a", 2.0, spacing=(0.5, 0.5)),
        with_offset("a", 1.0, spacing=(0.5, 0.5)),
        with_offset("b", -2.0),
        with_offset("d", 5.0),
        with_offset("e", 9.0),
    ]
    samples = offset_samples([result, result[3:5]])
    means, pairs = samples[OFFSET_MEAN], samples[OFFSET_DIFFERENCE]
    # a: the mean of 4 and 2 pixels; e is left over; of the second class b and d are there alone.
    assert means.values[:, 0].tolist() == [3.0, -2.0, 1.0, 5.0, 9.0]
    assert np.isnan(means.values[[0, 2, 4], 1]).all()
    assert means.values[[1, 3], 1].tolist() == [-2.0, 5.0]
    assert pairs.values[:, 0].tolist() == [5.0, 4.0]
    assert pairs.values[0, 1] == 7.0
    # 8 on either side for a mean of five, and a bound of 4 for one of two pairs.
    assert means.sensitivity(0, 8.0) == pytest.approx(16 / 5)
    assert pairs.sensitivity(0, 4.0) == pytest.approx(4 / 2)
    assert means.bounded(0, 8.0) == pytest.approx((3 - 2 + 1 + 5 + 8) / 5)


def test_without_noise_it_is_the_mean_with_its_standard_error():
    result = noisy_offset(16, 1.5, 0.0, 2 / math.sqrt(math.pi), 0.0, pixel=0.5)
    # Two normal numbers of deviation 1 differ by 2/√π; 1.6449 · 1 / √16 pixels of half a millimetre.
    assert (result.value, result.low, result.high) == (
        pytest.approx(0.75),
        pytest.approx(0.75 - 0.5 * 1.6449 / 4),
        pytest.approx(0.75 + 0.5 * 1.6449 / 4),
    )
    assert (result.patients, result.slope) == (16, 1.0)


def test_the_auroc_of_injected_errors_is_that_of_normal_offsets():
    """AUROC of the same offsets with and without 1 or 2 pixels more, by brute force."""
    drawn = np.random.default_rng(0).standard_normal((2, 3000))
    drawn = 1.3 * (drawn - drawn.mean(axis=1, keepdims=True)) / drawn.std(axis=1, keepdims=True)
    aurocs = [np.mean(drawn[0][:, None] + more > drawn[1]) for more in (1.0, 2.0)]
    result = noisy_offset(12, 0.0, 0.0, 1.3 * 2 / math.sqrt(math.pi), 0.0, pixel=1.0)
    assert result.auroc == pytest.approx(np.mean(aurocs), abs=0.01)


@pytest.mark.parametrize("patients", [10, 40])
@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_the_interval_has_the_noise_in_it(patients, noise):
    """Whole sites drawn again, with noise as the filter gives it: nine of ten intervals hold the truth, or some
    more.
    """
    generator, inside = np.random.default_rng(100), 0
    for _ in range(300):
        result = [with_offset(f"{i:02}", 2.0 + 1.2 * generator.standard_normal()) for i in range(patients)]
        samples = offset_samples([result])
        given = {OFFSET_MEAN: [0.0], OFFSET_DIFFERENCE: [0.0]}
        sent = private_report(given, samples, BOUNDS, noise_multiplier=noise, random_bytes=generator.bytes)
        noises = noise_deviations(given, samples, BOUNDS, noise_multiplier=noise)
        estimate = noisy_offset(
            patients,
            sent[OFFSET_MEAN][0],
            noises[OFFSET_MEAN][0],
            sent[OFFSET_DIFFERENCE][0],
            noises[OFFSET_DIFFERENCE][0],
            pixel=1.0,
        )
        inside += estimate.low <= 2.0 <= estimate.high
    assert 0.84 <= inside / 300 <= 0.98


def test_what_is_withheld_is_unknown():
    assert not noisy_offset(0, math.nan, math.nan, math.nan, math.nan, pixel=1.0).is_known
    assert not noisy_offset(1, 1.0, 0.1, 1.0, 0.1, pixel=1.0).is_known


def test_the_mean_of_a_site_is_its_offset():
    cases = site(1.5, patients=12, spread=0.4)
    samples = offset_samples([case_offsets(cases, 1)])
    assert samples[OFFSET_MEAN].bounded(0, 8.0) == pytest.approx(1.5, abs=0.3)
    assert samples[OFFSET_DIFFERENCE].bounded(0, 4.0) == pytest.approx(0.4 * 2 / math.sqrt(math.pi), rel=0.6)


def blocks(*columns):
    """An image with squares at some of four places."""
    mask = np.zeros((8, 32))
    for column in columns:
        mask[2:6, 8 * column + 2 : 8 * column + 6] = 1
    return mask


def test_numbers_of_objects_by_hand():
    cases = [
        case_of(blocks(0, 1), blocks(0, 1, 2), unit="a"),
        case_of(blocks(3), blocks(2), unit="a"),
        case_of(blocks(0), blocks(0), unit="b"),
    ]
    samples = object_samples(cases, 1)
    assert {name: of.values[:, 0].tolist() for name, of in samples.items()} == {
        MATCHED: [2.0, 1.0],
        PREDICTED: [4.0, 1.0],
        ANNOTATED: [3.0, 1.0],
    }
    assert samples[MATCHED].sensitivity(0, 10.0) == 10.0


def test_completeness_by_hand():
    result = noisy_completeness(20, (60.0, 80.0, 75.0), (0.0, 0.0, 0.0))
    error = math.sqrt(0.75 * 0.25 / 80)
    assert (result.value, result.low) == (pytest.approx(0.75), pytest.approx(0.75 - 1.6449 * error))
    # Four of five annotated objects are found.
    assert (result.auroc, result.slope) == (pytest.approx(0.9), 1.0)
    noisy = noisy_completeness(20, (60.0, 80.0, 75.0), (4.0, 4.0, 4.0))
    error = math.sqrt(0.75 * 0.25 / 80 + (16 + 0.75**2 * 16) / 80**2)
    assert noisy.high == pytest.approx(0.75 + 1.6449 * error)


def test_what_noise_drowns_is_unknown():
    assert not noisy_completeness(20, (60.0, 80.0, 75.0), (30.0, 30.0, 30.0)).is_known
    assert not noisy_completeness(20, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)).is_known
    # Without annotated objects beyond the noise nobody can say what the model sees.
    assert noisy_completeness(20, (60.0, 80.0, 5.0), (2.0, 2.0, 2.0)).auroc == 0.5
