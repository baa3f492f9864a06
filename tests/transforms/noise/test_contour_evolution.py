import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from monai.data import MetaTensor
from monai.transforms import Compose
from scipy import ndimage

from fedannot.transforms.noise.contour_evolution import ContourEvolution, ContourEvolutiond, ContourEvolutionParams
from fedannot.transforms.noise.displacement import draw_curve

EIGHT_NEIGHBOURS = np.ones((3, 3))


def disc(radius, center=(128.0, 128.0), shape=(256, 256)):
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return (np.hypot(rows - center[0], columns - center[1]) <= radius).astype(np.uint8)


def constant(displacement, **options):
    """Every contour moves by exactly this many pixels of the mask."""
    return ContourEvolution(displacement, 0, reference_size=None, **options)


def signed_distance(mask):
    inside = ndimage.distance_transform_edt(mask)
    return ndimage.distance_transform_edt(mask == 0) - inside


def draw_displacements(count, length, mean, spread):
    generator = np.random.RandomState(5)
    return np.array([draw_curve(generator, mean, spread, closing_tolerance=3.0).evaluate(length) for _ in range(count)])


# The displacement along a contour


@pytest.mark.parametrize("length", [300, 301, 329, 500, 1000])
@pytest.mark.parametrize("spread", [5, 10])
def test_displacement_has_the_mean_and_spreads_of_the_model(length, spread):
    displacements = draw_displacements(2000, length, mean=7, spread=spread)
    assert displacements.mean() == pytest.approx(7, abs=0.02 * spread)
    assert displacements.std(axis=1).mean() == pytest.approx(0.52 * spread, rel=0.03)
    assert displacements.mean(axis=1).std() == pytest.approx(0.18 * spread, rel=0.06)
    assert displacements.std() == pytest.approx(0.56 * spread, rel=0.04)


@pytest.mark.parametrize("length", [*range(1, 61), 75, 89, 90, 119])
def test_displacement_does_not_run_away_on_short_contours(length):
    displacements = draw_displacements(300, length, mean=0, spread=10)
    assert displacements.shape == (300, length)
    assert 4.5 < displacements.std() < 8


def test_displacement_is_continuous_where_the_contour_closes():
    generator = np.random.RandomState(0)
    for _ in range(300):
        curve = draw_curve(generator, 0, 10, closing_tolerance=3.0)
        begin = int(curve.start * 4000)
        displacements = curve.evaluate(4000)
        assert abs(displacements[begin] - displacements[begin - 1]) < 3
        assert np.abs(np.delete(np.diff(displacements), max(begin - 1, 0))).max() < 1


@pytest.mark.parametrize(("spread", "tolerance"), [(1e6, 3.0), (10, 0.0)])
def test_a_displacement_that_never_closes_ends_in_a_periodic_one(spread, tolerance):
    curve = draw_curve(np.random.RandomState(0), 0, spread, tolerance)
    assert curve.periodic
    displacements = curve.evaluate(4000) / spread
    steps = np.abs(displacements - np.roll(displacements, 1))
    assert steps.max() < 0.02
    assert np.isfinite(displacements).all()


def test_polynomial_is_the_least_squares_fit_to_the_drawn_values():
    # Without randomness in the closing (a wide tolerance) the first 30 values after the start are the ones fitted.
    curve = draw_curve(np.random.RandomState(3), 2, 5, closing_tolerance=1e9)
    generator = np.random.RandomState(3)
    start = generator.uniform()
    values = generator.normal(2, 5, 30)
    positions = np.linspace(-1, 1, 30)
    expected = np.polynomial.Polynomial.fit(positions, values, 10)
    begin = int(start * 200)
    np.testing.assert_allclose(np.roll(curve.evaluate(200), -begin), expected(np.linspace(-1, 1, 200)), atol=1e-9)


