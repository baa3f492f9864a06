"""Coarser images, moved contours, and estimates from coarse to fine."""

import numpy as np
import pytest
from support.disc_cases import disc_case, disc_sites

from fedannot.custom.annotation_bias.profile.curves import LEVELS
from fedannot.custom.annotation_bias.profile.estimation import estimate_from_images
from fedannot.custom.annotation_bias.profile.scales import ProfileCase, curve_at_scale, moved_mask, num_halvings


@pytest.mark.parametrize(
    ("shape", "spacing", "halvings"),
    [
        ((64, 64), None, 0),
        ((127, 30), None, 0),
        ((128, 128), None, 1),
        ((256, 200), (0.5, 0.5), 2),
        ((40, 40, 40), (1.0, 1.0, 4.0), 1),
    ],
)
def test_the_first_scale_has_64_to_127_pixels_along_the_longest_side(shape, spacing, halvings):
    case = ProfileCase("p", np.zeros((1, *shape)), np.zeros(shape, dtype=np.uint8), spacing)

    assert num_halvings([case]) == halvings


def test_there_are_no_scales_without_a_case():
    with pytest.raises(ValueError, match="at least one"):
        num_halvings([])


@pytest.mark.parametrize("bias", [-3.0, 2.0, 4.0])
def test_a_disc_is_moved_to_the_radius_without_its_bias(bias):
    away = np.hypot(*(np.indices((80, 80)) - 39.5)) - 20

    moved = moved_mask(away <= 0, bias)

    assert np.sqrt(moved.sum() / np.pi) == pytest.approx(20 - bias, abs=0.4)


def test_a_mask_without_a_contour_stays():
    for mask in (np.zeros((9, 9), dtype=bool), np.ones((9, 9), dtype=bool)):
        np.testing.assert_array_equal(moved_mask(mask, 2.0), mask)


def test_a_coarse_curve_is_that_of_means_of_blocks():
    case = disc_case("p", 4.0, size=128, radius=30)
    means = case.image[0].reshape(64, 2, 64, 2).mean(axis=(1, 3))
    mask = case.annotation.reshape(64, 2, 64, 2).mean(axis=(1, 3)) >= 0.5
    coarse = ProfileCase("p", means[None], mask.astype(np.uint8))

    np.testing.assert_allclose(curve_at_scale(case, 1, factor=2), curve_at_scale(coarse, 1), rtol=1e-4, equal_nan=True)


def test_what_was_found_is_taken_off_before_the_next_scale():
    case = disc_case("p", 5.0)

    before, after = curve_at_scale(case, 1), curve_at_scale(case, 1, bias=5.0)

    assert LEVELS[np.nanargmax(before)] == pytest.approx(-5, abs=0.75)
    assert LEVELS[np.nanargmax(after)] == pytest.approx(0, abs=0.75)


def test_biases_beyond_the_reach_of_fine_curves_are_found_coarsely():
    true = {"a": 18.0, "b": -14.0, "c": 0.0, "d": 9.0, "e": 2.0}

    estimates = estimate_from_images(disc_sites(true, size=256, radius=40, cases=5), 1, seed=0)

    for site, bias in true.items():
        assert estimates[site].bias == pytest.approx(bias, abs=1.2)
        assert estimates[site].is_known
        assert estimates[site].unit == 1.0


def test_biases_are_millimetres_where_images_have_a_spacing():
    sites = {
        site: [ProfileCase(case.patient, case.image, case.annotation, (0.5, 0.5)) for case in cases]
        for site, cases in disc_sites({"a": 3.0, "b": -2.0, "c": 0.0}).items()
    }

    estimates = estimate_from_images(sites, 1, seed=0)

    assert [estimates[site].bias for site in "abc"] == pytest.approx([1.5, -1.0, 0.0], abs=0.2)
    assert estimates["a"].half_width < 0.5


def test_a_site_without_an_object_is_absent_and_stops_nobody():
    sites = disc_sites({"a": 3.0, "b": -2.0, "c": 0.0}) | {"d": [], "e": [disc_case("p", -99.0)]}

    estimates = estimate_from_images(sites, 1, seed=0)

    assert [estimates[site].is_known for site in "abcde"] == [True, True, True, False, False]


def test_one_hospital_alone_is_known():
    estimates = estimate_from_images(disc_sites({"a": 4.0}, cases=12), 1, seed=0)

    assert estimates["a"].bias == pytest.approx(4.0, abs=0.5)
    assert estimates["a"].is_known


def test_masks_of_other_images_are_never_known():
    cases = disc_sites({"a": 0.0}, cases=10, noise=1.0)["a"]
    generator = np.random.default_rng(0)
    wrong = [
        ProfileCase(case.patient, generator.normal(size=case.image.shape).astype(np.float32), case.annotation)
        for case in cases
    ]

    estimate = estimate_from_images(disc_sites({"b": 1.0, "c": -2.0, "d": 0.0}) | {"a": wrong}, 1, seed=0)["a"]

    assert not estimate.is_known
