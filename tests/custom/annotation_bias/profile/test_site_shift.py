"""Shifts of all masks of a site: against direct sums, moved discs and balls, images that say nothing, other masks."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from fedannot.custom.annotation_bias.profile.contours import signed_distance
from fedannot.custom.annotation_bias.profile.estimation import estimate_from_images
from fedannot.custom.annotation_bias.profile.scales import ProfileCase
from fedannot.custom.annotation_bias.profile.site_shift import (
    CONTOUR_LEVELS,
    SiteShift,
    case_scores,
    estimate_site_shift,
)


def lesion(generator, *, size=(64, 64), noise=0.5, larger=0.0):
    """An image with a bright ellipse on texture, and a mask that is larger by so many pixels."""
    centre = [generator.uniform(0.35, 0.65) * length for length in size]
    radii = generator.uniform(6, 11, len(size))
    grid = np.indices(size)
    ratio = np.sqrt(
        sum(((axis - middle) / radius) ** 2 for axis, middle, radius in zip(grid, centre, radii, strict=True))
    )
    distance = (ratio - 1) * radii.mean()
    texture = ndimage.gaussian_filter(generator.normal(size=size), 1.0)
    image = 1.0 / (1 + np.exp(2 * distance)) + noise * texture
    return image[None], (distance <= larger).astype(np.uint8)


def site_of(seed, *, shift=(0, 0), num=8, **kwargs):
    """Cases of a site, each of one patient, whose masks are moved."""
    generator = np.random.default_rng(seed)
    pairs = [lesion(generator, **kwargs) for _ in range(num)]
    return [ProfileCase(f"p{index}", image, np.roll(mask, shift, (0, 1))) for index, (image, mask) in enumerate(pairs)]


def direct_scores(image, mask, reach):
    """The same by sums over pixels, one translation after the other; 2D, in pixels."""
    distance = signed_distance(mask, np.ones(2))
    smooth = ndimage.gaussian_filter(distance, 1.0)
    normals = np.array(np.gradient(smooth))
    normals /= np.sqrt((normals**2).sum(axis=0)) + 1e-9
    slopes = [np.gradient(ndimage.gaussian_filter(channel / channel.std(), 0.7)) for channel in image]
    result = np.full((len(CONTOUR_LEVELS), 2 * reach + 1, 2 * reach + 1), np.nan)
    moves = list(itertools.product(range(-reach, reach + 1), repeat=2))
    for number, level in enumerate(CONTOUR_LEVELS):
        weight = np.clip(1 - abs(distance - level), 0, None)
        places = np.argwhere(weight > 0)
        normal = normals[:, *places.T]
        part = weight[tuple(places.T)]
        total = (part * (normal**2).sum(axis=0)).sum()
        for move in moves if total > 6 else []:
            there = places + move
            seen = ((there >= 0) & (there < mask.shape)).all(axis=1)
            area = (part * (normal**2).sum(axis=0))[seen].sum()
            changes = [
                sum(normal[axis, seen] * slope[axis][tuple(there[seen].T)] for axis in (0, 1)) for slope in slopes
            ]
            if area >= 0.25 * total:
                energy = sum((part[seen] * change**2).sum() for change in changes)
                result[(number, *np.add(move, reach))] = np.sqrt(energy / area)
    rows, columns = np.indices(result.shape[1:]) - reach
    return result / np.nanmean(result[:, rows**2 + columns**2 <= 36])


def test_scores_are_sums_over_pixels():
    generator = np.random.default_rng(3)
    image = generator.normal(size=(2, 19, 17))
    rows, columns = np.mgrid[:19, :17]
    mask = np.hypot(rows - 8, columns - 5) <= 4

    scores = case_scores(image, mask)

    # Levels −10 to 10, translations up to seven pixels.
    assert scores.shape == (21, 15, 15)
    np.testing.assert_allclose(scores, direct_scores(image, mask, 7), rtol=1e-6)


def test_contours_near_other_classes_do_not_count():
    image, mask = lesion(np.random.default_rng(3))
    around = ndimage.binary_dilation(mask, iterations=3) & (mask == 0)
    right = around & (np.arange(64) >= ndimage.center_of_mass(mask)[1])

    assert case_scores(image, mask == 1, other=around) is None
    left_alone = case_scores(image, mask == 1, other=right)
    all_around = case_scores(image, mask == 1)
    assert np.isfinite(left_alone[CONTOUR_LEVELS == 0]).all()
    assert not np.allclose(left_alone, all_around, equal_nan=True)


@pytest.mark.parametrize(("shift", "larger"), [((0, 0), 0), ((3, -2), 0), ((-4, 1), 3), ((0, 5), -2)])
def test_known_shift_of_discs_is_found(shift, larger):
    result = estimate_site_shift(site_of(5, shift=shift, larger=larger), 1, seed=0)

    np.testing.assert_allclose(result.vector, shift, atol=0.25)
    assert result.is_known
    assert result.is_significant == any(shift)
    assert result.patients == 8
    assert all(
        abs(found - true) <= width for found, true, width in zip(result.vector, shift, result.half_width, strict=True)
    )


def test_fraction_of_a_pixel_is_found():
    cases = [replace(case, image=ndimage.shift(case.image, (0, 0.5, 0), mode="nearest")) for case in site_of(6)]

    result = estimate_site_shift(cases, 1, seed=0)

    # The image is moved by half a pixel forth, so that the masks lie half a pixel back.
    np.testing.assert_allclose(result.vector, (-0.5, 0.0), atol=0.25)
    assert result.is_known
    assert not result.is_significant


def test_coarse_axis_counts_in_its_own_pixels():
    generator = np.random.default_rng(2)
    cases = []
    for number in range(6):
        image, mask = lesion(generator, size=(40, 40, 36), noise=0.2)
        thick_image, thick_mask = image.reshape(1, 40, 40, 12, 3).mean(axis=-1), mask[:, :, 1::3]
        moved = np.roll(thick_mask, (2, -1, 1), (0, 1, 2))
        cases.append(ProfileCase(f"p{number}", thick_image, moved, (0.5, 0.5, 1.5)))

    result = estimate_site_shift(cases, 1, seed=0)

    assert result.pixel == (0.5, 0.5, 1.5)
    np.testing.assert_allclose(np.divide(result.vector, result.pixel), (2, -1, 1), atol=0.25)
    assert result.is_known
    assert result.is_significant


def test_nothing_is_said_along_an_axis_with_very_long_pixels():
    cases = [
        replace(case, image=np.stack([case.image] * 3, -1), annotation=np.stack([case.annotation] * 3, -1))
        for case in site_of(7, shift=(2, 0))
    ]

    result = estimate_site_shift([replace(case, spacing=(1.0, 1.0, 8.0)) for case in cases], 1, seed=0)

    assert np.isnan(result.standard_error[2])
    assert result.half_width[2] == np.inf
    np.testing.assert_allclose(result.vector, (2, 0, 0), atol=0.25)
    assert result.is_known
    assert result.is_significant


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_noise_says_nothing(seed):
    generator = np.random.default_rng(100 + seed)
    cases = [replace(case, image=generator.normal(size=(1, 64, 64))) for case in site_of(seed)]

    result = estimate_site_shift(cases, 1, seed=0)

    assert not result.is_known
    assert not result.is_significant


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_masks_of_other_images_are_never_known(seed):
    sites = {f"site-{number}": site_of(10 * seed + number, larger=2.0 * number - 3) for number in range(4)}
    cases = sites["site-1"]
    masks = [case.annotation for case in cases]
    sites["site-1"] = [
        replace(case, annotation=mask) for case, mask in zip(cases, [*masks[3:], *masks[:3]], strict=True)
    ]

    boundary = estimate_from_images(sites, 1, seed=0)
    shifts = {site: estimate_site_shift(cases, 1, seed=0) for site, cases in sites.items()}

    assert {site for site, estimate in boundary.items() if not estimate.is_known} == {"site-1"}
    assert {site for site, shift in shifts.items() if not shift.is_known} == {"site-1"}


def test_seed_decides_all_bits():
    cases = site_of(8, num=4)

    first, again = (estimate_site_shift(cases, 1, seed=3) for _ in range(2))
    other = estimate_site_shift(cases, 1, seed=4)

    assert first == again
    assert other.vector == first.vector
    assert other.standard_error != first.standard_error


def test_one_patient_knows_nothing():
    cases = [replace(case, patient="p") for case in site_of(9, shift=(3, 0))]

    result = estimate_site_shift(cases, 1, seed=0)

    assert (result.patients, result.agreement, result.is_known) == (1, 0.0, False)
    np.testing.assert_allclose(result.vector, (3, 0), atol=0.25)


def test_absent_class_has_no_shift():
    result = estimate_site_shift(site_of(9, num=2), 2, seed=0)

    assert result.patients == 0
    assert np.isnan(result.vector).all()
    assert not result.is_known
    assert not result.is_significant


def test_shift_is_significant_beyond_its_interval_and_a_pixel():
    known = SiteShift(9, (0.9, 0.0), (0.1, 0.1), (0.4, 0.4), (1.0, 1.0), 0.5, 1.0)

    assert known.is_known
    assert not known.is_significant
    assert replace(known, vector=(0.0, -1.1)).is_significant
    # In millimetres a pixel of 2 mm is the minimum.
    assert not replace(known, vector=(0.0, -1.1), half_width=(0.8, 0.8), pixel=(2.0, 2.0)).is_significant
    for worse in ({"prominence": 0.2}, {"agreement": 0.8}, {"half_width": (0.4, 0.9)}):
        assert not replace(known, **worse).is_known


def test_wrong_input_is_refused():
    case = site_of(1, num=1)[0]

    with pytest.raises(ValueError, match="at least one case"):
        estimate_site_shift([], 1, seed=0)
    with pytest.raises(ValueError, match="finite values"):
        estimate_site_shift([replace(case, image=np.full((1, 64, 64), np.nan))], 1, seed=0)
    with pytest.raises(ValueError, match="of the mask's size"):
        case_scores(case.image[:, :-1], case.annotation == 1)
