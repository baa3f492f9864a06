"""Offsets of contours against circles and balls moved by known distances."""

import numpy as np
import pytest
from predicted_cases import PredictedCase, round_case, sigmoid, site

from fedannot.custom.annotation_bias.boundary_bias import case_offset, mask_offset
from fedannot.custom.annotation_bias.site_estimates import estimate_jitter, estimate_offset
from fedannot.transforms.move_contour import MoveContour


@pytest.mark.parametrize("offset", [-4.0, -2.0, -0.5, 0.0, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("softness", [0.05, 1.0])
def test_a_disc_drawn_by_a_known_offset(offset, softness):
    generator = np.random.default_rng(100)
    result = [
        case_offset(round_case(generator.uniform(30, 34, 2), 14, offset, softness=softness), 1).offset
        for _ in range(10)
    ]
    assert np.mean(result) == pytest.approx(offset, abs=0.1)


@pytest.mark.parametrize("offset", [-3.0, -1.0, 0.0, 1.0, 3.0])
def test_a_ball_in_millimetres_of_voxels_three_times_as_high(offset):
    generator = np.random.default_rng(100)
    result = [
        case_offset(
            round_case(
                np.array([35, 35, 34]) + generator.uniform(-2, 2, 3),
                20,
                offset,
                shape=(48, 48, 16),
                spacing=(1.5, 1.5, 4.5),
            ),
            1,
        ).offset
        for _ in range(4)
    ]
    # A tenth of a pixel in the plane.
    assert np.mean(result) == pytest.approx(offset, abs=0.15)


@pytest.mark.parametrize("distance", [-3.2, -1.4, 1.4, 3.2])
def test_a_contour_that_was_moved_is_found_to_be(distance):
    result = []
    for case in site(0.0):
        moved = PredictedCase(case.unit, MoveContour(distance)(case.annotation), case.probabilities)
        result.append(case_offset(moved, 1).offset)
    assert np.median(result) == pytest.approx(distance, abs=0.2)


def test_the_offset_between_masks_is_that_of_their_radii():
    first, second = (round_case((31.6, 32.2), 12, offset).annotation == 1 for offset in (2.5, 0.0))
    assert mask_offset(first, second).offset == pytest.approx(2.5, abs=0.1)
    assert mask_offset(second, first).offset == pytest.approx(-2.5, abs=0.1)


def test_objects_that_match_none_do_not_count():
    case = round_case((32, 32), 12, 2.0)
    annotation = case.annotation.copy()
    annotation[2:6, 2:6] = 1
    with_another = PredictedCase("patient", annotation, case.probabilities)
    assert case_offset(with_another, 1) == case_offset(case, 1)


def test_a_case_without_match_has_no_offset():
    case = round_case((32, 32), 12, 2.0)
    assert case_offset(PredictedCase("patient", np.zeros_like(case.annotation), case.probabilities), 1) is None


@pytest.mark.parametrize("row", [0, 3, 8])
def test_an_object_cut_by_the_border_has_the_offset_of_what_is_seen(row):
    result = case_offset(round_case((row + 0.3, 32.2), 14, 2.0), 1)
    assert result.offset == pytest.approx(2.0, abs=0.2)


def test_classes_have_offsets_of_their_own():
    rows, columns = np.mgrid[:40, :80]
    first, second = np.hypot(rows - 20.3, columns - 20.4) - 11.3, np.hypot(rows - 19.7, columns - 60.1) - 11.3
    parts = np.stack([np.full(rows.shape, 0.5), sigmoid(-first), sigmoid(-second)])
    annotation = np.where(first <= 2, 1, np.where(second <= -2, 2, 0)).astype(np.uint8)
    case = PredictedCase("patient", annotation, parts / parts.sum(axis=0))
    assert case_offset(case, 1).offset == pytest.approx(2.0, abs=0.15)
    assert case_offset(case, 2).offset == pytest.approx(-2.0, abs=0.15)


def test_an_even_contour_has_no_spread():
    assert case_offset(round_case((32, 32), 14, 2.0), 1).spread < 0.25


def test_the_estimate_of_a_site_is_the_median_of_its_cases():
    cases = site(1.5, spread=0.5)
    values = [case_offset(case, 1).offset for case in cases]
    result = estimate_offset(cases, 1, seed=100)
    assert result.value == pytest.approx(np.median(values))
    assert result.low < result.value < result.high
    assert result.patients == 12
    assert estimate_offset(cases[::-1], 1, seed=100).value == result.value


def test_jitter_is_the_spread_that_the_cases_were_drawn_with():
    result = estimate_jitter(site(0.0, patients=60, spread=1.0), 1, seed=100)
    assert result.between_cases.value == pytest.approx(1.0, abs=0.3)
    assert result.along_contours.value < 0.35


def test_no_case_gives_no_estimate():
    assert not estimate_offset([], 1, seed=100).is_known


def test_probabilities_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="'patient'"):
        PredictedCase("patient", np.zeros((4, 4), dtype=np.uint8), np.zeros((2, 4, 5)))
