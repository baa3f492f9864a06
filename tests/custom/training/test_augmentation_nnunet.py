"""nnU-Net's augmentation: what is drawn, and what it does to images, annotations and places."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage

from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.augmentation_nnunet import (
    Drawn,
    NnunetBatches,
    NnunetDraws,
    changed_batch,
)
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.batches import PatchBatches, SampleBatches, training_batches

CPU = torch.device("cpu")
NOTHING = Drawn(torch.tensor([], dtype=torch.int64), torch.tensor([]))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draws_of(shape: Sequence[int], **given: Drawn | torch.Tensor) -> NnunetDraws:
    """Draws of nothing but what is given."""
    nothing = dict.fromkeys(
        [
            "maps",
            "noise",
            "widths",
            "brightnesses",
            "contrasts",
            "resolutions",
            "exponents",
            "inverted_exponents",
        ],
        NOTHING,
    )
    return NnunetDraws(**(nothing | {"mirrored": torch.zeros(shape[0], len(shape) - 2, dtype=torch.bool)} | given))


def random_batch(shape: Sequence[int]) -> Batch:
    images = torch.randn(*shape, generator=generator(1))
    labels = torch.randint(1, 200, (shape[0], 1, *shape[2:]), generator=generator(2)).to(torch.uint8)
    return Batch(images, labels, torch.arange(shape[0]))


def turn(angle: float) -> np.ndarray:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


@pytest.mark.parametrize("extents", [(24, 17), (20, 14, 11), (24, 17, 5)])
def test_resampling_is_the_affine_transform_of_scipy(extents: Sequence[int]) -> None:
    """Also in the plane alone, where the last patch is anisotropic."""
    batch = random_batch((2, 2, *extents))
    whole = np.eye(len(extents))
    whole[:2, :2] = turn(0.4) / 1.2
    if extents == (20, 14, 11):
        about_rows = np.eye(3)
        about_rows[1:, 1:] = turn(-0.3) / 0.8
        whole = whole @ about_rows
    maps = Drawn(torch.tensor([1]), torch.tensor(whole[None], dtype=torch.float32))
    changed = changed_batch(batch, draws_of(batch.images.shape, maps=maps))
    assert torch.equal(changed.images[0], batch.images[0])
    assert torch.equal(changed.labels[0], batch.labels[0])
    middle = (np.array(extents) - 1) / 2
    offset = middle - whole @ middle
    for channel in range(2):
        given = batch.images[1, channel].numpy()
        expected = ndimage.affine_transform(given, whole, offset, order=1, mode="nearest")
        np.testing.assert_allclose(changed.images[1, channel].numpy(), expected, atol=1e-4)
    # SciPy's nearest neighbour with zeros only beyond half a pixel, as PyTorch has it.
    padded = np.pad(batch.labels[1, 0].numpy(), 1)
    shifted = (middle + 1) - whole @ (middle + 1)
    expected = ndimage.affine_transform(padded, whole, shifted, order=0, mode="constant")
    inside = expected[(slice(1, -1),) * len(extents)]
    assert (changed.labels[1, 0].numpy() == inside).mean() > 0.995


def test_scale_above_one_enlarges() -> None:
    batch = replace(random_batch((1, 1, 32, 32)), labels=torch.zeros(1, 1, 32, 32, dtype=torch.uint8))
    batch.labels[0, 0, 12:20, 12:20] = 1
    maps = Drawn(torch.tensor([0]), torch.eye(2)[None] / 1.4)
    area = int(changed_batch(batch, draws_of(batch.images.shape, maps=maps)).labels.sum())
    assert area == pytest.approx(64 * 1.4**2, rel=0.15)


@pytest.mark.parametrize("shape", [(4, 2, 6, 5), (3, 1, 6, 5, 4)])
def test_mirroring_is_exact(shape: Sequence[int]) -> None:
    batch = random_batch(shape)
    mirrored = torch.rand(shape[0], len(shape) - 2, generator=generator(3)) < 0.5
    changed = changed_batch(batch, draws_of(shape, mirrored=mirrored))
    for sample, axes in enumerate(mirrored):
        flipped = [axis + 1 for axis in axes.nonzero().flatten().tolist()]
        assert torch.equal(changed.images[sample], batch.images[sample].flip(flipped))
        assert torch.equal(changed.labels[sample], batch.labels[sample].flip(flipped))
    assert mirrored.any()
    assert not mirrored.all()


def test_samples_are_mirrored_along_the_given_axes_alone() -> None:
    shape = (400, 1, 4, 4, 4)
    given, everywhere = (NnunetDraws.of(shape, torch.Generator().manual_seed(0), axes) for axes in ([1], None))
    assert not given.mirrored[:, [0, 2]].any()
    # What is drawn beside is the same.
    assert torch.equal(given.mirrored[:, 1], everywhere.mirrored[:, 1])
    assert 0.4 < given.mirrored[:, 1].float().mean() < 0.6


def test_channels_and_samples_that_are_not_drawn_stay() -> None:
    """The third of four channels is brightened; the second sample gets noise."""
    batch = random_batch((2, 2, 8, 8))
    noise = torch.full((1, 2, 8, 8), 3.0)
    draws = draws_of(
        batch.images.shape,
        noise=Drawn(torch.tensor([1]), noise),
        brightnesses=Drawn(torch.tensor([2]), torch.tensor([0.5])),
    )
    given = batch.images.clone()
    changed = changed_batch(batch, draws)
    assert torch.equal(batch.images, given)
    assert torch.equal(changed.images[0], given[0])
    torch.testing.assert_close(changed.images[1, 0], (given[1, 0] + 3) / 2)
    torch.testing.assert_close(changed.images[1, 1], given[1, 1] + 3)
    assert torch.equal(changed.labels, batch.labels)


@pytest.mark.parametrize(
    ("name", "probability", "low", "high"),
    [
        ("widths", 0.1, 0.5, 1.5),
        ("brightnesses", 0.15, 0.7, 1.3),
        ("contrasts", 0.15, 0.65, 1.5),
        ("resolutions", 0.125, 1, 2),
        ("exponents", 0.15, 0.7, 1.5),
        ("inverted_exponents", 0.15, 0.7, 1.5),
    ],
)
def test_channels_are_drawn_as_in_the_paper(name: str, probability: float, low: float, high: float) -> None:
    drawn = getattr(NnunetDraws.of((4000, 1, 2, 2), generator()), name)
    # Five standard deviations of a binomial.
    assert len(drawn.index) / 4000 == pytest.approx(probability, abs=5 * math.sqrt(probability / 4000))
    assert low <= drawn.values.min() < low + 0.1 * (high - low)
    assert high - 0.1 * (high - low) < drawn.values.max() <= high


def test_noise_is_drawn_as_in_the_paper() -> None:
    noise = NnunetDraws.of((2000, 1, 16, 16), generator()).noise
    variances = noise.values.flatten(1).var(dim=1)
    assert len(noise.index) / 2000 == pytest.approx(0.15, abs=0.04)
    assert variances.max() < 0.13
    assert variances.mean() == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    ("extents", "limit"), [((16, 16), 180), ((16, 30), 15), ((16, 16, 4), 180), ((4, 30, 16), 15), ((16, 16, 8), None)]
)
def test_turns_and_scales_are_drawn_as_in_the_paper(extents: Sequence[int], limit: float | None) -> None:
    maps = NnunetDraws.of((1500, 1, *extents), generator()).maps
    assert len(maps.index) / 1500 == pytest.approx(0.2 + 0.2 - 0.04, abs=0.06)
    across = {(16, 16, 4): 2, (4, 30, 16): 0}.get(tuple(extents))
    values = maps.values
    if across is not None:
        rest = [axis for axis in range(3) if axis != across]
        assert (values[:, across, rest] == 0).all()
        values = values[:, rest][:, :, rest]
    scales = torch.linalg.det(values).pow(-1 / values.shape[1])
    assert scales.min() == pytest.approx(0.7, abs=0.05)
    assert scales.max() == pytest.approx(1.4, abs=0.05)
    turns = values * scales[:, None, None]
    torch.testing.assert_close(turns @ turns.mT, torch.eye(values.shape[1]).expand_as(turns), atol=1e-5, rtol=0)
    turned = (turns - torch.eye(values.shape[1])).abs().amax((1, 2)) > 1e-5
    assert turned.sum() / 1500 == pytest.approx(0.2, abs=0.05)
    if limit is not None:
        angles = torch.rad2deg(torch.atan2(turns[:, 1, 0], turns[:, 0, 0]))
        assert angles.max() == pytest.approx(limit, abs=0.1 * limit)
        assert angles.min() == pytest.approx(-limit, abs=0.1 * limit)
    else:
        # Each of three angles is at most 30°.
        cosines = (turns.diagonal(dim1=1, dim2=2).sum(dim=1) - 1) / 2
        assert 30 < torch.rad2deg(torch.acos(cosines.min())) < 52.1


def test_the_same_generator_gives_the_same_bits_and_another_others() -> None:
    images, labels = torch.randn(6, 1, 16, 16, generator=generator()), torch.ones(6, 16, 16, dtype=torch.uint8)
    batches = NnunetBatches(SampleBatches(images, labels, 3, CPU))
    first, again, other = (torch.cat([batch.images for batch in batches.epoch(generator(seed))]) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("extents", [(24, 18), (17, 20, 9), (18, 20, 5)])
def test_labels_are_those_at_the_places_of_the_sample(extents: Sequence[int]) -> None:
    images = torch.randn(30, 1, *extents, generator=generator(2))
    labels = torch.randint(1, 200, (30, *extents), generator=generator(3)).to(torch.uint8)
    plain, noted = (NnunetBatches(SampleBatches(images, labels, 10, CPU, with_places=given)) for given in (False, True))
    beyond = moved = 0
    for one, batch in zip(plain.epoch(generator(5)), noted.epoch(generator(5)), strict=True):
        assert torch.equal(one.images, batch.images)
        assert torch.equal(one.labels, batch.labels)
        assert batch.labels.dtype == torch.uint8
        assert batch.places is not None
        assert batch.places.dtype == torch.int32
        inside = (batch.places >= 0).all(dim=1)
        assert (batch.places.movedim(1, -1)[~inside] == -1).all()
        assert (batch.labels[:, 0][~inside] == 0).all()
        for label, sample, places, shown in zip(batch.labels[:, 0], batch.samples, batch.places, inside, strict=True):
            there = labels[(int(sample), *(axis[shown].long() for axis in places))]
            assert torch.equal(label[shown], there)
            moved += not torch.equal(label, labels[int(sample)])
        beyond += int((~inside).sum())
    assert beyond
    assert moved


def test_places_of_augmented_patches_are_those_of_the_volume() -> None:
    extents, patch = (12, 10, 14), (16, 10, 20)
    labels = torch.arange(12 * 10 * 14).view(1, *extents) % 199 + 1
    case = LoadedCase("a", "a", labels[:, None].float(), labels.to(torch.uint8), None, None)
    batches = NnunetBatches(PatchBatches([case], patch, 12, 12, CPU, with_places=True))
    (batch,) = batches.epoch(generator())
    assert batch.places is not None
    for label, places in zip(batch.labels[:, 0], batch.places, strict=True):
        inside = (places >= 0).all(dim=0)
        rows, columns, slices = (axis[inside].long() for axis in places)
        assert torch.equal(label[inside].long(), labels[0, rows, columns, slices])
        assert inside.any()


def test_training_is_augmented_where_the_settings_say_so() -> None:
    case = LoadedCase("a.png", "a", torch.zeros(4, 1, 32, 32), torch.zeros(4, 32, 32, dtype=torch.uint8), None, None)
    description = ImageDescription(channels=1, size=(32, 32), classes=("object",), labels={0: 0, 1: 1})
    data = SiteData("site-1", (case,), description, ())
    batches = training_batches(data, TrainingSettings(augmentation="nnunet"), CPU)
    assert isinstance(batches, NnunetBatches)
    assert batches.samples_per_epoch == 4
