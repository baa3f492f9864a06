"""Numbered lesions, and the largest value in each of them."""

import numpy as np
import pytest

from fedannot.transforms.connected_lesions import label_lesions, largest_in_lesions


@pytest.mark.parametrize("shape", [(40, 40), (12, 12, 12)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_the_largest_value_is_that_of_each_lesion(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    generator = np.random.default_rng(0)
    mask, values = generator.random(shape) < 0.1, (100 * generator.random(shape)).astype(dtype)
    labelled, count = label_lesions(mask)
    assert count > 20
    expected = [float(values[labelled == number].max()) for number in range(1, count + 1)]
    assert largest_in_lesions(values, labelled, count).tolist() == expected


def test_without_lesions_there_are_no_values() -> None:
    assert largest_in_lesions(np.ones((4, 4)), *label_lesions(np.zeros((4, 4)))).tolist() == []
