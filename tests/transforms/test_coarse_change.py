"""Changes on a coarse grid, completed in the mask's own pixels: hand cases."""

import numpy as np
import pytest
from scipy import ndimage

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


def by_definition(given, seen, after, place):
    """The documented rule pixel by pixel over the whole grid, and where two colours are equally near both."""
    result = np.where(place, after, given)
    allowed = [{value} for value in result.ravel().tolist()]
    corners = np.ones((3,) * given.ndim, bool)
    changes, indices = np.argwhere(place), np.arange(given.size).reshape(given.shape)
    for label in set(np.unique(given)) - {0, 255}:
        objects, count = ndimage.label(given == label, corners)
        changed = [number for number in range(1, count + 1) if (place & (objects == number)).any()]
        parts, count = ndimage.label(np.isin(objects, changed) & (result == label) & ~place, corners)
        for number in range(1, count + 1):
            part = parts == number
            beside = ndimage.binary_dilation(part) & place & (result == label)
            if (part & (seen == label)).any() or beside.any():
                continue
            for pixel in np.argwhere(part):
                far = ((changes - pixel) ** 2).sum(1)
                nearest = tuple(changes[far == far.min()].T)
                allowed[indices[tuple(pixel)]] = set(result[nearest].tolist())
    return allowed


@pytest.mark.parametrize("axes", [2, 3])
def test_the_change_is_that_of_its_definition(axes):
    """Also where objects reach beyond the change, and at the ends of the grid."""
    generator, num_completed = np.random.default_rng(axes), 0
    for _ in range(60):
        shape = tuple(generator.integers(5, 16, axes))
        smooth = ndimage.gaussian_filter(generator.normal(size=(2, *shape)), (0, *(1.2,) * axes))
        given = np.where(smooth[0] > 0.05, 1 + (smooth[1] > 0), 0).astype(np.uint8)
        given[generator.random(shape) < 0.02] = 255
        seen = given[np.ix_(*(np.minimum(np.arange(length) // 3 * 3 + 1, length - 1) for length in shape))]
        after = seen.copy()
        box = tuple(slice(*sorted(generator.integers(0, length + 1, 2))) for length in shape)
        after[box] = generator.integers(0, 3)
        result = completed_change(given, seen, after, seen != after)
        allowed = by_definition(given, seen, after, seen != after)
        assert all(value in own for value, own in zip(result.ravel().tolist(), allowed, strict=True))
        num_completed += not np.array_equal(result, np.where(seen != after, after, given))
    assert num_completed > 5
