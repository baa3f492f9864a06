import numpy as np
import pytest
from scipy import ndimage

from fedannot.transforms.phantoms.lesion_phantom import lesion_phantom, reduce_image, reduce_mask, to_grey_levels


def drawn(count: int):
    return [lesion_phantom(np.random.default_rng(seed)) for seed in range(count)]


def test_same_generator_state_gives_the_same_bits():
    first, second = (lesion_phantom(np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert first[0].dtype == np.float32
    assert first[1].dtype == bool
    assert first[0].shape == first[1].shape == (256, 256)


def test_lesion_is_one_object_without_holes_inside_the_frame():
    for _, mask in drawn(30):
        assert ndimage.label(mask)[1] == 1
        assert ndimage.label(~mask)[1] == 1
        rows, columns = np.nonzero(mask)
        assert min(rows.min(), columns.min()) >= 3
        assert max(rows.max(), columns.max()) <= 252


def test_lesion_has_the_size_of_a_disc_of_45_to_75_pixels():
    # Harmonics add (1 + sum a_k^2 / 2) to the disc's area: at most 1.02 for amplitudes up to 0.3 / k.
    radii = [np.sqrt(mask.sum() / np.pi) for _, mask in drawn(60)]
    assert min(radii) > 44.5
    assert max(radii) < 75 * np.sqrt(1.03)
    assert np.mean(radii) == pytest.approx(60, abs=3.5)


def test_contrast_and_background_are_as_stated():
    cases = drawn(40)
    inner = [image[ndimage.binary_erosion(mask, iterations=25)].mean() for image, mask in cases]
    outer = [image[~ndimage.binary_dilation(mask, iterations=25)] for image, mask in cases]
    # Mean contrast 1.25, less what the blur takes; texture 0.45 and noise 0.35 add up to 0.57.
    assert np.mean(inner) - np.mean([values.mean() for values in outer]) == pytest.approx(1.25, abs=0.12)
    assert np.sqrt(np.mean([values.var() for values in outer])) == pytest.approx(np.hypot(0.45, 0.35), abs=0.06)


def test_reduction_by_hand():
    image = np.array([[0, 2, 4, 4], [2, 4, 4, 4]], dtype=np.float32)
    np.testing.assert_array_equal(reduce_image(image, 2), [[2, 4]])
    mask = np.array([[1, 1, 1, 0], [0, 0, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(reduce_mask(mask, 2), [[True, False]])


def test_reduction_refuses_sides_that_do_not_divide():
    with pytest.raises(ValueError, match=r"multiples of factor=3.*\(4, 6\)"):
        reduce_mask(np.zeros((4, 6), dtype=bool), 3)


def test_grey_levels_are_a_fixed_linear_window():
    values = np.array([-9.0, -2.0, 0.75, 3.5, 9.0])
    np.testing.assert_array_equal(to_grey_levels(values), [0, 0, 128, 255, 255])
    reduced = np.stack([reduce_image(image, 4) for image, _ in drawn(10)])
    assert np.isin(to_grey_levels(reduced), [0, 255]).mean() < 1e-3
