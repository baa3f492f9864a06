"""Batches: every sample once per epoch, patches where they should lie, and a site that is never copied into memory."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from support.volumes import epochs, make_volume

from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.settings import ClassifierTrainingSettings, TrainingSettings
from fedannot.custom.training.augmentation import AugmentedBatches
from fedannot.custom.training.batches import (
    ClassBatches,
    PatchBatches,
    SampleBatches,
    cut_patch,
    training_batches,
    turned_and_mirrored,
)

CPU = torch.device("cpu")


def test_samples_come_with_their_labels_in_the_order_of_the_generator():
    images = torch.arange(7.0).view(7, 1, 1, 1).expand(7, 1, 3, 2).contiguous()
    batches = SampleBatches(images, images[:, 0].long(), 3, CPU)
    assert batches.samples_per_epoch == 7
    order = torch.Generator().manual_seed(0)
    for epoch in epochs(batches, 2):
        expected = torch.randperm(7, generator=order).tolist()
        assert [value for batch in epoch for value in batch.images[:, 0, 0, 0].tolist()] == expected
        assert [len(batch.images) for batch in epoch] == [3, 3, 1]
        assert all(torch.equal(batch.images.long(), batch.labels) for batch in epoch)


@pytest.mark.parametrize(
    ("centre", "extents"),
    [
        ((5, 6, 7), (4, 4, 4)),
        ((5, 6, 7), (3, 5, 1)),  # odd extents
        ((0, 8, 11), (4, 4, 4)),  # moved inward at both ends
        ((2, 4, 6), (10, 9, 12)),  # the whole volume
        ((2, 4, 6), (13, 4, 15)),  # smaller than the patch in two axes
        ((9, 0, 11), (40, 30, 20)),  # smaller by more than its own size
    ],
)
def test_patch_is_where_index_arithmetic_says(centre, extents):
    volume = torch.arange(2 * 10 * 9 * 12).view(2, 10, 9, 12)
    indices = []
    for middle, extent, length in zip(centre, extents, (10, 9, 12), strict=True):
        if extent >= length:
            positions = np.arange(extent) - (extent - length) // 2
        else:
            positions = np.arange(extent) + np.clip(middle - extent // 2, 0, length - extent)
        indices.append(np.clip(positions, 0, length - 1))
    expected = volume.numpy()[np.ix_([0, 1], *indices)]
    np.testing.assert_array_equal(cut_patch(volume.float(), centre, extents).numpy(), expected)
    labels = (volume % 251).to(torch.uint8)
    assert torch.equal(cut_patch(labels, centre, extents), torch.from_numpy(expected % 251).to(torch.uint8))


def test_a_patch_holds_its_centre_in_the_middle_where_there_is_room():
    volume = torch.zeros(1, 9, 9, 9)
    volume[0, 4, 5, 3] = 1
    assert cut_patch(volume, (4, 5, 3), (5, 5, 5))[0, 2, 2, 2] == 1


def test_every_volume_gives_its_patches_in_every_epoch_with_image_and_label_of_one_place():
    sizes = [(8, 9, 10), (12, 6, 7), (5, 20, 4)]
    generator = np.random.default_rng(0)
    cases = []
    for number, size in enumerate(sizes):
        label = torch.from_numpy(generator.integers(0, 3, size))
        cases.append(make_volume(label, image=10.0 * number + label))
    batches = PatchBatches(cases, (4, 4, 4), 5, 4, CPU)
    assert batches.samples_per_epoch == 15
    orders = []
    for epoch in epochs(batches, 3):
        assert [len(batch.images) for batch in epoch] == [4, 4, 4, 3]
        images = torch.cat([batch.images for batch in epoch])
        labels = torch.cat([batch.labels for batch in epoch])
        assert images.shape == labels.shape == (15, 1, 4, 4, 4)
        volumes = (images - labels)[:, 0]
        assert all(len(volume.unique()) == 1 for volume in volumes)
        orders.append(tuple(volumes[:, 0, 0, 0].tolist()))
        assert Counter(orders[-1]) == {0.0: 5, 10.0: 5, 20.0: 5}
    assert len(set(orders)) == 3


@pytest.mark.parametrize("augmentation", [(), ("noise",)])
def test_batches_say_which_samples_or_volumes_they_are_of(augmentation):
    """The label of every voxel is the number of its sample or volume."""
    labels = torch.arange(7).view(7, 1, 1).expand(7, 8, 8).to(torch.uint8).contiguous()
    volumes = [make_volume(torch.full((8, 8, 8), float(number)).to(torch.uint8)) for number in range(5)]
    for batches in (
        SampleBatches(labels[:, None].float(), labels, 3, CPU),
        PatchBatches(volumes, (4, 4, 4), 2, 3, CPU),
    ):
        used = AugmentedBatches(batches, augmentation) if augmentation else batches
        seen = []
        for batch in used.epoch(torch.Generator().manual_seed(0)):
            assert batch.samples.dtype == torch.int64
            assert batch.samples.tolist() == batch.labels.flatten(1)[:, 0].tolist()
            seen += batch.samples.tolist()
        assert len(seen) == used.samples_per_epoch


def test_the_generator_decides_the_patches():
    label = torch.from_numpy(np.random.default_rng(1).integers(0, 2, (16, 16, 16)))
    cases = [make_volume(label, torch.arange(16.0**3).view(16, 16, 16))] * 2
    runs = []
    for seed, global_seed in ((1, 0), (1, 5), (2, 0)):
        torch.manual_seed(global_seed)
        batches = PatchBatches(cases, (4, 4, 4), 2, 3, CPU)
        runs.append(torch.cat([batch.images for epoch in epochs(batches, 2, seed) for batch in epoch]))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def anonymous_megabytes():
    """Memory that is no part of a file."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads Linux's account of the process's memory")
