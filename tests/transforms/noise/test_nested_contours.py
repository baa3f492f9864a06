import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from fedannot.transforms.noise.contour_evolution import ContourEvolution, ContourEvolutionParams
from fedannot.transforms.noise.nested_contours import mask_contours, outermost_first

EIGHT_NEIGHBOURS = np.ones((3, 3))


def disc(radius, center=(128.0, 128.0), shape=(256, 256)):
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return np.hypot(rows - center[0], columns - center[1]) <= radius


def constant(displacement, **options):
    """Every contour moves by exactly this many pixels of the mask."""
    return ContourEvolution(displacement, 0, reference_size=None, **options)


def cell(*, cytoplasm=1, nucleus=2):
    """A white blood cell: a disc of cytoplasm with a nucleus of three lobes, one of them three pixels from the edge."""
    mask = np.where(disc(75), cytoplasm, 0).astype(np.uint8)
    for center in ((100, 115), (130, 175), (155, 120)):
        mask[disc(25, center)] = nucleus
    return mask


def tumour():
    """Oedema (2) around an enhancing rim (4) around a core (1), as a well-known challenge numbers them."""
    mask = np.where(disc(80), 2, 0).astype(np.uint8)
    mask[disc(55, (122, 130))] = 4
    mask[disc(35, (120, 134))] = 1
    return mask


def halves(shape=(120, 200)):
    """A rectangle of which the left half has the label 1 and the right one 2."""
    mask = np.zeros(shape, np.uint8)
    mask[40:80, 40:100] = 1
    mask[40:80, 100:160] = 2
    return mask


# Which class is the outer one


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (cell(), [1, 2]),
        (cell(cytoplasm=2, nucleus=1), [2, 1]),
        (tumour(), [2, 4, 1]),
        (halves(), [1, 2]),
        (disc(9) * np.uint8(255), [255]),
        (np.zeros((4, 4)), []),
        (np.full((4, 4), 3), [3]),
    ],
    ids=["cell", "cell with the values confused", "tumour", "side by side", "one class", "empty", "full"],
)
def test_the_outer_class_comes_first(mask, expected):
    assert outermost_first(mask[..., None]) == expected


def test_the_order_is_the_same_in_all_slices_of_a_volume():
    # By itself the second slice, in which the core (1) faces the background for more than half, would begin with 1.
    crescent = np.where(disc(50), 1, 0).astype(np.uint8)
    crescent[disc(50, (128, 110)) & (crescent == 0)] = 2
    assert outermost_first(crescent[..., None]) == [1, 2]
    volume = np.stack([tumour(), crescent, tumour()], axis=-1)
    contours = mask_contours(volume, reach=30)
    assert contours.labels == (2, 4, 1)
    assert [structure.labels for structure in contours.structures] == [(2, 4, 1), (2, 1), (2, 4, 1)]


# Nested classes


@pytest.mark.parametrize("displacement", [-12.0, -5.0, 4.0, 11.0])
def test_concentric_discs_move_by_the_displacement_and_leave_no_gap(displacement):
    mask = disc(70).astype(int) + disc(45) + disc(20)
    noisy = constant(displacement)(mask)
    for label, radius in ((1, 70), (2, 45), (3, 20)):
        assert math.sqrt((noisy >= label).sum() / math.pi) == pytest.approx(radius + displacement, abs=0.5)


@pytest.mark.parametrize("mask", [cell(), cell(cytoplasm=2, nucleus=1), tumour()], ids=["cell", "swapped", "tumour"])
@pytest.mark.parametrize(("mean", "spread"), [(0, 8), (10, 5), (-10, 5), (20, 9), (-20, 9)])
def test_an_inner_class_touches_nothing_but_the_one_around_it(mask, mean, spread):
    order = outermost_first(mask[..., None])
    for seed in range(5):
        noisy = ContourEvolution(mean, spread).set_random_state(seed)(mask)
        assert ndimage.label(np.pad(noisy == 0, 1))[1] == 1
        for position in range(1, len(order)):
            around = ndimage.binary_dilation(np.isin(noisy, order[position:]), EIGHT_NEIGHBOURS)
            assert not (around & np.isin(noisy, [0, *order[: position - 1]])).any()


@pytest.mark.parametrize(("mean", "spread"), [(0, 8), (10, 5), (-10, 5), (20, 9), (-20, 9)])
def test_cytoplasm_stays_in_one_piece(mean, spread):
    mask = disc(60).astype(np.uint8) + disc(50, (133, 130))
    for seed in range(10):
        noisy = ContourEvolution(mean, spread).set_random_state(seed)(mask)
        assert ndimage.label(noisy == 1, EIGHT_NEIGHBOURS)[1] == 1
        assert ndimage.label(noisy == 2, EIGHT_NEIGHBOURS)[1] == 1


