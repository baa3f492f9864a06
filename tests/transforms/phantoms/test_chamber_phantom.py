"""The phantom of a heart chamber: what its description promises, measured on the drawn volumes."""

import numpy as np
import pytest
from scipy import ndimage

from fedannot.transforms.noise.follow_protocol import FollowProtocol
from fedannot.transforms.noise.site_protocol import SiteProtocol
from fedannot.transforms.phantoms.chamber_phantom import SHAPE, SPACING, CentreStyle, chamber_phantom, draw_centre_style

NUM_DRAWN = 20
PLAIN = CentreStyle(blood=1.0, lung=0.2, gamma=1.0, blur=1.0, noise=0.1, shading=0.0)


@pytest.fixture(scope="module")
def drawn():
    return [chamber_phantom(np.random.default_rng(seed), PLAIN) for seed in range(NUM_DRAWN)]


def test_same_generator_same_bits(drawn):
    image, mask = chamber_phantom(np.random.default_rng(7), PLAIN)
    assert np.array_equal(image, drawn[7][0])
    assert np.array_equal(mask, drawn[7][1])
    assert not np.array_equal(mask, drawn[8][1])
    assert (image.shape, image.dtype, mask.shape, mask.dtype) == (SHAPE, np.float32, SHAPE, bool)


def test_a_style_changes_the_image_and_not_the_chamber():
    other = CentreStyle(blood=0.8, lung=0.3, gamma=1.5, blur=2.0, noise=0.3, shading=0.4)
    for seed in range(3):
        plain, styled = (chamber_phantom(np.random.default_rng(seed), style) for style in (PLAIN, other))
        assert np.array_equal(plain[1], styled[1])
        assert not np.allclose(plain[0], styled[0])


def test_centres_differ_and_a_centre_is_its_generators():
    styles = [draw_centre_style(np.random.default_rng(seed)) for seed in range(5)]
    assert len(set(styles)) == 5
    assert draw_centre_style(np.random.default_rng(3)) == styles[3]


def test_the_chamber_is_one_object_inside_the_volume(drawn):
    for _, mask in drawn:
        assert ndimage.label(mask, structure=np.ones((3, 3, 3)))[1] == 1
        assert not mask[0].any()
        assert not mask[-1].any()
        assert not mask[:, 0].any()
        assert not mask[:, -1].any()
        # Half axes of 17 × 14 × 13 to 23 × 19 × 18 mm, and some more for the veins.
        volume = mask.sum() * np.prod(SPACING)
        assert 4 / 3 * np.pi * 17 * 14 * 13 * 0.9 < volume < 4 / 3 * np.pi * 23 * 19 * 18 * 1.5


def test_it_is_brighter_than_muscle_and_has_a_neighbour_as_bright_that_is_not_annotated(drawn):
    for image, mask in drawn:
        near = ndimage.binary_dilation(mask, iterations=2) & ~ndimage.binary_dilation(mask)
        assert image[mask].mean() > image[near].mean() + 0.2
        bright = ndimage.gaussian_filter(image, (2, 2, 0.5)) > 0.8
        assert (bright & ~ndimage.binary_dilation(mask, iterations=3)).sum() > 200


def test_opening_takes_the_veins_and_closing_fills_what_is_between_them(drawn):
    opening = FollowProtocol(SiteProtocol("C", radius=12), systematic_only=True)
    closing = FollowProtocol(SiteProtocol("D", radius=12), systematic_only=True)
    masks = [mask.astype(np.uint8) for _, mask in drawn]
    taken = [1 - np.asarray(opening(mask)).sum() / mask.sum() for mask in masks]
    filled = [np.asarray(closing(mask)).sum() / mask.sum() - 1 for mask in masks]
    assert 0.05 < np.mean(taken) < 0.25
    assert 0.005 < np.mean(filled) < 0.1