@pytest.mark.parametrize("kind", ["samples", "patches"])
def test_a_site_on_disk_is_not_copied_into_memory(tmp_path, kind):
    """128 MB of images on disk, in batches of 2 to 4 MB."""
    file = tmp_path / "image.bin"
    with file.open("wb") as target:
        target.truncate(128 * 2**20)
    flat = torch.from_numpy(np.memmap(file, dtype=np.float32, mode="c"))
    before = anonymous_megabytes()
    if kind == "samples":
        labels = torch.zeros((), dtype=torch.uint8).expand(128, 512, 512)
        batches = SampleBatches(flat.view(128, 1, 512, 512), labels, 4, CPU)
    else:
        volumes = flat.view(16, 128, 128, 128)
        label = torch.zeros(128, 128, 128, dtype=torch.uint8)
        batches = PatchBatches([make_volume(label, volume) for volume in volumes], (64, 64, 64), 2, 2, CPU)
    generator = torch.Generator().manual_seed(0)
    most = max(anonymous_megabytes() for _ in batches.epoch(generator))
    assert most - before < 40


@pytest.mark.parametrize(
    ("count", "sizes"), [(9, [4, 5]), (8, [4, 4]), (10, [4, 4, 2]), (1, [1]), (5, [5]), (4, [4]), (13, [4, 4, 5])]
)
def test_classes_come_with_their_images_and_no_batch_of_one_is_left_over(count, sizes):
    images = torch.arange(float(count)).view(count, 1, 1, 1).expand(count, 1, 2, 2).contiguous()
    batches = ClassBatches(images, torch.arange(count, dtype=torch.uint8), 4, CPU, augmentation=True)
    (epoch,) = epochs(batches, 1)
    assert [len(batch.labels) for batch in epoch] == sizes
    assert all(torch.equal(batch.images[:, 0, 0, 0].long(), batch.labels) for batch in epoch)
    assert all(torch.equal(batch.samples, batch.labels) for batch in epoch)
    assert sorted(label for batch in epoch for label in batch.labels.tolist()) == list(range(count))