@pytest.mark.parametrize("mask", [cell(), tumour(), halves()], ids=["cell", "tumour", "side by side"])
def test_the_outline_moves_as_that_of_one_class(mask):
    for seed in range(5):
        noisy = ContourEvolution(6, 8).set_random_state(seed)(mask)
        together = ContourEvolution(6, 8).set_random_state(seed)((mask != 0).astype(np.uint8))
        np.testing.assert_array_equal(noisy != 0, together != 0)


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(1, 24), st.integers(1, 24)), elements=st.integers(0, 3)),
    st.sampled_from([-11.1, -4.9, -1.35, 1.35, 2.9, 6.6]),
)
def test_no_gap_opens_in_any_mask(mask, displacement):
    noisy = constant(displacement, smallest_object=0)(mask)
    together = constant(displacement, smallest_object=0)((mask != 0).astype(np.uint8))
    np.testing.assert_array_equal(noisy != 0, together != 0)


def test_the_outer_class_keeps_a_ring_where_the_inner_contour_lies_outside_the_moved_outline():
    mask = disc(40).astype(np.uint8) + disc(37)
    params = ContourEvolution(-8, 0, reference_size=None).make_params(mask)
    # The outline moves to 32, the inner contour stays at 37.
    params.coefficients[params.label == 2] = 0
    noisy = constant(0).apply_transform(mask, params)
    np.testing.assert_array_equal(noisy != 0, constant(-8)(mask != 0))
    ring = noisy == 1
    assert ndimage.label(ring, EIGHT_NEIGHBOURS)[1] == 1
    np.testing.assert_array_equal(noisy == 2, ndimage.binary_erosion(noisy != 0, EIGHT_NEIGHBOURS))


def test_an_inner_class_reaches_the_moved_outline_where_it_reached_the_drawn_one():
    mask = np.zeros((100, 100), np.uint8)
    mask[20:80, 20:80] = 1
    mask[40:60, 20:50] = 2
    for displacement in (-5, 5):
        noisy = constant(displacement)(mask)
        first = 20 - displacement
        assert noisy[50, first : 50 + displacement].tolist() == [2] * (30 + 2 * displacement)
        assert (noisy[50, :first] == 0).all()
        assert noisy[50, 50 + displacement] == 1


# Classes side by side


@pytest.mark.parametrize("displacement", [-8, 8])
def test_of_classes_side_by_side_the_larger_value_s_contour_moves(displacement):
    noisy = constant(displacement)(halves())
    middle = noisy[60]
    border = 100 - displacement
    first, last = 40 - displacement, 160 + displacement
    np.testing.assert_array_equal(middle[first:border], 1)
    np.testing.assert_array_equal(middle[border:last], 2)
    assert not middle[:first].any()
    assert not middle[last:].any()
    # No rim of the other class anywhere: the border is the same from the top to the bottom.
    rows = np.flatnonzero((noisy == 2).any(axis=1))
    assert {int(np.flatnonzero(noisy[row] == 2)[0]) for row in rows[3:-3]} == {border}


def test_a_class_that_touches_nothing_moves_as_if_it_were_alone():
    mask = halves((200, 260))
    mask[disc(20, (150, 200), mask.shape)] = 3
    alone = np.where(mask == 3, 3, 0)
    for displacement in (-6, 6):
        noisy = constant(displacement)(mask)
        np.testing.assert_array_equal(noisy == 3, constant(displacement)(alone) == 3)


def test_where_cells_grow_into_each_other_nuclei_cover_cytoplasm():
    left, right = disc(30, (100, 80)), disc(30, (100, 145))
    nuclei = disc(22, (100, 80)), disc(22, (100, 145))
    mask = np.where(left | right, 2, 0)
    mask[nuclei[0] | nuclei[1]] = 1
    noisy = constant(15)(mask)
    expected = [
        constant(15)(np.where(one, 2, 0) - np.where(nucleus, 1, 0))
        for one, nucleus in zip((left, right), nuclei, strict=True)
    ]
    np.testing.assert_array_equal(noisy == 1, (expected[0] == 1) | (expected[1] == 1))


# Replay


def test_nested_noise_is_replayed_from_its_log():
    volume = np.stack([cell(), tumour()[::-1], np.zeros_like(cell()), halves((256, 256))], axis=-1)
    evolution = ContourEvolution(-6, 8).set_random_state(11)
    params = evolution.make_params(volume)
    restored = ContourEvolutionParams.from_dict(json.loads(json.dumps(params.to_dict())))
    noisy = ContourEvolution(0, 0).apply_transform(volume, restored)
    np.testing.assert_array_equal(evolution.set_random_state(11)(volume), noisy)
    assert (noisy != volume).any()
    assert not noisy[..., 2].any()


def test_a_contour_too_small_to_move_is_measured_by_its_clean_pixels():
    mask = halves()
    mask[58:61, 99:101] = 3
    # Of the speck between both classes 6 pixels are drawn, below the smallest, 15 at the reference size.
    params = ContourEvolution(9, 5, reference_size=None).set_random_state(0).make_params(mask)
    still = ~params.coefficients.any(axis=1)
    assert params.label[still].tolist() == [3]
