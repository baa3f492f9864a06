"""A bias on one side: moved ellipses and balls, shifts, biases of all sides, images that say nothing."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from fedannot.custom.annotation_bias.profile.contours import signed_distance
from fedannot.custom.annotation_bias.profile.curves import LEVELS, case_curve
from fedannot.custom.annotation_bias.profile.one_sided import OneSidedBias, Side, estimate_one_sided, side_curves
from fedannot.custom.annotation_bias.profile.scales import ProfileCase, ScaledCase


def one_sided(mask, axis, towards_end, length):
    """The mask with one side moved outward, or inward, by so many pixels."""
    step = (1 if towards_end else -1) * (1 if length > 0 else -1)
    moved = [np.roll(mask, step * number, axis) for number in range(1, abs(length) + 1)]
    return np.any([mask, *moved], axis=0) if length > 0 else np.all([mask, *moved], axis=0)


def lesions(seed, change=lambda mask: mask, *, num=12, size=(64, 64), bias=0.0, noise=0.2):
    """Cases of bright ellipses, whose masks are changed."""
    generator, cases = np.random.default_rng(seed), []
    for number in range(num):
        centre = [length / 2 + generator.uniform(-3, 3) for length in size]
        radii = generator.uniform(0.14, 0.2, len(size)) * min(size)
        ratio = np.sqrt(sum(((a - c) / r) ** 2 for a, c, r in zip(np.indices(size), centre, radii, strict=True)))
        distance = (ratio - 1) * radii.mean()
        image = 1.0 / (1 + np.exp(2 * distance)) + noise * ndimage.gaussian_filter(generator.normal(size=size), 1.0)
        mask = change(distance <= bias).astype(np.uint8)
        cases.append(ProfileCase(f"p{number}", image[None].astype(np.float32), mask))
    return cases


@pytest.mark.parametrize(
    ("axis", "towards_end", "length"), [(0, True, 3), (0, False, -3), (1, True, 4), (1, False, 3), (0, True, -4)]
)
def test_a_side_that_is_moved_alone_is_found(axis, towards_end, length):
    """On a disc the moved side lies farther out by 0.90 of the length on average, the sides between by 0.19."""
    cases = lesions(0, lambda mask: one_sided(mask, axis, towards_end, length))

    moved = estimate_one_sided(cases, 1, seed=0).moved

    assert (moved.axis, moved.is_towards_end) == (axis, towards_end)
    assert moved.excess == pytest.approx(0.71 * length, abs=0.7)
    assert abs(moved.excess) > moved.half_width


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("bias", [-3.0, 0.0, 4.0])
def test_a_bias_of_all_sides_is_none_of_one(seed, bias):
    result = estimate_one_sided(lesions(seed, bias=bias), 1, bias=bias, seed=0)

    assert result.moved is None
    assert len(result.sides) == 4
    assert max(abs(side.excess) for side in result.sides) < 1.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_shift_moves_opposite_sides_and_is_none_of_one(seed):
    result = estimate_one_sided(lesions(seed, lambda mask: np.roll(mask, 3, 0)), 1, seed=0)

    end, start = (side for side in result.sides if side.axis == 0)
    assert (end.excess, start.excess) == (pytest.approx(2.7, abs=0.8), pytest.approx(-2.7, abs=0.8))
    assert result.moved is None


def test_longer_objects_are_none_of_one_side():
    def longer(mask):
        return one_sided(one_sided(mask, 0, True, 3), 0, False, 3)

    assert estimate_one_sided(lesions(0, longer), 1, seed=0).moved is None


def test_lengths_are_millimetres_where_images_have_a_spacing():
    cases = lesions(0, lambda mask: one_sided(mask, 1, True, 3))
    fine = [replace(case, spacing=(0.5, 0.5)) for case in cases]

    moved, in_pixels = (estimate_one_sided(some, 1, seed=0).moved for some in (fine, cases))

    assert moved.excess == pytest.approx(0.5 * in_pixels.excess)
    assert moved.half_width == pytest.approx(0.5 * in_pixels.half_width)


def test_large_images_are_compared_at_a_coarse_scale():
    ones = np.ones((2, 2), dtype=np.uint8)
    cases = lesions(0, lambda mask: one_sided(mask, 1, True, 3))
    large = [
        replace(case, image=np.kron(case.image, ones[None]), annotation=np.kron(case.annotation, ones))
        for case in cases
    ]

    assert estimate_one_sided(large, 1, seed=0).moved.excess == pytest.approx(
        2 * estimate_one_sided(cases, 1, seed=0).moved.excess, abs=1e-3
    )


def test_volumes_have_six_sides():
    def change(mask):
        return one_sided(mask, 2, False, 3)

    result = estimate_one_sided(lesions(0, change, num=6, size=(40, 40, 40)), 1, seed=0)

    assert len(result.sides) == 6
    assert (result.moved.axis, result.moved.is_towards_end) == (2, False)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_noise_says_nothing_of_sides(seed):
    generator = np.random.default_rng(seed)
    cases = [replace(case, image=generator.normal(size=case.image.shape)) for case in lesions(seed)]

    assert estimate_one_sided(cases, 1, seed=0).moved is None


@pytest.mark.parametrize("patients", [1, 4])
def test_few_patients_say_nothing_of_sides(patients):
    cases = lesions(0, lambda mask: one_sided(mask, 0, True, 3))
    shared = [replace(case, patient=f"p{number % patients}") for number, case in enumerate(cases)]

    assert estimate_one_sided(shared, 1, seed=0) == OneSidedBias(patients, (), 1.0)


def test_a_class_without_objects_says_nothing_of_sides():
    assert estimate_one_sided(lesions(0), 2, seed=0).sides == ()


def test_no_case_is_refused():
    with pytest.raises(ValueError, match="at least one case"):
        estimate_one_sided([], 1, seed=0)


def test_every_side_of_a_right_mask_has_the_boundary_of_the_whole_case():
    case = lesions(3, num=1)[0]
    scaled = ScaledCase(case.image, case.annotation == 1, np.zeros(case.annotation.shape, dtype=bool), (1.0, 1.0))
    sides = side_curves(scaled)
    whole = case_curve(case.image, case.annotation == 1)

    places = [LEVELS[np.nanargmax(side)] for side in sides]
    assert places == pytest.approx([LEVELS[np.nanargmax(whole)]] * 4, abs=0.75)
    assert [np.nanmean(side) for side in sides] == pytest.approx([1.0] * 4)


def test_a_curve_of_one_side_is_that_of_direct_sums():
    case = lesions(4, num=1)[0]
    mask = case.annotation == 1
    image = case.image[0].astype(float)
    slopes = np.array(np.gradient(ndimage.gaussian_filter((image - image.mean()) / (image.std() + 1e-6), 0.7)))
    distance = signed_distance(mask, np.ones(2))
    normal = np.array(np.gradient(ndimage.gaussian_filter(distance, 1.0)))
    normal /= np.sqrt((normal**2).sum(axis=0)) + 1e-9
    side = (normal[1] < 0) & (abs(normal[1]) > abs(normal[0]))
    squares = (slopes * normal).sum(axis=0) ** 2
    expected = np.full(len(LEVELS), np.nan)
    for index, level in enumerate(LEVELS):
        weight = np.clip(1 - abs(distance - level) / 0.75, 0, None) * side * (abs(distance) <= 12)
        total = (weight * (normal**2).sum(axis=0)).sum()
        if total > 6:
            expected[index] = np.sqrt((weight * squares).sum() / total)

    scaled = ScaledCase(case.image, mask, np.zeros(mask.shape, dtype=bool), (1.0, 1.0))
    curve = side_curves(scaled)[3]

    np.testing.assert_allclose(curve, expected / np.nanmean(expected), rtol=1e-9)


def test_a_side_counts_alone_by_its_excess_interval_and_opposite():
    side = Side(axis=0, is_towards_end=True, excess=2.0, half_width=1.0, opposite=-0.5, standard_error=0.4)

    assert side.is_alone(1.0)
    assert not side.is_alone(1.5)  # 1.3 pixels
    assert not replace(side, half_width=2.5).is_alone(1.0)
    assert not replace(side, opposite=-2.0).is_alone(1.0)
    assert not replace(side, opposite=2.0).is_alone(1.0)
    assert not replace(side, standard_error=0.8).is_alone(1.0)
