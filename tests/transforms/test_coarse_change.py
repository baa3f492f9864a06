"""Changes on a coarse grid, completed in the mask's own pixels: hand cases."""

import numpy as np

from fedannot.transforms.coarse_change import completed_change

STEP = 4


def coarse(mask):
    """What a network sees: the class in the middle of every block, on the mask's own pixels."""
    return np.kron(mask[STEP // 2 :: STEP, STEP // 2 :: STEP], np.ones((STEP, STEP), np.uint8))


def discs():
    rows, columns = np.mgrid[:64, :64]
    return [(rows - row) ** 2 + (columns - column) ** 2 < 110 for row, column in ((20, 20), (46, 45))]


def test_nothing_remains_of_an_object_that_goes_and_others_keep_every_pixel():
    first, second = discs()
    given = (first | second).astype(np.uint8)
    given[2, 60] = 1  # Seen by nobody on the coarse grid.
    seen = coarse(given)
    after = seen.copy()
    after[:34, :34] = 0
    place = seen != after
    assert (np.where(place, after, given)[first]).any()
    expected = given.copy()
    expected[first] = 0
    np.testing.assert_array_equal(completed_change(given, seen, after, place), expected)


def test_an_object_of_another_class_keeps_its_contour():
    first, second = discs()
    given = (first | second).astype(np.uint8)
    seen = coarse(given)
    after = seen.copy()
    after[:34, :34][seen[:34, :34] == 1] = 2
    result = completed_change(given, seen, after, seen != after)
    assert set(np.unique(result[first])) == {2}
    np.testing.assert_array_equal(result == 1, second)


def test_what_touches_an_object_that_stays_is_kept_and_so_is_what_is_ignored():
    first, _ = discs()
    given = first.astype(np.uint8)
    given[40:44] = 255
    seen = coarse(given)
    after = seen.copy()
    after[:20][seen[:20] == 1] = 0
    place = seen != after
    result = completed_change(given, seen, after, place)
    np.testing.assert_array_equal(result[20:], given[20:])
    assert set(np.unique(result[:20])) <= {0, 1}
    np.testing.assert_array_equal(completed_change(given, seen, seen, np.zeros_like(place)), given)
