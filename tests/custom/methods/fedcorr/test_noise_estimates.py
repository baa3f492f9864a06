"""What FedCorr says of noise: the dimensionality of outputs, two groups of losses, and which labels are replaced."""

import math

import numpy as np
import pytest
import torch

from fedannot.custom.methods.fedcorr.dimensionality import local_dimensionality, of_distances
from fedannot.custom.methods.fedcorr.loss_groups import higher_losses, least_loss
from fedannot.custom.methods.fedcorr.relabelling import Relabelling


@pytest.mark.parametrize("dimensions", [1, 2.5])
def test_the_dimensionality_of_evenly_filled_balls(dimensions: float) -> None:
    """r_i = (i / 20)^(1/m): −20 m / Σ ln(i / 20), without ε."""
    radii = (np.arange(1, 21) / 20) ** (1 / dimensions)
    assert of_distances(radii[None], epsilon=0.0) == pytest.approx(1.13772 * dimensions, abs=1e-5)
    assert of_distances(radii[None])[0] == pytest.approx(1.13772 * dimensions, abs=1e-4)


def test_neighbours_are_those_of_the_same_site_without_the_case_itself() -> None:
    """By brute force over all pairs, in three dimensions."""
    outputs = np.random.default_rng(0).random((40, 3))
    distances = np.sort(np.linalg.norm(outputs[:, None] - outputs, axis=-1), axis=1)[:, 1:21]
    expected = -20 / np.log(distances / (distances[:, 19:] + 1e-6)).sum(axis=1)
    np.testing.assert_allclose(local_dimensionality(outputs), expected, rtol=1e-9)
    # The 21st case is the first with 20 others.
    np.testing.assert_allclose(
        local_dimensionality(outputs[:21])[0],
        of_distances(np.sort(np.linalg.norm(outputs[1:21] - outputs[0], axis=1))[None])[0],
    )


def test_a_small_site_has_all_others_as_neighbours_and_the_same_mean() -> None:
    """Of discs with seven points around a case the mean is that of 20 neighbours, 2 · 20/18."""
    generator = np.random.default_rng(1)
    radii = np.sqrt(np.sort(generator.random((4000, 7)), axis=1))
    scaled = of_distances(radii, 0.0) * (20 / 18) / (7 / 5)
    assert scaled.mean() == pytest.approx(2 * 20 / 18, rel=0.05)
    outputs = np.stack([np.r_[0.0, radii[0]], np.zeros(8)], axis=1)
    assert local_dimensionality(outputs)[0] == pytest.approx(scaled[0], rel=1e-4)
    assert np.isfinite(local_dimensionality(outputs[:5])).all()
    assert np.isnan(local_dimensionality(outputs[:4])).all()


def test_equal_outputs_have_no_dimension() -> None:
    outputs = np.repeat([[0.2, 0.8]], 30, axis=0)
    assert (local_dimensionality(outputs) == 0).all()


def test_the_higher_of_two_groups() -> None:
    losses = np.array([0.1, 2.0, 0.12, 0.09, 2.2, 0.11])
    assert higher_losses(losses).tolist() == [False, True, False, False, True, False]
    assert not higher_losses(np.ones(5)).any()
    assert not higher_losses(np.array([3.0])).any()


def test_groups_are_those_of_a_common_mixture() -> None:
    """As scikit-learn divides the same losses."""
    mixture = pytest.importorskip("sklearn.mixture")
    generator = np.random.default_rng(2)
    losses = np.concatenate([generator.normal(0.3, 0.1, 300), generator.normal(1.5, 0.4, 100)])
    other = mixture.GaussianMixture(2, random_state=0).fit(losses[:, None])
    expected = other.predict(losses[:, None]) == other.means_[:, 0].argmax()
    # One loss lies at the border.
    assert np.count_nonzero(higher_losses(losses) != expected) <= 1


def test_the_smallest_of_the_largest_losses() -> None:
    losses = np.arange(10.0)
    assert [least_loss(losses, share) for share in (1.0, 0.3, 0.29, 0.05)] == [0.0, 7.0, 8.0, math.inf]
    # Equal losses never make more than the share.
    tied = np.array([1.0, 1.0, 2.0, 2.0, 2.0, 3.0])
    for share in np.linspace(0, 1, 25):
        least = least_loss(tied, share)
        assert np.count_nonzero(tied >= least) <= 6 * share + 1e-9
        assert np.count_nonzero(tied >= least) == max(count for count in (0, 1, 4, 6) if count <= 6 * share + 1e-9)


@pytest.mark.parametrize(("only_added", "expected"), [(False, [1, 0, 0, 2, 1, 255]), (True, [1, 1, 0, 2, 1, 255])])
def test_which_pixels_are_replaced(only_added: bool, expected: list[int]) -> None:
    """A small loss, too little confidence and an ignored pixel let the label stay; so does foreground in `add`."""
    probabilities = torch.tensor(
        [
            [0.1, 0.9, 0.0],  # replaced
            [0.8, 0.2, 0.0],  # replaced by background
            [0.1, 0.9, 0.0],  # its loss is small
            [0.3, 0.2, 0.5],  # not above the confidence
            [0.1, 0.8, 0.1],  # as it is
            [0.1, 0.9, 0.0],  # ignored
        ]
    )
    labels = torch.tensor([0, 1, 0, 2, 1, 255], dtype=torch.uint8)
    losses = torch.tensor([2.0, 2.0, 0.5, 2.0, 2.0, 2.0])
    rule = Relabelling(1.0, 0.5, only_added)
    assert rule.apply(labels, losses, probabilities).tolist() == expected
    # The same of images of 2 × 3 pixels.
    maps = probabilities.T.reshape(1, 3, 2, 3)
    assert rule.apply(labels.view(1, 2, 3), losses.view(1, 2, 3), maps).flatten().tolist() == expected
