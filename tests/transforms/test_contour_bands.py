import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedannot.transforms.contour_bands import contour_bands

masks = st.one_of(
    hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9)),
    hnp.arrays(bool, hnp.array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=5)),
)
# Multiples of 1/8, so that distances which are equal are equal in every bit in both computations.
steps = st.integers(2, 24).map(lambda eighths: eighths / 8)


def brute_force_bands(mask, spacing):
    """The bands from all pairs of pixels."""
    pixels = np.argwhere(np.ones_like(mask)) * np.asarray(spacing)
    inside = mask.ravel()
    distances = np.sqrt(((pixels[:, None] - pixels[None]) ** 2).sum(axis=2))
    depth = distances[inside][:, ~inside].min(axis=1)
    away = distances[~inside][:, inside].min(axis=1)
    width = min(depth.max(), away.max()) + 1e-9
    inner, outer = np.zeros(mask.size, bool), np.zeros(mask.size, bool)
    inner[np.flatnonzero(inside)[depth <= width]] = True
    outer[np.flatnonzero(~inside)[away <= width]] = True
    return inner.reshape(mask.shape), outer.reshape(mask.shape)


@settings(deadline=None, max_examples=300)
@given(masks, st.data())
def test_bands_equal_those_from_all_pairs_of_pixels(mask, data):
    spacing = data.draw(st.one_of(st.none(), st.tuples(*[steps] * mask.ndim)))
    inner, outer = contour_bands(mask, spacing)
    if mask.all() or not mask.any():
        assert not inner.any()
        assert not outer.any()
        return
    expected_inner, expected_outer = brute_force_bands(mask, spacing or (1,) * mask.ndim)
    np.testing.assert_array_equal(inner, expected_inner)
    np.testing.assert_array_equal(outer, expected_outer)


@settings(deadline=None)
@given(masks)
def test_the_bands_of_the_complement_are_confused(mask):
    inner, outer = contour_bands(mask)
    swapped_outer, swapped_inner = contour_bands(~mask)
    np.testing.assert_array_equal(inner, swapped_inner)
    np.testing.assert_array_equal(outer, swapped_outer)


def test_a_square_in_a_large_image_by_hand():
    # A 3×3 square: depths 1 at its rim, 2 in the middle, so d = 2. Outside, everything within 2 pixels: the square
    # grown to 7×7 less its corners, of which only (2, 2) → distance 2.83 and (1, 2), (2, 1) → 2.24 are too far.
    mask = np.zeros((11, 11), dtype=np.uint8)
    mask[4:7, 4:7] = 1
    inner, outer = contour_bands(mask)
    np.testing.assert_array_equal(inner, mask == 1)
    expected = np.zeros((11, 11), dtype=bool)
    expected[2:9, 2:9] = True
    for row, column in itertools.product((2, 3, 7, 8), (2, 3, 7, 8)):
        expected[row, column] = (row in (3, 7)) and (column in (3, 7))
    expected[4:7, 4:7] = False
    np.testing.assert_array_equal(outer, expected)


def test_the_smaller_side_decides_the_width():
    # A 1D edge: 7 columns inside, 3 outside, so d = 3 and the band is three columns on each side.
    mask = np.zeros((4, 10), dtype=bool)
    mask[:, :7] = True
    inner, outer = contour_bands(mask)
    assert inner.all(axis=0).tolist() == [False] * 4 + [True] * 3 + [False] * 3
    assert outer.all(axis=0).tolist() == [False] * 7 + [True] * 3


def test_spacing_makes_the_band_thinner_along_the_coarse_axis():
    # One pixel of 1 × 4 mm: d = 1 mm, so only the neighbours along the fine axis lie in the outer band.
    mask = np.zeros((7, 7), dtype=bool)
    mask[3, 3] = True
    inner, outer = contour_bands(mask, spacing=(1.0, 4.0))
    assert np.argwhere(inner).tolist() == [[3, 3]]
    assert np.argwhere(outer).tolist() == [[2, 3], [4, 3]]


@pytest.mark.parametrize("shape", [(6, 5), (4, 5, 6)])
@pytest.mark.parametrize("value", [0, 1])
def test_an_empty_or_full_mask_has_no_bands(shape, value):
    inner, outer = contour_bands(np.full(shape, value))
    assert inner.shape == outer.shape == shape
    assert not inner.any()
    assert not outer.any()


def test_the_mask_is_not_changed_and_bands_lie_on_their_own_side():
    mask = np.random.default_rng(0).random((40, 30)) > 0.6
    before = mask.copy()
    inner, outer = contour_bands(mask)
    np.testing.assert_array_equal(mask, before)
    assert not (inner & ~mask).any()
    assert not (outer & mask).any()


def test_errors_show_what_was_found():
    with pytest.raises(ValueError, match=r"found \(4,\)"):
        contour_bands(np.ones(4))
    with pytest.raises(ValueError, match=r"2 positive numbers.*found \(1\.0, 1\.0, 1\.0\)"):
        contour_bands(np.ones((4, 4)), spacing=(1, 1, 1))
    with pytest.raises(ValueError, match=r"found \(1\.0, 0\.0\)"):
        contour_bands(np.ones((4, 4)), spacing=(1, 0))
