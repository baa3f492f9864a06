"""Moved contours: discs and balls of known radii, objects that stay objects, classes that share a border."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import ndimage

from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.ignored_label import IGNORED_LABEL
from fedannot.transforms.move_contour import MoveContour, MoveContourd, MoveContourParams


def disc(radius, centre=(32.0, 32.0), shape=(64, 64)):
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return (np.hypot(rows - centre[0], columns - centre[1]) <= radius).astype(np.uint8)


@pytest.mark.parametrize("distance", [-5.5, -3.3, -1.0, 1.0, 3.3, 5.5])
@pytest.mark.parametrize("radius", [8, 15])
def test_a_disc_gets_the_radius_that_is_asked_for(radius, distance):
    generator = np.random.default_rng(100)
    errors = []
    for _ in range(30):
        drawn = radius + generator.uniform(-0.5, 0.5)
        moved = MoveContour(distance)(disc(drawn, generator.uniform(30, 34, 2)))
        errors.append(math.sqrt(moved.sum() / math.pi) - drawn - distance)
    assert abs(np.mean(errors)) < 0.12


@pytest.mark.parametrize("distance", [-4.0, 4.0])
def test_a_ball_gets_the_radius_in_millimetres(distance):
    spacing = (1.0, 1.0, 2.0)
    axes = np.meshgrid(*(np.arange(n) * s for n, s in zip((48, 48, 24), spacing, strict=True)), indexing="ij")
    ball = np.sqrt(sum((axis - 23.4) ** 2 for axis in axes)) <= 14
    moved = MoveContour(distance)(ball.astype(np.uint8), spacing)
    radius = (moved.sum() * 2.0 * 3 / 4 / math.pi) ** (1 / 3)
    assert radius == pytest.approx(14 + distance, abs=0.2)


def test_a_square_moves_by_whole_pixels_as_worked_by_hand():
    mask = np.zeros((20, 20), dtype=np.uint8)
    mask[5:15, 5:15] = 1
    smaller = np.zeros_like(mask)
    smaller[7:13, 7:13] = 1
    assert np.array_equal(MoveContour(-2.0)(mask), smaller)
    grown = MoveContour(2.0)(mask)
    assert grown[3:17, 5:15].all()
    assert grown[5:15, 3:17].all()
    # Its corners are rounded.
    assert grown[3, 3] == 0
    assert grown[2].sum() == 0


def blobs(seed):
    generator = np.random.default_rng(seed)
    field = ndimage.gaussian_filter(generator.standard_normal((40, 40)), 2.5, mode="wrap")
    return (field > np.quantile(field, 0.7)).astype(np.uint8)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), distance=st.floats(-15, 15))
def test_the_number_of_objects_stays(seed, distance):
    mask = blobs(seed)
    assert label_lesions(MoveContour(distance)(mask))[1] == label_lesions(mask)[1]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), distance=st.floats(-8, 8))
@example(seed=2441, distance=1.0).via("a single voxel beside a larger object")
def test_the_number_of_objects_stays_in_volumes(seed, distance):
    generator = np.random.default_rng(seed)
    field = ndimage.gaussian_filter(generator.standard_normal((16, 16, 8)), 1.5, mode="wrap")
    mask = (field > np.quantile(field, 0.8)).astype(np.uint8)
    moved = MoveContour(distance)(mask, (1.0, 1.0, 3.0))
    assert label_lesions(moved)[1] == label_lesions(mask)[1]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), distance=st.floats(0, 10))
def test_growing_keeps_every_pixel_and_shrinking_takes_none(seed, distance):
    mask = blobs(seed)
    assert (MoveContour(distance)(mask) >= mask).all()
    assert (MoveContour(-distance)(mask) <= mask).all()


@pytest.mark.parametrize("distance", [1.0, 3.0, 10.0])
def test_objects_one_pixel_apart_do_not_merge(distance):
    mask = np.zeros((30, 41), dtype=np.uint8)
    mask[8:22, 6:20] = mask[8:22, 21:35] = 1
    moved = MoveContour(distance)(mask)
    assert label_lesions(moved)[1] == 2
    assert moved[:, 20].sum() == 0
    assert moved[:, 19].sum() >= 14


def test_an_object_does_not_vanish():
    moved = MoveContour(-20.0)(disc(5))
    assert moved.sum() == 1
    assert moved[32, 32] == 1


def test_a_narrow_bridge_keeps_an_object_one_piece():
    mask = np.zeros((30, 50), dtype=np.uint8)
    mask[8:22, 4:18] = mask[8:22, 32:46] = 1
    mask[14:17, 18:32] = 1
    moved = MoveContour(-3.0)(mask)
    assert label_lesions(moved)[1] == 1
    # The path runs along the middle of the bridge, one pixel wide.
    assert moved[15, 18:32].all()
    assert moved[:, 25].sum() == 1


@pytest.mark.parametrize("distance", [1.5, 3.0])
def test_out_and_in_again_gives_the_mask_within_a_pixel(distance):
    mask = disc(12, (31.3, 32.8))
    there_and_back = MoveContour(-distance)(MoveContour(distance)(mask))
    changed = there_and_back != mask
    depth = ndimage.distance_transform_edt(mask) + ndimage.distance_transform_edt(1 - mask)
    assert depth[changed].max(initial=0.0) <= 1.0
    assert changed.sum() < 0.1 * mask.sum()


def test_a_cut_by_the_border_of_the_image_stays():
    mask = np.zeros((20, 20), dtype=np.uint8)
    mask[:10, 5:15] = 1
    moved = MoveContour(-2.0)(mask)
    expected = np.zeros_like(mask)
    expected[:8, 7:13] = 1
    assert np.array_equal(moved, expected)


def two_classes():
    mask = np.zeros((30, 40), dtype=np.uint8)
    mask[8:22, 5:20], mask[8:22, 20:35] = 1, 2
    return mask


@pytest.mark.parametrize("distance", [-2.0, 2.0])
def test_a_border_shared_by_two_classes_stays_where_both_move_alike(distance):
    moved = MoveContour(distance)(two_classes())
    assert (moved[12:18, 19] == 1).all()
    assert (moved[12:18, 20] == 2).all()
    assert (moved != 0).sum() != (two_classes() != 0).sum()


def test_a_shared_border_moves_where_one_class_gains_what_the_other_loses():
    moved = MoveContour({1: -3.0, 2: 3.0})(two_classes())
    assert (moved[12:18, 17:] != 1).all()
    assert (moved[14, 17:38] == 2).all()
    assert (moved[14, 8:17] == 1).all()


def test_classes_that_are_not_named_stay():
    mask = np.zeros((30, 60), dtype=np.uint8)
    mask[8:22, 5:20], mask[8:22, 35:50] = 1, 2
    moved = MoveContour({1: -2.0})(mask)
    assert np.array_equal(moved == 2, mask == 2)
    assert (moved == 1).sum() == 10 * 11


def test_ignored_pixels_stay_ignored():
    mask = disc(8)
    mask[2:5, 2:5] = IGNORED_LABEL
    mask[32, 43] = IGNORED_LABEL
    moved = MoveContour(5.0)(mask)
    assert (moved == IGNORED_LABEL).sum() == 10
    assert moved[32, 43] == IGNORED_LABEL


def test_no_distance_changes_nothing_and_the_input_is_kept():
    mask = blobs(100)
    kept = mask.copy()
    assert np.array_equal(MoveContour(0.0)(mask), mask)
    MoveContour(-2.0)(mask)
    assert np.array_equal(mask, kept)


def test_type_dtype_and_channel_are_kept():
    mask = torch.from_numpy(disc(8).astype(np.int64))[None]
    moved = MoveContourd("label", -2.0)({"label": mask})["label"]
    assert moved.shape == (1, 64, 64)
    assert moved.dtype == torch.int64
    assert np.array_equal(moved[0].numpy(), MoveContour(-2.0)(disc(8)))


def test_the_dictionary_version_takes_the_spacing():
    mask = np.zeros((20, 20), dtype=np.uint8)
    mask[5:15, 5:15] = 1
    moved = MoveContourd("label", -2.0, spacing_key="spacing")({"label": mask, "spacing": (2.0, 2.0)})["label"]
    assert np.array_equal(moved, MoveContour(-1.0)(mask))


def test_parameters_survive_json():
    params = MoveContour({1: -1.25, 2: 3.0}).make_params(two_classes())
    assert MoveContourParams.from_dict(params.to_dict()) == params


def test_a_distance_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite distances"):
        MoveContour(math.nan)
