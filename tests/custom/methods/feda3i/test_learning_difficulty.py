import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from torch import nn

from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.feda3i import learning_difficulty
from fedannot.custom.methods.feda3i.learning_difficulty import AnnotationBands, band_difficulty, bands_of
from fedannot.transforms.ignored_label import IGNORED_LABEL


def row(difficulty):
    return np.concatenate((difficulty.inner, difficulty.outer))


class Echo(nn.Module):
    """A network whose output is its input."""

    def __init__(self):
        super().__init__()
        self.device = nn.Parameter(torch.zeros(1))

    def forward(self, images):
        return images


def make_cases(images, labels, spacing=None):
    """Samples ``(N, ...)`` as cases by themselves."""
    return [
        LoadedCase(str(number), str(number), image[None], label[None], None, spacing)
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    ]


def site_difficulty(network, images, labels, num_classes, batch_size=8):
    return learning_difficulty.site_difficulty(network, make_cases(images, labels), num_classes, Inference(batch_size))


def brute_force(logits, labels, index, spacing=1.0):
    """Eq. 3 and 4 for one sample and class, with distances between all pairs of pixels."""
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=0)
    mask = labels == index + 1
    if mask.all() or not mask.any():
        return None
    inside, outside = np.argwhere(mask), np.argwhere(~mask)
    distances = cdist(inside * spacing, outside * spacing)
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


def test_whole_volumes_equal_equations_3_and_4_by_brute_force_in_millimetres():
    """Volumes of differing sizes, one smaller than the window, with voxels that are no cubes."""
    spacing = (1.0, 0.75, 2.5)
    labels = [random_labels((1, *size), 2, seed)[0] for seed, size in enumerate([(9, 7, 8), (6, 12, 5), (5, 5, 4)])]
    generator = torch.Generator().manual_seed(2)
    logits = [2 * torch.randn((3, *label.shape), generator=generator, dtype=torch.float64) for label in labels]
    cases = make_cases(logits, labels, spacing)
    difficulty = learning_difficulty.site_difficulty(Echo(), cases, 2, Inference(2, window=(6, 6, 6)))
    for index in (0, 1):
        pairs = [brute_force(x.numpy(), y.numpy(), index, spacing) for x, y in zip(logits, labels, strict=True)]
        usable = [pair for pair in pairs if pair is not None]
        assert difficulty.num_samples[index] == len(usable) > 0
        expected = np.mean(usable, axis=0)
        np.testing.assert_allclose((difficulty.inner[index], difficulty.outer[index]), expected, rtol=1e-6)


def test_bands_are_measured_in_the_spacing_of_each_sample():
    labels, logits = random_labels((2, 9, 8), 1, seed=3), torch.randn((2, 2, 9, 8), dtype=torch.float64)
    spacings = [(1.0, 3.0), None]
    samples = list(zip(logits, labels, spacings, strict=True))
    cases = [make_cases(x[None], y[None], spacing)[0] for x, y, spacing in samples]
    difficulty = learning_difficulty.site_difficulty(Echo(), cases, 1, Inference(2))
    expected = [brute_force(x.numpy(), y.numpy(), 0, spacing or (1, 1)) for x, y, spacing in samples]
    np.testing.assert_allclose(row(difficulty), np.mean(expected, axis=0))


def test_samples_are_counted_and_patients_too():
    square, both = torch.zeros((8, 8), dtype=torch.int64), torch.zeros((8, 8), dtype=torch.int64)
    square[2:5, 2:5] = both[2:5, 2:5] = 1
    both[6, 6] = 2
    slices = torch.stack([square, square, both, torch.zeros_like(square)])
    logits = torch.zeros((4, 3, 8, 8))
    volume = LoadedCase("a", "patient a", logits, slices, None, None)
    others = [replace(volume, name=name, unit=unit) for name, unit in (("b", "patient a"), ("c", "patient c"))]
    empty = LoadedCase("d", "patient d", logits[3:], slices[3:], None, None)
    difficulty = learning_difficulty.site_difficulty(Echo(), [volume, *others, empty], 2, Inference(5))
    assert difficulty.num_samples.tolist() == [9, 3]
    assert difficulty.num_units.tolist() == [2, 2]
    assert difficulty.annotated_units == 2