def test_displacements_are_clipped():
    params = ContourEvolution(29, 10, reference_size=None).set_random_state(0).make_params(disc(60))
    displacements = params.displacements(0, 500)
    assert displacements.max() == 30
    assert displacements.min() < 29
    unclipped = dataclasses.replace(params, max_displacement=1e9).displacements(0, 500)
    np.testing.assert_array_equal(displacements, np.clip(unclipped, -30, 30))


# The pixel-dependent property (FedA³I, Definition 1)


def test_noise_is_concentrated_near_the_contour():
    mask = disc(30, (64.2, 63.7), (128, 128))
    evolution = ContourEvolution(4, 4, reference_size=None).set_random_state(0)
    error = np.mean([evolution(mask) != mask for _ in range(100)], axis=0)
    near = np.abs(signed_distance(mask)) < 8
    assert error[near].mean() > 20 * error[~near].mean()


def test_noise_is_not_identically_distributed_along_the_contour():
    # As in the paper's proof the control points are given: where the curve begins and ends the spread is larger.
    mask = disc(30, (64, 64), (128, 128))
    evolution = ContourEvolution(0, 8, reference_size=None).set_random_state(0)
    drawn = [dataclasses.replace(evolution.make_params(mask), start=np.array([0.25])) for _ in range(700)]
    error = np.mean([evolution.apply_transform(mask, params) != mask for params in drawn], axis=0)
    # Four pixels at the same distance to the contour, up to the disc's symmetry.
    above, below, left, right = error[64 - 36, 64], error[64 + 36, 64], error[64, 64 - 36], error[64, 64 + 36]
    frequencies = np.array([above, below, left, right])
    standard_error = math.sqrt(2 * 0.25 / 700)
    assert np.ptp(frequencies) > 4 * standard_error


def test_noise_of_one_annotation_varies_along_the_contour():
    mask = disc(50)
    noisy = ContourEvolution(10, 5, reference_size=None).set_random_state(2)(mask)
    thickness = ndimage.distance_transform_edt(mask == 0)[(noisy == 1) & ndimage.binary_dilation(noisy == 0)]
    assert np.ptp(thickness) > 5


# The contour as moved


@pytest.mark.parametrize("radius", [10, 20.4, 35, 60.7])
@pytest.mark.parametrize("displacement", [-30, -12.3, -5, -1.6, 1.5, 5.2, 12, 29.5])
def test_a_disc_grows_and_shrinks_by_the_displacement(radius, displacement):
    mask = disc(radius, (127.4, 128.9))
    expected = math.sqrt(mask.sum() / math.pi) + displacement
    area = constant(displacement)(mask).sum()
    if expected <= -0.4:
        assert area == 0
    elif expected > 3:
        assert math.sqrt(area / math.pi) == pytest.approx(expected, abs=0.4)


@pytest.mark.parametrize("displacement", [-10, -4.2, 3.6, 11])
def test_a_rectangle_moves_by_the_displacement(displacement):
    mask = np.zeros((200, 240), np.uint8)
    mask[60:120, 70:170] = 1
    grown = max(displacement, 0)
    # Sides move by the displacement; corners are round when they grow and stay square when they shrink.
    expected = 6000 + 320 * displacement + (math.pi * grown**2 if displacement > 0 else 4 * displacement**2)
    assert constant(displacement)(mask).sum() == pytest.approx(expected, abs=0.5 * 320)


def test_no_displacement_changes_nothing():
    mask = (np.random.default_rng(0).random((90, 70)) > 0.55).astype(np.int16)
    np.testing.assert_array_equal(constant(0, smallest_object=0)(mask), mask)


def test_growing_a_disc_leaves_one_piece_without_holes():
    mask = disc(40)
    evolution = ContourEvolution(15, 5).set_random_state(0)
    for _ in range(50):
        noisy = evolution(mask)
        assert ndimage.label(noisy, EIGHT_NEIGHBOURS)[1] == 1
        assert ndimage.label(np.pad(noisy, 1) == 0)[1] == 1


