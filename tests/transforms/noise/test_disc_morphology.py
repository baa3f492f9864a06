"""Morphology with discs against a disc moved over every pixel, and properties of opening and closing."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedannot.transforms.noise.disc_morphology import closed, dilated, eroded, opened

MASKS = hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9))
RADII = st.sampled_from([1.0, 1.3, 1.5, 2.0, 2.4])


def disc(radius):
    reach = range(-int(radius), int(radius) + 1)
    return [(row, column) for row, column in itertools.product(reach, reach) if row**2 + column**2 <= radius**2]


def moved_over(mask, radius, quantifier):
    """all: erosion; any: dilation. Beyond the border the nearest pixel of the image counts."""
    height, width = mask.shape

    def at(row, column):
        return bool(mask[min(max(row, 0), height - 1), min(max(column, 0), width - 1)])

    result = np.zeros_like(mask)
    for row, column in np.ndindex(mask.shape):
        result[row, column] = quantifier(at(row + down, column + right) for down, right in disc(radius))
    return result


def padded(mask, change):
    """Apply something where the border has gone on, and cut the image out again."""
    margin = 6
    return change(np.pad(mask, margin, mode="edge"))[margin:-margin, margin:-margin]


@settings(deadline=None, max_examples=60)
@given(MASKS, RADII)
def test_erosion_and_dilation_are_those_of_a_disc_moved_over_every_pixel(mask, radius):
    assert np.array_equal(eroded(mask, radius), moved_over(mask, radius, all))
    assert np.array_equal(dilated(mask, radius), moved_over(mask, radius, any))


@settings(deadline=None, max_examples=40)
@given(MASKS, RADII)
def test_opening_erodes_then_dilates_and_closing_dilates_then_erodes(mask, radius):
    def erode_then_dilate(whole):
        return moved_over(moved_over(whole, radius, all), radius, any)

    def dilate_then_erode(whole):
        return moved_over(moved_over(whole, radius, any), radius, all)

    assert np.array_equal(opened(mask, radius), padded(mask, erode_then_dilate))
    assert np.array_equal(closed(mask, radius), padded(mask, dilate_then_erode))


@settings(deadline=None, max_examples=60)
@given(MASKS, RADII)
def test_order_and_idempotence(mask, radius):
    inside = np.pad(mask, 8)
    assert np.all(eroded(inside, radius) <= opened(inside, radius))
    assert np.all(opened(inside, radius) <= inside)
    assert np.all(inside <= closed(inside, radius))
    assert np.all(closed(inside, radius) <= dilated(inside, radius))
    assert np.array_equal(opened(opened(inside, radius), radius), opened(inside, radius))
    assert np.array_equal(closed(closed(inside, radius), radius), closed(inside, radius))


@pytest.mark.parametrize("change", [eroded, dilated, opened, closed])
@pytest.mark.parametrize("mask", [np.zeros((5, 4), dtype=bool), np.ones((5, 4), dtype=bool)])
def test_empty_and_full_masks_stay(change, mask):
    assert np.array_equal(change(mask, 3.0), mask)


@pytest.mark.parametrize("change", [eroded, dilated, opened, closed])
def test_a_disc_of_one_pixel_changes_nothing_and_gives_a_copy(change):
    mask = np.eye(6, dtype=bool)
    result = change(mask, 0.9)
    assert np.array_equal(result, mask)
    result[:] = True
    assert not mask.all()


def test_opening_removes_a_vein_and_closing_fills_the_gap_between_two():
    mask = np.zeros((30, 40), dtype=bool)
    mask[5:25, 5:20] = True
    mask[10:12, 20:35] = mask[16:18, 20:35] = True
    without_veins = opened(mask, 3.0)
    assert not without_veins[:, 24:].any()
    assert without_veins[8:22, 8:18].all()
    filled = closed(mask, 3.0)
    assert filled[12:16, 22:33].all()
    assert not filled[:9, 24:].any()
