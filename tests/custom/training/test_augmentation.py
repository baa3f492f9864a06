"""What augmentation does to images and annotations."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy import ndimage

from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.settings import AugmentationKind, TrainingSettings
from fedannot.custom.training.augmentation import AugmentedBatches
from fedannot.custom.training.augmentation_at_once import AugmentedAtOnce, KindDraws, changed_by_kinds, shown_pixels
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.batches import PatchBatches, SampleBatches, training_batches
from fedannot.transforms.ignored_label import IGNORED_LABEL

ALL: tuple[AugmentationKind, ...] = ("rotation", "flip", "elastic", "noise")


def blobs(count: int, extents: Sequence[int] = (64, 64)) -> tuple[torch.Tensor, torch.Tensor]:
    """Smooth objects off the middle, and the annotation that a threshold of one half gives."""
    axes = torch.meshgrid(*(torch.linspace(-1, 1, extent) for extent in extents), indexing="ij")
    distance = torch.stack([(axis - 0.2 * (place + 1)).square() for place, axis in enumerate(axes)]).sum(dim=0)
    image = torch.exp(-distance / 0.3)
    images = image.expand(count, 1, *extents).clone()
    return images, (images[:, 0] > 0.5).to(torch.uint8)


def dice(one: torch.Tensor, other: torch.Tensor) -> float:
    return (2 * (one.bool() & other.bool()).sum() / (one.bool().sum() + other.bool().sum())).item()


@pytest.fixture(params=["batch", "sample"], autouse=True)
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is changed at once; the tests hold for both."""
    if request.param == "batch":
        monkeypatch.setitem(globals(), "Augmented", AugmentedAtOnce)
    return str(request.param)


Augmented: type[AugmentedAtOnce] | type[AugmentedBatches] = AugmentedBatches


def epoch(
    kinds: Sequence[AugmentationKind], images: torch.Tensor, labels: torch.Tensor, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    batches = Augmented(SampleBatches(images, labels, 5, torch.device("cpu")), kinds)
    parts = list(batches.epoch(torch.Generator().manual_seed(seed)))
    return torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts])


@pytest.mark.parametrize("extents", [(128, 96), (48, 48, 24)])
def test_annotations_go_with_their_images(extents: Sequence[int]) -> None:
    images, labels = blobs(8, extents)
    changed, annotated = epoch(("rotation", "flip", "elastic"), images, labels)
    assert changed.shape == images.shape
    assert annotated.shape == (8, 1, *extents)
    assert annotated.dtype == labels.dtype
    assert type(changed) is torch.Tensor
    # Nearest neighbours are off by up to half a pixel.
    for image, label in zip(changed, annotated, strict=True):
        assert dice(image > 0.5, label) > (0.975 if len(extents) == 2 else 0.94)
    assert min(dice(image > 0.5, labels[:1]) for image in changed) < 0.8


def test_flips_are_flips_and_about_half_of_each_axis() -> None:
    images, labels = blobs(200, (16, 16))
    changed, annotated = epoch(("flip",), images, labels)
    turned = {
        (rows, columns): images[0].flip([axis for axis, flip in ((1, rows), (2, columns)) if flip])
        for rows in (False, True)
        for columns in (False, True)
    }
    counts = {flips: sum(bool(torch.equal(image, like)) for image in changed) for flips, like in turned.items()}
    assert sum(counts.values()) == 200
    # Four equally likely outcomes: 50 expected, standard deviation 6.
    assert all(25 <= count <= 75 for count in counts.values())
    assert torch.equal(annotated[:, 0] > 0, changed[:, 0] > 0.5)


def test_rotation_stays_within_its_angle_and_in_the_plane() -> None:
    images, labels = blobs(60, (64, 64))
    _, annotated = epoch(("rotation",), images, labels)
    angles = []
    for label in annotated[:, 0]:
        row, column = ndimage.center_of_mass(label.numpy())
        offset = torch.tensor([row - 31.5, column - 31.5])
        before = torch.tensor(ndimage.center_of_mass(labels[0].numpy())) - 31.5
        angles.append(torch.rad2deg(torch.atan2(offset[0], offset[1]) - torch.atan2(before[0], before[1])).item())
    assert max(map(abs, angles)) < 15.5
    assert max(angles) > 8
    assert min(angles) < -8
    assert 15 <= sum(abs(angle) < 1e-6 for angle in angles) <= 45
    volumes, masks = blobs(6, (32, 32, 16))
    changed, _ = epoch(("rotation",), volumes, masks)
    per_slice = volumes[0, 0].sum(dim=(0, 1))
    for volume in changed[:, 0]:
        assert torch.allclose(volume.sum(dim=(0, 1)), per_slice, rtol=0.05)