@settings(deadline=None, max_examples=60)
@given(hnp.arrays(np.bool_, st.tuples(st.integers(1, 24), st.integers(1, 24))), st.floats(0.1, 12))
def test_a_positive_displacement_only_adds_and_a_negative_only_removes(mask, displacement):
    larger = constant(displacement, smallest_object=0)(mask)
    smaller = constant(-displacement, smallest_object=0)(mask)
    assert larger.dtype == smaller.dtype == np.bool_
    assert not (mask & ~larger).any()
    assert not (smaller & ~mask).any()


@settings(deadline=None, max_examples=60)
@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 24), st.integers(1, 24)), elements=st.integers(0, 3)))
def test_any_mask_stays_a_mask_of_its_labels(mask):
    noisy = ContourEvolution(0, 1e3, smallest_object=0, reference_size=None).set_random_state(0)(mask)
    assert noisy.shape == mask.shape
    assert set(np.unique(noisy)) <= {0, *np.unique(mask)}


# Holes


def test_a_hole_shrinks_where_the_object_grows():
    mask = disc(70) - disc(30, (120, 135))
    for displacement in (-12, 12):
        noisy = constant(displacement)(mask)
        hole, _ = ndimage.label(noisy == 0)
        area = (hole == hole[120, 135]).sum()
        assert math.sqrt(area / math.pi) == pytest.approx(30 - displacement, abs=0.5)
        assert noisy.sum() + area == pytest.approx(math.pi * (70 + displacement) ** 2, rel=0.02)


def test_a_hole_is_kept_when_its_object_moves_a_little_and_closes_when_it_grows_enough():
    mask = disc(60) - disc(10)
    assert constant(2)(mask)[128, 128] == 0
    filled = constant(12)(mask)
    assert ndimage.label(filled == 0)[1] == 1
    assert filled[128, 128] == 1


def test_a_ring_thinner_than_its_displacement_vanishes():
    assert constant(-10)(disc(60) - disc(52)).sum() == 0
    assert constant(-10)(disc(60) - disc(45)).sum() == 0
    assert constant(-5)(disc(60) - disc(45)).sum() > 0


def test_every_hole_moves_by_itself():
    mask = disc(80) - disc(15, (100, 100)) - disc(15, (150, 150))
    evolution = ContourEvolution(0, 10).set_random_state(0)
    params = evolution.make_params(mask)
    assert len(params.coefficients) == 3
    assert len(np.unique(params.coefficients[:, 0])) == 3


def test_a_pinhole_stays_as_it_is():
    mask = disc(50)
    mask[128, 128] = 0
    noisy = constant(-20)(mask)
    assert ndimage.label(noisy == 0)[1] == 2
    assert noisy[128, 128] == 0
    assert noisy[126:131, 126:131].sum() == 24


def test_a_hole_around_a_peninsula_that_hangs_on_a_corner_moves_on_both_sides():
    mask = np.zeros((80, 80), np.uint8)
    mask[10:70, 10:70] = 1
    mask[25:55, 25:55] = 0
    mask[33:47, 33:47] = 1
    for step in range(25, 33):
        mask[step, step] = 1
    noisy = constant(-3)(mask)
    assert np.flatnonzero(noisy[40]).tolist() == [*range(13, 22), *range(36, 44), *range(58, 67)]


def test_an_object_inside_a_hole_is_an_object():
    ring, core = disc(80) - disc(40), disc(20)
    noisy = constant(5)(ring + core)
    assert np.array_equal(noisy, np.maximum(constant(5)(ring), constant(5)(core)))


# The image border


