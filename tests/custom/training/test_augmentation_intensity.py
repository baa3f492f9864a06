"""Changes of intensities against SciPy, PyTorch's interpolation and their formulas by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.nn.functional import interpolate

from fedannot.custom.training.augmentation_intensity import (
    at_low_resolution,
    blurred,
    with_brightness,
    with_contrast,
    with_gamma,
)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("extents", [(20, 13), (9, 16, 12)])
def test_blur_is_the_gaussian_filter_of_scipy(extents: Sequence[int]) -> None:
    images, widths = noise(3, *extents), torch.tensor([0.5, 0.9, 1.5])
    result = blurred(images, widths)
    for image, width, given in zip(result, widths, images, strict=True):
        expected = ndimage.gaussian_filter(given.numpy(), float(width), mode="nearest")
        np.testing.assert_allclose(image.numpy(), expected, atol=1e-5)


def test_low_resolution_is_nearest_neighbours_down_and_cubic_up() -> None:
    images, factors = noise(3, 20, 30), torch.tensor([1.0, 1.5, 2.0])
    result = at_low_resolution(images, factors)
    for image, size, given in zip(result, [(20, 30), (13, 20), (10, 15)], images, strict=True):
        fewer = interpolate(given[None, None], size=size, mode="nearest-exact")
        expected = interpolate(fewer, size=(20, 30), mode="bicubic", align_corners=False)[0, 0]
        torch.testing.assert_close(image, expected, atol=1e-5, rtol=1e-5)


def test_low_resolution_keeps_an_axis() -> None:
    images, factors = noise(2, 16, 12, 5), torch.tensor([2.0, 1.3])
    result = at_low_resolution(images, factors, kept_axis=2)
    for number in range(5):
        torch.testing.assert_close(result[..., number], at_low_resolution(images[..., number], factors))


def test_brightness_and_contrast_by_hand() -> None:
    images = torch.tensor([[[0.0, 4.0], [8.0, 12.0]], [[-1.0, 1.0], [-3.0, 3.0]]])
    assert with_brightness(images, torch.tensor([0.5, 2.0])).flatten().tolist() == [0, 2, 4, 6, -2, 2, -6, 6]
    # Means 6 and 0; the second is stretched to ±1.5 and ±4.5 and clipped to ±3.
    stretched = with_contrast(images, torch.tensor([0.5, 1.5]))
    assert stretched.flatten().tolist() == [3, 5, 7, 9, -1.5, 1.5, -3, 3]


def test_gamma_by_hand() -> None:
    images = torch.tensor([[[-1.0, 0.0], [1.0, 3.0]]]).repeat(2, 1, 1)
    # Scaled to 0…1: 0, 1/4, 1/2, 1; powers of it, times the range of 4, less 1.
    changed = with_gamma(images, torch.tensor([2.0, 0.5]))
    assert changed[0].flatten().tolist() == pytest.approx([-1, -0.75, 0, 3])
    assert changed[1].flatten().tolist() == pytest.approx([-1, 1, 2 * 2**0.5 - 1, 3])
    inverted = with_gamma(images, torch.tensor([2.0, 0.5]), inverted=True)
    assert inverted[0].flatten().tolist() == pytest.approx([-1, 4 * 7 / 16 - 1, 2, 3])


@pytest.mark.parametrize("inverted", [False, True])
def test_gamma_keeps_a_constant_image(*, inverted: bool) -> None:
    images = torch.full((1, 4, 4), 2.5)
    assert torch.equal(with_gamma(images, torch.tensor([0.7]), inverted=inverted), images)