def test_samples_without_annotation_are_not_run_through_the_network(monkeypatch):
    labels = random_labels((6, 10, 10), 1, seed=5)
    labels[2:4] = 0
    logits = torch.randn((6, 2, 10, 10), generator=torch.Generator().manual_seed(0))
    expected = site_difficulty(Echo(), logits, labels, 1, batch_size=6)
    seen = []
    monkeypatch.setattr(Echo, "forward", lambda self, images: seen.append(len(images)) or images)
    result = site_difficulty(Echo(), logits, labels, 1, batch_size=2)
    assert seen == [2, 2]
    np.testing.assert_array_equal(row(result), row(expected))


def test_bands_of_one_batch_at_a_time_are_in_memory(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        learning_difficulty, "bands_of", lambda labels, *rest: sizes.append(len(labels)) or bands_of(labels, *rest)
    )
    site_difficulty(Echo(), torch.zeros((7, 2, 8, 8)), random_labels((7, 8, 8), 1, seed=0), 1, batch_size=3)
    assert sizes == [3, 3, 1]


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
    in_pixels, in_millimetres = bands_of(labels, 1), bands_of(labels, 1, [(1.0, 10.0)])
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
        (torch.zeros((2, 3, 8, 8)), torch.eye(8, dtype=torch.int64).repeat(2, 1, 1), "number of output channels"),
        (torch.zeros((0, 2, 8, 8)), torch.zeros((0, 8, 8), dtype=torch.int64), "at least one case"),
    ],
)
def test_errors_say_what_was_found(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        site_difficulty(Echo(), logits, labels, 1)


def test_outputs_that_are_not_finite_count_as_undecided(caplog):
    """One image that a model overflows on says nothing by a missing estimate: −log ½ in both bands."""
    labels = torch.eye(8, dtype=torch.int64).repeat(2, 1, 1)
    result = site_difficulty(Echo(), torch.full((2, 2, 8, 8), torch.nan), labels, 1)
    np.testing.assert_allclose([*result.inner, *result.outer], math.log(2))
    assert "is not finite" in caplog.text


def test_difficulty_of_outputs_that_are_not_finite_is_refused():
    bands = bands_of(torch.eye(8, dtype=torch.int64)[None], 1)
    with pytest.raises(ValueError, match="training has diverged"):
        band_difficulty(torch.full((1, 2, 8, 8), torch.nan), bands)


def test_bands_are_kept_by_sample_and_class():
    labels = random_labels((3, 10, 10), 2, seed=9)
    bands = bands_of(labels, 2)
    assert isinstance(bands, AnnotationBands)
    assert bands.inner.shape == bands.outer.shape == (3, 2, 10, 10)
    for index in range(2):
        mask = labels == index + 1
        assert not (bands.inner[:, index] & ~mask).any()
        assert not (bands.outer[:, index] & mask).any()


def test_ignored_pixels_are_of_no_band():
    """They are background to distances: the bands are those without them but for their pixels."""
    labels = random_labels((3, 14, 12), 2, seed=2)
    ignored = torch.from_numpy(np.random.default_rng(0).random(labels.shape) < 0.3) & (labels == 0)
    given, plain = bands_of(labels.masked_fill(ignored, IGNORED_LABEL), 2), bands_of(labels, 2)
    assert (plain.outer & ignored[:, None]).any()
    assert torch.equal(given.inner, plain.inner)
    assert torch.equal(given.outer, plain.outer & ~ignored[:, None])


def test_a_sample_with_ignored_pixels_alone_is_not_annotated():
    labels = torch.zeros((1, 8, 8), dtype=torch.uint8)
    labels[0, 2:4, 2:4] = IGNORED_LABEL
    bands = bands_of(labels, 1)
    assert not bands.annotated.any()
    assert not (bands.inner | bands.outer).any()


def test_what_is_predicted_at_ignored_pixels_does_not_change_the_difficulty():
    labels = torch.zeros((1, 12, 12), dtype=torch.int64)
    labels[0, 3:8, 3:8] = 1
    labels[0, 8:10, 3:8] = IGNORED_LABEL
    logits = torch.randn((1, 2, 12, 12), generator=torch.Generator().manual_seed(0))
    changed = torch.where(labels[:, None] == IGNORED_LABEL, 9.0, logits)
    first, second = (site_difficulty(Echo(), given, labels, 1) for given in (logits, changed))
    np.testing.assert_array_equal(row(first), row(second))
    assert np.isfinite(row(first)).all()