@pytest.mark.parametrize("displacement", [-15, -4, 4, 15])
def test_a_cut_by_the_border_does_not_move(displacement):
    mask = np.zeros((120, 80), np.uint8)
    mask[:60] = 1
    expected = np.zeros_like(mask)
    expected[: 60 + displacement] = 1
    np.testing.assert_array_equal(constant(displacement)(mask), expected)
    np.testing.assert_array_equal(constant(displacement)(mask[::-1]), expected[::-1])
    np.testing.assert_array_equal(constant(displacement)(mask.T), expected.T)


@pytest.mark.parametrize("displacement", [-12, 9])
def test_a_quarter_disc_in_the_corner_stays_a_quarter_disc(displacement):
    mask = disc(50, (-0.5, -0.5), (100, 130))
    area = constant(displacement)(mask).sum()
    assert math.sqrt(4 * area / math.pi) == pytest.approx(50 + displacement, abs=0.4)


def test_an_object_that_grows_over_the_border_is_clipped():
    mask = disc(20, (25, 100), (120, 200))
    noisy = constant(15)(mask)
    assert noisy[0, 100] == 1
    assert noisy.sum() < math.pi * 35**2
    np.testing.assert_array_equal(noisy, constant(15)(np.pad(mask, ((40, 0), (0, 0))))[40:])


@pytest.mark.parametrize("center", [(20, 270), (90, 20), (50, 150)])
def test_images_need_not_be_square(center):
    mask = disc(18, center, (110, 300))
    noisy = constant(6)(mask)
    assert noisy.shape == (110, 300)
    rows, columns = np.nonzero(noisy)
    assert (rows.max(), columns.max()) == (min(center[0] + 24, 109), min(center[1] + 24, 299))
    assert (rows.min(), columns.min()) == (max(center[0] - 24, 0), max(center[1] - 24, 0))


# Small, empty and full


@pytest.mark.parametrize("fill", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (40, 30), (20, 30, 4)])
def test_an_empty_or_full_mask_stays_so(fill, shape):
    mask = np.full(shape, fill, np.uint8)
    np.testing.assert_array_equal(ContourEvolution(-20, 10).set_random_state(0)(mask), mask)


@pytest.mark.parametrize("length", range(1, 61))
def test_tiny_objects_are_moved_without_failing(length):
    mask = np.zeros((80, 80), np.uint8)
    mask[40, 10 : 10 + length] = 1
    evolution = ContourEvolution(0, 10, smallest_object=0, reference_size=None).set_random_state(length)
    noisy = evolution(mask)
    rows, _ = np.nonzero(noisy)
    assert np.all(np.abs(rows - 40) <= 31)
    assert constant(-1, smallest_object=0)(mask).sum() == 0


def test_objects_below_the_smallest_are_copied_and_use_no_randomness():
    mask = disc(40)
    speck = np.zeros_like(mask)
    speck[10:12, 10:17] = 1
    evolution = ContourEvolution(-20, 5)
    alone = evolution.set_random_state(0)(mask)
    np.testing.assert_array_equal(evolution.set_random_state(0)(mask | speck), alone | speck)
    speck[12, 10] = 1
    assert evolution.set_random_state(0)(mask | speck)[:20, :20].sum() == 0


def test_an_enormous_spread_ends():
    params = ContourEvolution(0, 1e5).set_random_state(0).make_params(disc(50))
    assert params.periodic.all()
    assert np.abs(params.displacements(0, 400)).max() == 30


# Lengths


@pytest.mark.parametrize(("shape", "factor"), [((128, 128), 0.5), ((512, 512), 2.0), ((128, 512), 1.0)])
def test_lengths_are_scaled_with_the_image(shape, factor):
    mask = disc(30 * factor, (shape[0] / 2, shape[1] / 2), shape)
    noisy = ContourEvolution(20, 0)(mask)
    assert math.sqrt(noisy.sum() / math.pi) == pytest.approx(50 * factor, abs=0.4)
    clipped = ContourEvolution(200, 0)(mask)
    assert math.sqrt(clipped.sum() / math.pi) == pytest.approx(60 * factor, abs=0.4)