@pytest.mark.parametrize("extents", [(128, 128), (64, 64, 32)])
def test_elastic_deformation_moves_by_the_documented_fraction_of_a_slice(extents: Sequence[int]) -> None:
    # The row of every pixel as its intensity: what is there after the deformation came from that row.
    rows = torch.arange(extents[0], dtype=torch.float32).reshape(-1, *[1] * (len(extents) - 1)).expand(extents)
    images = rows.expand(24, 1, *extents)
    changed, _ = epoch(("elastic",), images, torch.zeros(24, *extents, dtype=torch.uint8))
    inner = tuple(slice(extent // 4, -extent // 4) for extent in extents)
    moves = [(image[0][inner] - rows[inner]).std().item() / extents[0] for image in changed]
    moved = [move for move in moves if move > 1e-6]
    assert 6 <= len(moved) <= 18
    mean = sum(moved) / len(moved)
    # 0.4 to 1.6 % at the nodes; between them a spline of them moves less.
    assert 0.004 < mean < 0.013


def test_noise_is_on_half_of_the_images_alone_and_bounded() -> None:
    images, labels = torch.zeros(100, 1, 32, 32), torch.ones(100, 32, 32, dtype=torch.uint8)
    changed, annotated = epoch(("noise",), images, labels)
    strengths = changed.flatten(1).std(dim=1)
    assert (annotated == 1).all()
    assert 30 <= (strengths > 0).sum() <= 70
    assert strengths.max() < 0.11
    assert strengths.max() > 0.08


def test_same_seed_same_bits_and_every_epoch_is_another() -> None:
    images, labels = blobs(6)
    first, second, other = (epoch(ALL, images, labels, seed=seed)[0] for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    batches = Augmented(SampleBatches(images, labels, 6, torch.device("cpu")), ALL)
    generator = torch.Generator().manual_seed(0)
    one, two = (next(iter(batches.epoch(generator))).images for _ in range(2))
    assert not torch.equal(one, two)


def test_training_is_augmented_where_the_settings_say_so(unit: str) -> None:
    images, labels = blobs(4)
    case = LoadedCase("volume.nii.gz", "volume", images, labels, None, None)
    description = ImageDescription(channels=1, size=(64, 64), classes=("object",), labels={0: 0, 1: 1})
    data = SiteData("site-1", (case,), description, ())
    plain = training_batches(data, TrainingSettings(), torch.device("cpu"))
    assert isinstance(plain, SampleBatches)
    settings = TrainingSettings.model_validate({"augmentation": ("noise",), "augmentation_unit": unit})
    augmented = training_batches(data, settings, torch.device("cpu"))
    assert isinstance(augmented, Augmented)
    assert augmented.samples_per_epoch == 4


@pytest.mark.parametrize("kinds", [("flip",), ("rotation",), ("elastic", "flip"), ALL])
@pytest.mark.parametrize("extents", [(24, 18), (17, 20, 9)])
def test_labels_are_those_at_the_places_of_the_sample(
    kinds: Sequence[AugmentationKind], extents: Sequence[int]
) -> None:
    """By brute force, and with the bits of batches without places."""
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(9, 1, *extents, generator=generator)
    labels = torch.randint(1, 200, (9, *extents), generator=generator).to(torch.uint8)
    plain, noted = (
        Augmented(SampleBatches(images, labels, 4, torch.device("cpu"), with_places=given), kinds)
        for given in (False, True)
    )
    moved, beyond = 0, 0
    for one, batch in zip(
        *(batches.epoch(torch.Generator().manual_seed(5)) for batches in (plain, noted)), strict=True
    ):
        assert torch.equal(one.images, batch.images)
        assert torch.equal(one.labels, batch.labels)
        assert batch.places is not None
        assert batch.places.shape == (len(batch.images), len(extents), *extents)
        assert batch.places.dtype == torch.int32
        for label, sample, places in zip(batch.labels[:, 0], batch.samples, batch.places, strict=True):
            for index in itertools.product(*map(range, extents)):
                place = tuple(places[(slice(None), *index)].tolist())
                moved += place != index
                # What is put in from beyond the border is background, which these samples do not have.
                assert (label[index] == 0) == (-1 in place)
                if -1 in place:
                    assert set(place) == {-1}
                    beyond += 1
                else:
                    assert label[index] == labels[(int(sample), *place)]
    assert moved
    # A deformation by itself need not reach beyond the border.
    if kinds != ("elastic", "flip"):
        assert bool(beyond) is (kinds != ("flip",))


def test_places_of_augmented_patches_are_those_of_the_volume() -> None:
    """The patch is larger than the volume along two axes: what goes on beyond the border has no place."""
    extents, patch = (12, 10, 14), (16, 10, 20)
    labels = torch.arange(12 * 10 * 14).view(1, *extents) % 199 + 1
    case = LoadedCase("a", "a", labels[:, None].float(), labels.to(torch.uint8), None, None)
    batches = Augmented(PatchBatches([case], patch, 4, 4, torch.device("cpu"), with_places=True), ("rotation", "flip"))
    (batch,) = batches.epoch(torch.Generator().manual_seed(0))
    assert batch.places is not None
    for label, places in zip(batch.labels[:, 0], batch.places, strict=True):
        inside = (places >= 0).all(dim=0)
        assert (places[:, ~inside] == -1).all()
        rows, columns, slices = (axis[inside].long() for axis in places)
        assert torch.equal(label[inside].long(), labels[0, rows, columns, slices])
        assert 0.5 * labels.numel() < int(inside.sum()) <= labels.numel() * 1.05


@pytest.mark.parametrize("extents", [(64, 48), (32, 32, 16)])
def test_ignored_pixels_go_with_their_objects(extents: Sequence[int]) -> None:
    """They are where the object would be, and no other label comes up between them and the background."""
    images, labels = blobs(6, extents)
    _, expected = epoch(ALL, images, labels)
    _, ignored = epoch(ALL, images, labels * IGNORED_LABEL)
    assert ignored.dtype == torch.uint8
    assert torch.equal(ignored, expected * IGNORED_LABEL)


@pytest.mark.parametrize("extents", [(24, 18), (16, 20, 12)])
def test_what_is_drawn_for_a_batch_is_what_scipy_makes_of_it(extents: Sequence[int], unit: str) -> None:
    if unit == "sample":
        pytest.skip("MONAI draws for itself")
    generator = torch.Generator().manual_seed(4)
    images = torch.randn(6, 2, *extents, generator=generator)
    labels = torch.randint(0, 3, (6, 1, *extents), generator=generator).to(torch.uint8)
    draws = KindDraws.of(images.shape, ALL, generator)
    batch = changed_by_kinds(Batch(images, labels, torch.arange(6)), draws)
    shown = shown_pixels(draws, extents, torch.device("cpu")).double().numpy()
    assert 0 < len(draws.resampled) < 6
    assert draws.noise is not None
    for sample in range(6):
        axes = [axis + 1 for axis in range(len(extents)) if draws.mirrored[sample, axis]]
        image, label = images[sample].flip(axes).numpy(), labels[sample].flip(axes).numpy()
        if sample in draws.resampled.tolist():
            at = shown[draws.resampled.tolist().index(sample)]
            image = np.stack([ndimage.map_coordinates(one, at, order=1, mode="nearest") for one in image])
            # Beyond the border, half a pixel further on, is background.
            label = ndimage.map_coordinates(label[0], at, order=0, mode="grid-constant", cval=0)[None]
        torch.testing.assert_close(
            batch.images[sample], torch.from_numpy(image) + draws.noise[sample], atol=1e-4, rtol=0
        )
        # Pixels that lie between two are anyone's.
        assert (batch.labels[sample] != torch.from_numpy(label)).float().mean() < 0.002


def test_a_turn_is_about_the_middle_in_the_plane_of_slices(unit: str) -> None:
    if unit == "sample":
        pytest.skip("MONAI draws for itself")
    angle = torch.tensor([0.2])
    draws = KindDraws(torch.zeros(1, 3, dtype=torch.bool), torch.tensor([0]), angle, None, None)
    shown = shown_pixels(draws, (5, 5, 3), torch.device("cpu"))[0]
    assert shown[:, 2, 2, 1].tolist() == pytest.approx([2, 2, 1])
    # Two pixels below the middle.
    assert shown[:, 4, 2, 0].tolist() == pytest.approx([2 + 2 * math.cos(0.2), 2 + 2 * math.sin(0.2), 0], abs=1e-6)


def test_moves_of_nodes_have_the_documented_spread(unit: str) -> None:
    if unit == "sample":
        pytest.skip("MONAI draws for itself")
    for extents in ((64, 64), (32, 32, 16)):
        draws = KindDraws.of((400, 1, *extents), ("elastic",), torch.Generator().manual_seed(0))
        assert draws.nodes is not None
        widths = draws.nodes.flatten(1).square().mean(dim=1).sqrt() / max(extents)
        # Uniform from 1/256 to 4/256, estimated from a few hundred correlated numbers.
        assert widths.mean().item() == pytest.approx(2.5 / 256, rel=0.1)
        assert widths.min() > 0.5 / 256
        assert widths.max() < 6 / 256
