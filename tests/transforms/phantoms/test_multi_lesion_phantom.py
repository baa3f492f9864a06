"""The phantom with several lesions: what its description promises, measured on the drawn volumes."""

import numpy as np
import pytest

from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.phantoms.multi_lesion_phantom import SHAPE, SPACING, multi_lesion_phantom

NUM_DRAWN = 40


@pytest.fixture(scope="module")
def drawn():
    return [multi_lesion_phantom(np.random.default_rng(seed)) for seed in range(NUM_DRAWN)]


def test_same_generator_same_bits(drawn):
    image, mask = multi_lesion_phantom(np.random.default_rng(7))
    assert np.array_equal(image, drawn[7][0])
    assert np.array_equal(mask, drawn[7][1])
    assert not np.array_equal(image, drawn[8][0])
    assert (image.shape, image.dtype, mask.shape, mask.dtype) == (SHAPE, np.float32, SHAPE, bool)


def test_every_volume_has_three_to_twelve_lesions_and_all_numbers_occur(drawn):
    numbers = [label_lesions(mask)[1] for _, mask in drawn]
    assert min(numbers) == 3
    assert max(numbers) == 12
    assert len(set(numbers)) >= 8


def test_lesions_differ_in_size_and_none_is_a_speck(drawn):
    volumes = np.concatenate([np.bincount(label_lesions(mask)[0].ravel())[1:] for _, mask in drawn])
    # Ellipsoids with mean radii of 3 and 9 mm have 113 and 3,054 mm³, that is 11 and 302 voxels.
    assert volumes.min() >= 6
    assert np.percentile(volumes, 10) < 25
    assert np.percentile(volumes, 90) > 150
    assert volumes.max() * np.prod(SPACING) < 4 / 3 * np.pi * (9 * 1.3) ** 3


def test_every_lesion_is_brighter_than_the_body_around_it(drawn):
    differences = []
    for image, mask in drawn:
        body = image[(image > 0.5) & ~mask].mean()
        labels, count = label_lesions(mask)
        differences += [image[labels == number].mean() - body for number in range(1, count + 1)]
    # Contrasts of 0.8 to 2 over a texture of 0.4; the edges of small lesions are blurred.
    assert np.mean(np.array(differences) > 0) > 0.9
    assert np.percentile(differences, 90) > 1.5 * np.percentile(differences, 25) > 0


def test_lesions_lie_in_the_body(drawn):
    for image, mask in drawn:
        rows, columns = np.nonzero(mask.any(axis=2))
        assert np.hypot(rows - 31.5, columns - 31.5).max() * SPACING[0] <= 44
        assert image[mask].mean() > image[0].mean() + 1
