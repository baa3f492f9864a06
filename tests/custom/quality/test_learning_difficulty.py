import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from torch import nn

from fedannot.custom.quality.learning_difficulty import (
    AnnotationBands,
    band_difficulty,
    bands_of,
    difficulty_over,
    site_difficulty,
)


def row(difficulty):
    return np.concatenate((difficulty.inner, difficulty.outer))


class Echo(nn.Module):
    """A network whose output is its input."""

    def forward(self, images):
        return images


def brute_force(logits, labels, index):
    """Eq. 3 and 4 for one sample and class, with distances between all pairs of pixels."""
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=0)
    mask = labels == index + 1
    if mask.all() or not mask.any():
        return None
    inside, outside = np.argwhere(mask), np.argwhere(~mask)
    distances = cdist(inside, outside)
    depth, away = distances.min(axis=1), distances.min(axis=0)
    width = min(depth.max(), away.max())
    chosen = probabilities[index + 1]
    inner = [-math.log(chosen[tuple(pixel)]) for pixel, d in zip(inside, depth, strict=True) if d <= width]
    outer = [-math.log(1 - chosen[tuple(pixel)]) for pixel, d in zip(outside, away, strict=True) if d <= width]
    return np.mean(inner), np.mean(outer)


def random_labels(shape, num_classes, seed):
    generator = np.random.default_rng(seed)
    labels = np.zeros(shape, dtype=np.int64)
    for sample in labels:
        for index in range(num_classes):
            corner = [generator.integers(0, length - 2) for length in sample.shape]
            size = [generator.integers(1, length - 1) for length in sample.shape]
            sample[tuple(slice(c, c + s) for c, s in zip(corner, size, strict=True))] = index + 1
    return torch.from_numpy(labels)


@pytest.mark.parametrize(
    ("shape", "num_classes"),
    [
        ((5, 9, 8), 1),  # 2D, one class
        ((5, 9, 8), 3),  # 2D, several classes, some covered by others
        ((3, 6, 5, 7), 2),  # 3D
    ],
)
def test_equals_equations_3_and_4_by_brute_force(shape, num_classes):
    generator = torch.Generator().manual_seed(4)
    labels = random_labels(shape, num_classes, seed=1)
    labels[0] = 0  # a sample without annotation
    logits = 2 * torch.randn((shape[0], num_classes + 1, *shape[1:]), generator=generator, dtype=torch.float64)
    difficulty = site_difficulty(Echo(), logits, labels, num_classes, batch_size=2)

    for index in range(num_classes):
        pairs = [brute_force(x.numpy(), y.numpy(), index) for x, y in zip(logits, labels, strict=True)]
        usable = [pair for pair in pairs if pair is not None]
        assert difficulty.num_samples[index] == len(usable)
        expected = np.mean(usable, axis=0) if usable else (np.nan, np.nan)
        np.testing.assert_allclose((difficulty.inner[index], difficulty.outer[index]), expected)


def test_constant_probability_gives_its_cross_entropy():
    labels = random_labels((4, 12, 12), 1, seed=0)
    logits = torch.stack((torch.zeros(4, 12, 12), torch.full((4, 12, 12), math.log(0.8 / 0.2))), dim=1)
    difficulty = site_difficulty(Echo(), logits, labels, 1)
    assert difficulty.inner == pytest.approx([-math.log(0.8)])
    assert difficulty.outer == pytest.approx([-math.log(0.2)])


def test_samples_weigh_equally_whatever_their_bands():
    labels = torch.zeros((2, 20, 20), dtype=torch.int64)
    labels[0, 5:15, 5:15] = 1
    labels[1, 10, 10] = 1
    logits = torch.zeros((2, 2, 20, 20))
    logits[1, 1] = 3.0
    difficulty = site_difficulty(Echo(), logits, labels, 1)
    assert difficulty.inner == pytest.approx([(math.log(2) + math.log1p(math.exp(-3))) / 2], rel=1e-6)


def test_empty_and_full_annotations_are_left_out():
    labels = torch.zeros((3, 8, 8), dtype=torch.int64)
    labels[1] = 1
    labels[2, 2:5, 2:5] = 1
    difficulty = site_difficulty(Echo(), torch.zeros((3, 2, 8, 8)), labels, 1)
    assert difficulty.num_samples.tolist() == [1]
    assert (difficulty.num_samples > 0).all()
    assert row(difficulty) == pytest.approx([math.log(2)] * 2)


def test_a_class_without_a_usable_sample_is_nan():
    labels = torch.zeros((2, 8, 8), dtype=torch.int64)
    labels[:, 2:5, 2:5] = 1
    difficulty = site_difficulty(Echo(), torch.zeros((2, 3, 8, 8)), labels, 2)
    assert difficulty.num_samples.tolist() == [2, 0]
    assert not (difficulty.num_samples > 0).all()
    assert np.isfinite(difficulty.inner[0])
    assert np.isnan(difficulty.inner[1])
    assert np.isnan(difficulty.outer[1])


@given(st.sampled_from([0.0, 50.0, 1e4, 1e30]), st.booleans(), st.sampled_from([torch.float16, torch.float32]))
@settings(deadline=None, max_examples=20)
def test_wrong_and_certain_predictions_stay_finite(size, inverted, dtype):
    labels = random_labels((2, 10, 10), 1, seed=2)
    certain = min(size, float(torch.finfo(dtype).max)) * (2.0 * labels - 1.0)
    foreground = (-certain if inverted else certain).to(dtype)
    inner, outer = band_difficulty(torch.stack((torch.zeros_like(foreground), foreground), dim=1), bands_of(labels, 1))
    bound = -math.log(1e-7)
    expected = math.log(2) if size == 0 else (bound if inverted else 0.0)
    for value in (*inner.flatten(), *outer.flatten()):
        assert float(value) == pytest.approx(expected, abs=1e-9)


