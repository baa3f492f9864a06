"""Annotations moved as a whole: against interpolation by hand, SciPy's shift, drawn discs and balls, there and back."""

import numpy as np
import pytest
from scipy import ndimage

from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.ignored_label import IGNORED_LABEL
from fedannot.transforms.shift_mask import shifted_mask


def ball(shape, centre, radius, spacing=None):
    steps = np.ones(len(shape)) if spacing is None else np.asarray(spacing)
    grid = np.indices(shape)
    away = sum(((axis - middle) * step) ** 2 for axis, middle, step in zip(grid, centre, steps, strict=True))
    return (np.sqrt(away) <= radius).astype(np.uint8)


def dice(first, second):
    return 2 * np.count_nonzero(first & second) / (np.count_nonzero(first) + np.count_nonzero(second))


@pytest.mark.parametrize("vector", [(2, -1), (-3, 4), (0, 0), (2, -1, 3)])
def test_whole_pixels_move_as_in_scipy(vector):
    annotation = np.zeros((16, 17, 18)[: len(vector)], np.uint8)
    inner = tuple(slice(6, -6) for _ in vector)
    annotation[inner] = np.random.default_rng(0).integers(0, 4, annotation[inner].shape)

    moved = shifted_mask(annotation, vector)

    np.testing.assert_array_equal(moved, ndimage.shift(annotation, vector, order=0))
    np.testing.assert_array_equal(shifted_mask(moved, [-length for length in vector]), annotation)


def by_hand(mask, fraction):
    """The pixels with the largest sums of a Gaussian over all pixels of the object, one by one."""
    own = np.argwhere(mask)
    sums = np.zeros(mask.shape)
    for pixel in np.ndindex(mask.shape):
        away = np.abs(own - pixel)
        near = (away <= 4).all(axis=1)
        sums[pixel] = np.exp(-0.5 * ((np.subtract(pixel, fraction) - own[near]) ** 2).sum(axis=1)).sum()
    return sums >= np.sort(sums, axis=None)[-len(own)]


@pytest.mark.parametrize("fraction", [(0.3, -0.2), (0.25, 0.45), (0.4, 0.1, -0.3)])
def test_fractions_take_the_pixels_with_the_largest_sums(fraction):
    shape = (16, 17, 18)[: len(fraction)]
    annotation = ball(shape, np.array(shape) / 2, 4.2) | ball(shape, np.array(shape) / 2 + 2, 2.9)

    moved = shifted_mask(annotation, np.add(fraction, 1))

    np.testing.assert_array_equal(moved, ndimage.shift(by_hand(annotation, fraction).astype(np.uint8), 1, order=0))


def test_classes_move_together():
    annotation = ball((40, 40), (20, 20), 9.0)
    annotation[(annotation == 1) & (np.arange(40) > 21)] = 2
    annotation[20, 16] = 3
    annotation[3:6, 30:34] = 2

    moved = shifted_mask(annotation, (1.4, -0.7))

    for label in (1, 2, 3):
        assert np.count_nonzero(moved == label) == pytest.approx(np.count_nonzero(annotation == label), abs=4)
        travelled = np.subtract(*(ndimage.center_of_mass(mask == label) for mask in (moved, annotation)))
        # One pixel alone moves by whole ones.
        np.testing.assert_allclose(travelled, (1.4, -0.7) if label < 3 else (1, -1), atol=0.25)
    assert np.count_nonzero(moved) == np.count_nonzero(annotation)
    assert label_lesions(moved != 0)[1] == 2


@pytest.mark.parametrize(
    ("shape", "spacing", "vector"),
    [
        ((48, 48), None, (2.0, -1.5)),
        ((48, 48), None, (0.35, 0.7)),
        ((48, 40), (1.0, 0.5), (1.4, -0.85)),
        # A coarse axis.
        ((30, 30, 20), (1.0, 1.0, 2.5), (0.6, -1.3, 1.4)),
    ],
)
def test_a_drawn_ball_comes_to_lie_where_it_is_drawn(shape, spacing, vector):
    steps = np.ones(len(shape)) if spacing is None else np.asarray(spacing)
    centre = np.array(shape) / 2 + 0.2
    given = ball(shape, centre, 8.3, spacing)

    moved = shifted_mask(given, vector, spacing)

    expected = ball(shape, centre + vector / steps, 8.3, spacing)
    travelled = np.subtract(ndimage.center_of_mass(moved), ndimage.center_of_mass(given)) * steps
    np.testing.assert_allclose(travelled, vector, atol=0.15)
    assert dice(moved, expected) > 0.95
    assert dice(moved, expected) > dice(given, expected)
    assert moved.sum() == given.sum()
    back = shifted_mask(moved, [-length for length in vector], spacing)
    assert dice(back, given) > 0.92


def test_small_and_thin_objects_stay_whole():
    annotation = np.zeros((20, 20), np.uint8)
    annotation[3, 3] = 1
    annotation[np.arange(6, 14), np.arange(6, 14)] = 2

    moved = shifted_mask(annotation, (0.5, -0.4))

    assert [label_lesions(moved == label)[1] for label in (1, 2)] == [1, 1]
    assert moved[4, 3] == 1
    np.testing.assert_array_equal(shifted_mask(annotation * 0 + 3, (0.4, 0.3)), 3)


def test_what_is_ignored_stays_so_and_moves():
    annotation = np.zeros((8, 9), np.uint8)
    annotation[2, 1:3] = 1
    annotation[0, 5] = IGNORED_LABEL

    moved = shifted_mask(annotation, (1, 3))

    expected = np.zeros((8, 9), np.uint8)
    expected[3, 4:6] = 1
    # What comes in above may be the same as below.
    expected[0, 5] = expected[:2, 8] = IGNORED_LABEL
    np.testing.assert_array_equal(moved, expected)


@pytest.mark.parametrize(("fills_border", "comes_in"), [(False, IGNORED_LABEL), (True, 2)])
def test_object_at_the_border_goes_on_outside_in_an_unknown_way(fills_border, comes_in):
    annotation = np.zeros((5, 5), np.uint8)
    annotation[2:4, 0:2] = 2

    moved = shifted_mask(annotation, (0.0, 3.0), spacing=(2.0, 1.5), fills_border=fills_border)

    np.testing.assert_array_equal(moved[2], [comes_in, comes_in, 2, 2, 0])
    np.testing.assert_array_equal(moved[0], 0)


def test_nothing_is_left_of_what_moves_out():
    annotation = ball((16, 16), (8, 8), 3)

    assert not shifted_mask(annotation, (1e9, 0.3)).any()


@pytest.mark.parametrize("vector", [(1.0,), (1.0, np.nan), (1.0, 2.0, 3.0)])
def test_wrong_vectors_are_refused(vector):
    with pytest.raises(ValueError, match="vector of 2 finite numbers"):
        shifted_mask(np.zeros((6, 6), np.uint8), vector)