def test_images_are_turned_and_mirrored_in_all_eight_ways():
    image = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    expected = {
        tuple(np.rot90(flipped, turn).ravel().tolist()) for turn in range(4) for flipped in (image, image.T.numpy())
    }
    changed = turned_and_mirrored(image.expand(400, 1, 2, 2), torch.Generator().manual_seed(0))
    counts = Counter(tuple(picture.flatten().tolist()) for picture in changed)
    assert set(counts) == expected
    assert len(counts) == 8
    # 50 of each are expected; four standard deviations are 26.
    assert min(counts.values()) > 24
    assert max(counts.values()) < 76


def test_images_with_different_sides_keep_them():
    images = torch.arange(6.0).view(1, 1, 2, 3).expand(50, 1, 2, 3)
    changed = turned_and_mirrored(images, torch.Generator().manual_seed(0))
    kinds = {tuple(picture.flatten().tolist()) for picture in changed}
    assert kinds == {(0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (2, 1, 0, 5, 4, 3), (3, 4, 5, 0, 1, 2)}


# --- places

EXTENTS = ((9, 8, 7), (5, 20, 4), (8, 9, 10))


def noted_volumes():
    """Volumes whose image is the flat position of every voxel, with random labels."""
    generator = np.random.default_rng(3)
    return [
        make_volume(
            torch.from_numpy(generator.integers(0, 3, extents)), torch.arange(float(np.prod(extents))).view(extents)
        )
        for extents in EXTENTS
    ]


@pytest.mark.parametrize("extents", [(5, 4), (5, 4, 3)])
def test_places_of_whole_samples_are_their_own_pixels(extents):
    images = torch.zeros(4, 1, *extents)
    plain, noted = (SampleBatches(images, images[:, 0], 3, CPU, with_places=given) for given in (False, True))
    for batch in noted.epoch(torch.Generator().manual_seed(0)):
        assert batch.places.shape == (len(batch.images), len(extents), *extents)
        assert batch.places.dtype == torch.int32
        for index in np.ndindex(extents):
            assert batch.places[(0, slice(None), *index)].tolist() == list(index)
    assert all(batch.places is None for batch in plain.epoch(torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("patch", [(4, 4, 4), (3, 5, 1), (12, 4, 6), (16, 30, 12)])
def test_a_patch_shows_the_voxels_at_its_places_and_nowhere_else(patch):
    cases = noted_volumes()
    plain, noted = (PatchBatches(cases, patch, 3, 4, CPU, with_places=given) for given in (False, True))
    beyond = 0
    for one, batch in zip(
        *(batches.epoch(torch.Generator().manual_seed(1)) for batches in (plain, noted)), strict=True
    ):
        assert torch.equal(one.images, batch.images)
        assert torch.equal(one.labels, batch.labels)
        assert torch.equal(one.samples, batch.samples)
        for image, label, sample, places in zip(batch.images, batch.labels, batch.samples, batch.places, strict=True):
            case, shown = cases[int(sample)], []
            for index in np.ndindex(*patch):
                place = tuple(places[(slice(None), *index)].tolist())
                if -1 in place:
                    assert place == (-1, -1, -1)
                    beyond += 1
                else:
                    shown.append(place)
                    assert image[(0, *index)] == case.image[(0, 0, *place)]
                    assert label[(0, *index)] == case.label[(0, *place)]
            # Every voxel of the volume once, at most; along an axis all of them where the patch is longer.
            assert len(set(shown)) == len(shown)
            assert len(shown) == np.prod(np.minimum(patch, case.label.shape[1:]))
    longer = [np.prod(patch) - np.prod(np.minimum(patch, extents)) for extents in EXTENTS]
    assert beyond == 3 * sum(longer)


# --- some of the samples, with other labels

FLAGS = torch.tensor([True, False, True, True, False, True, True])


def site_of(images, labels):
    """A site whose cases are the samples, each by itself."""
    cases = tuple(
        LoadedCase(str(number), str(number), image[None], label[None], None, None)
        for number, (image, label) in enumerate(zip(images, labels, strict=True))
    )
    # The description is of none of the tensors: what it says of their size is not read.
    description = ImageDescription(channels=1, size=(8, 8), classes=("object",), labels={0: 0, 1: 1})
    return SiteData("site-1", cases, description, ())


def numbered(extents):
    """Seven samples whose pixels are all the sample's number, with labels that are it, too."""
    images = torch.arange(7.0).view(7, 1, *[1] * len(extents)).expand(7, 1, *extents).contiguous()
    return images, images[:, 0].to(torch.uint8)


@pytest.mark.parametrize("kind", ["samples", "patches", "classes"])
def test_a_part_of_the_samples_with_other_labels_comes_with_their_index_among_all(kind):
    extents = (8, 8, 8) if kind == "patches" else (8, 8)
    images, labels = numbered(extents)
    if kind == "classes":
        training, given = ClassifierTrainingSettings(batch_size=2, augmentation=False), torch.zeros(7)
        others = torch.arange(7) + 10
    else:
        training, given, others = TrainingSettings(batch_size=2), labels * 0, labels + 10
        if kind == "patches":
            # Without the check that a patch is as large as a network needs.
            training = training.model_copy(update={"patch": (4, 4, 4)})
    data = site_of(images, given)
    batches = training_batches(data, training, CPU, labels=others, used=FLAGS)
    seen = []
    for batch in batches.epoch(torch.Generator().manual_seed(0)):
        assert batch.samples.tolist() == batch.images.flatten(1)[:, 0].tolist()
        assert batch.labels.reshape(len(batch.labels), -1)[:, 0].tolist() == (batch.samples + 10).tolist()
        seen += batch.samples.tolist()
    times = training.patches_per_volume if kind == "patches" else 1
    assert sorted(seen) == sorted([0, 2, 3, 5, 6] * times)
    assert batches.samples_per_epoch == 5 * times


def test_a_part_of_the_samples_is_drawn_as_if_there_were_no_others():
    images, labels = numbered((3, 3))
    generators = [torch.Generator().manual_seed(4) for _ in range(2)]
    part = SampleBatches(images, labels, 2, CPU, used=FLAGS).epoch(generators[0])
    alone = SampleBatches(images[FLAGS], labels[FLAGS], 2, CPU).epoch(generators[1])
    for one, other in zip(part, alone, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"used": torch.zeros(7, dtype=torch.bool)}, "a flag for each of 7 samples, one of them set, but got 0 set"),
        ({"used": FLAGS[:3]}, r"a flag for each of 7 samples, one of them set, but got 2 set of shape \(3,\)"),
        ({"labels": torch.zeros(6, 8, 8)}, "a label for each of 7 samples, but got 6"),
    ],
)
def test_what_does_not_go_with_the_samples_is_refused(options, message):
    data = site_of(*numbered((8, 8)))
    with pytest.raises(ValueError, match=message):
        training_batches(data, TrainingSettings(), CPU, **options)


@pytest.mark.parametrize(("extents", "sizes"), [((24, 31), [3, 3, 4]), ((16, 17), [3, 3, 4]), ((24, 32), [3, 3, 3, 1])])
def test_a_single_small_image_goes_with_the_batch_before(extents, sizes):
    """Below 32 × 32 the U-Net shrinks an image to one pixel, over which alone nothing can be normalised."""
    images = torch.zeros(10, 1, *extents)
    batches = SampleBatches(images, images[:, 0].long(), 3, CPU)
    assert [len(batch.images) for batch in batches.epoch(torch.Generator().manual_seed(0))] == sizes