def test_batch_size_does_not_matter():
    labels = random_labels((7, 10, 10), 1, seed=5)
    logits = torch.randn((7, 2, 10, 10), generator=torch.Generator().manual_seed(0))
    expected = site_difficulty(Echo(), logits, labels, 1, batch_size=7)
    for batch_size in (1, 3, 100):
        result = site_difficulty(Echo(), logits, labels, 1, batch_size=batch_size)
        np.testing.assert_array_equal(row(result), row(expected))
        assert result.predicted_share == expected.predicted_share


def test_batches_may_differ_in_shape():
    parts = [random_labels((2, 10, 10), 1, seed=6), random_labels((1, 14, 9), 1, seed=7)]
    logits = [torch.randn((len(p), 2, *p.shape[1:]), generator=torch.Generator().manual_seed(1)) for p in parts]
    together = difficulty_over(Echo(), ((x, bands_of(y, 1)) for x, y in zip(logits, parts, strict=True)))
    singles = [row(site_difficulty(Echo(), x, y, 1)) for x, y in zip(logits, parts, strict=True)]
    np.testing.assert_allclose(row(together), (2 * singles[0] + singles[1]) / 3)


def test_larger_annotations_raise_the_inner_and_lower_the_outer_difficulty():
    square = torch.zeros((3, 1, 40, 40))
    square[:, 0, 12:28, 12:28] = 1.0
    logits = torch.cat((torch.zeros_like(square), 6 * square - 3), dim=1)
    labels = torch.zeros((3, 40, 40), dtype=torch.int64)
    for sample, grow in enumerate((3, 0, -3)):
        labels[sample, 12 - grow : 28 + grow, 12 - grow : 28 + grow] = 1
    larger, right, smaller = (site_difficulty(Echo(), logits[i : i + 1], labels[i : i + 1], 1) for i in range(3))
    assert larger.inner[0] > right.inner[0] == pytest.approx(right.outer[0])
    assert larger.outer[0] == pytest.approx(right.outer[0])
    assert smaller.outer[0] > right.outer[0]


def test_spacing_decides_the_width_of_the_bands():
    labels = torch.zeros((1, 9, 9), dtype=torch.int64)
    labels[0, 3:6, 3:6] = 1
    in_pixels, in_millimetres = bands_of(labels, 1), bands_of(labels, 1, spacing=(1.0, 10.0))
    assert in_pixels.outer[0, 0, 4, 7]
    assert not in_millimetres.outer[0, 0, 4, 7]


def test_predicted_share_counts_annotated_samples_alone():
    labels = torch.zeros((4, 8, 8), dtype=torch.int64)
    labels[:3, 2:5, 2:5] = 1
    logits = torch.zeros((4, 2, 8, 8))
    logits[:, 0] = 1.0
    logits[0, 1, 7, 7] = 2.0
    logits[3, 1] = 2.0  # foreground where nothing is annotated does not count
    assert site_difficulty(Echo(), logits, labels, 1).predicted_share == pytest.approx(1 / 3)
    assert math.isnan(site_difficulty(Echo(), logits[3:], labels[3:], 1).predicted_share)


def test_network_is_evaluated_and_comes_back_as_it_was():
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Dropout(0.5))
    network.train()
    network[1].eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    labels = random_labels((4, 8, 8), 1, seed=8)
    images = torch.randn((4, 1, 8, 8), generator=torch.Generator().manual_seed(2))
    first, second = (site_difficulty(network, images, labels, 1) for _ in range(2))
    np.testing.assert_array_equal(row(first), row(second))
    assert [module.training for module in network.modules()] == [True, True, False, True]
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert not tensor.is_inference()


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros((2, 2, 8, 8)), torch.full((2, 8, 8), 2), "labels from 0 to 1, but found 2 to 2"),
        (torch.zeros((2, 2, 8, 8)), torch.full((2, 8, 8), -1), "found -1 to -1"),
        (torch.zeros((2, 3, 8, 8)), torch.zeros((2, 8, 8), dtype=torch.int64), "number of output channels"),
        (torch.full((2, 2, 8, 8), torch.nan), torch.zeros((2, 8, 8), dtype=torch.int64), "training has diverged"),
        (torch.zeros((2, 2, 8, 8)), torch.zeros((3, 8, 8), dtype=torch.int64), "2 images and 3 labels"),
        (torch.zeros((0, 2, 8, 8)), torch.zeros((0, 8, 8), dtype=torch.int64), "at least one batch"),
    ],
)
def test_errors_say_what_was_found(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        site_difficulty(Echo(), logits, labels, 1)


def test_bands_are_kept_by_sample_and_class():
    labels = random_labels((3, 10, 10), 2, seed=9)
    bands = bands_of(labels, 2)
    assert isinstance(bands, AnnotationBands)
    assert bands.inner.shape == bands.outer.shape == (3, 2, 10, 10)
    for index in range(2):
        mask = labels == index + 1
        assert not (bands.inner[:, index] & ~mask).any()
        assert not (bands.outer[:, index] & mask).any()
    assert torch.equal(bands.batch(1, 3).inner, bands.inner[1:])