def test_the_smallest_object_is_scaled_as_an_area():
    mask = np.zeros((512, 512), np.uint8)
    mask[100:106, 100:109] = 1  # 54 pixels, of 60 that are too few at twice the reference size
    np.testing.assert_array_equal(ContourEvolution(-20, 0)(mask), mask)
    mask[100:106, 100:111] = 1
    assert ContourEvolution(-20, 0)(mask).sum() == 0


# Several objects, labels, slices


def test_objects_move_by_themselves_and_merge():
    left, right = disc(20, (100, 60)), disc(20, (100, 110))
    noisy = constant(8)(left + right)
    np.testing.assert_array_equal(noisy, constant(8)(left) | constant(8)(right))
    assert ndimage.label(noisy)[1] == 1


def test_objects_that_touch_at_a_corner_are_one():
    mask = np.zeros((60, 60), np.uint8)
    mask[10:30, 10:30] = 1
    mask[30:50, 30:50] = 1
    assert len(ContourEvolution(0, 5).make_params(mask).coefficients) == 1
    noisy = constant(4)(mask)
    for square in (slice(10, 30), slice(30, 50)):
        alone = np.zeros_like(mask)
        alone[square, square] = 1
        assert (noisy[constant(3)(alone) == 1] == 1).all()


def test_labels_move_by_themselves_and_the_larger_value_covers():
    first, second = disc(30, (100, 80)), disc(30, (100, 145))
    noisy = constant(10)(first + 2 * second)
    expected = np.where(constant(10)(second) == 1, 2, constant(10)(first))
    np.testing.assert_array_equal(noisy, expected)
    confused = constant(10)(2 * first + second)
    assert (confused == 2).sum() == constant(10)(first).sum()


def test_a_binary_mask_may_have_any_value():
    mask = disc(40)
    evolution = ContourEvolution(5, 5)
    expected = evolution.set_random_state(1)(mask)
    np.testing.assert_array_equal(evolution.set_random_state(1)(mask * np.uint8(255)), expected * 255)


def test_a_volume_is_its_slices_along_the_last_axis():
    planes = [disc(12 * number, (60, 90), (120, 160)) for number in range(5)]
    planes[3][:, 100:] *= 2
    volume = np.stack(planes, axis=-1)
    evolution = ContourEvolution(4, 6)
    evolved = evolution.set_random_state(4)(volume)
    evolution.set_random_state(4)
    np.testing.assert_array_equal(evolved, np.stack([evolution(plane) for plane in planes], axis=-1))


# Replay, types, errors


def test_a_corruption_is_replayed_from_its_log():
    mask = np.stack([disc(50) + 2 * disc(20), disc(70) - disc(30)], axis=-1)
    evolution = ContourEvolution(-6, 8).set_random_state(11)
    params = evolution.make_params(mask)
    noisy = evolution.apply_transform(mask, params)
    log = json.dumps(params.to_dict())
    restored = ContourEvolutionParams.from_dict(json.loads(log))
    np.testing.assert_array_equal(ContourEvolution(0, 0).apply_transform(mask, restored), noisy)
    np.testing.assert_array_equal(evolution.set_random_state(11)(mask), noisy)
    assert (evolution(mask) != noisy).any()


def test_params_of_an_empty_mask_are_logged_too():
    params = ContourEvolution(-6, 8).make_params(np.zeros((20, 20), np.uint8))
    restored = ContourEvolutionParams.from_dict(json.loads(json.dumps(params.to_dict())))
    assert restored.coefficients.shape == (0, 11)
    assert restored.mask_shape == (20, 20)


def test_params_of_another_mask_are_refused():
    evolution = ContourEvolution(0, 5)
    params = evolution.make_params(disc(40))
    with pytest.raises(ValueError, match=r"expected the shape \(256, 256\) with 1 contours, found \(256, 200\)"):
        evolution.apply_transform(disc(40)[:, :200], params)
    with pytest.raises(ValueError, match="with 2 contours"):
        evolution.apply_transform(disc(40) - disc(20), params)


def test_the_clean_mask_is_kept():
    mask = disc(40)
    before = mask.copy()
    ContourEvolution(5, 5)(mask)
    np.testing.assert_array_equal(mask, before)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.float32])
def test_tensors_keep_their_dtype(dtype):
    mask = disc(40)
    evolution = ContourEvolution(5, 5)
    noisy = evolution.set_random_state(0)(torch.from_numpy(mask).to(dtype))
    assert noisy.dtype == dtype
    np.testing.assert_array_equal(noisy.numpy(), evolution.set_random_state(0)(mask))


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.float64])
def test_arrays_keep_their_dtype(dtype):
    assert ContourEvolution(5, 5)(disc(40).astype(dtype)).dtype == dtype


def test_metadata_is_kept():
    affine = torch.diag(torch.tensor([2.0, 2.0, 3.0, 1.0], dtype=torch.float64))
    noisy = ContourEvolution(5, 5)(MetaTensor(torch.from_numpy(disc(40)), affine=affine))
    assert isinstance(noisy, MetaTensor)
    assert torch.equal(noisy.affine, affine)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros(5), r"found \(5,\)"),
        (np.zeros((1, 4, 4, 4)), r"found \(1, 4, 4, 4\)"),
        (np.full((4, 4), 0.5), r"such as 0\.5"),
        (np.full((4, 4), -1), "such as -1"),
        (np.full((4, 4), np.nan), "such as nan"),
        (np.full((4, 4), "a"), "dtype"),
    ],
)
def test_what_is_no_mask_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        ContourEvolution(0, 5)(mask)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mean": math.nan, "spread": 1}, "mean=nan"),
        ({"mean": 0, "spread": -1}, "spread=-1"),
        ({"mean": 0, "spread": 1, "max_displacement": math.inf}, "max_displacement=inf"),
        ({"mean": 0, "spread": 1, "smallest_object": -1}, "smallest_object=-1"),
        ({"mean": 0, "spread": 1, "reference_size": 0}, "reference_size=0"),
    ],
)
def test_lengths_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ContourEvolution(**arguments)


# The dictionary version


@pytest.mark.parametrize("shape", [(60, 80), (1, 60, 80), (60, 80, 3), (1, 60, 80, 3)])
def test_the_dictionary_version_takes_a_channel(shape):
    plane = disc(20, (30, 40), (60, 80))
    bare = plane if shape[-1] == 80 else np.stack([plane] * 3, axis=-1)
    evolution = ContourEvolutiond("label", 10, 5).set_random_state(3)
    result = evolution({"label": bare.reshape(shape), "image": "untouched"})
    expected = ContourEvolution(10, 5).set_random_state(3)(bare)
    np.testing.assert_array_equal(result["label"], expected.reshape(shape))
    assert result["image"] == "untouched"


def test_every_key_gets_noise_of_its_own_and_a_seeded_composition_repeats_it():
    data = {"first": disc(40)[None], "second": disc(40)[None]}
    composition = Compose([ContourEvolutiond(["first", "second"], 0, 8)])
    once = composition.set_random_state(seed=9)(data)
    again = composition.set_random_state(seed=9)(data)
    assert (once["first"] != once["second"]).any()
    np.testing.assert_array_equal(once["first"], again["first"])
    np.testing.assert_array_equal(once["second"], again["second"])


def test_several_channels_are_refused_by_key():
    with pytest.raises(ValueError, match=r"'label'.*found the shape \(2, 8, 8, 3\)"):
        ContourEvolutiond("label", 0, 5)({"label": np.zeros((2, 8, 8, 3))})


def test_a_missing_key_may_be_passed_over():
    assert ContourEvolutiond("label", 0, 5, allow_missing_keys=True)({"image": 1}) == {"image": 1}
