"""Batches: every sample once per epoch, patches where they should lie, and a site that is never copied into memory."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.training import batches as module
from fedannot.custom.training.augmentation import AugmentedBatches
from fedannot.custom.training.batches import (
    ClassBatches,
    PatchBatches,
    SampleBatches,
    cut_patch,
    turned_and_mirrored,
)

CPU = torch.device("cpu")


def make_volume(label, image=None):
    label = label.to(torch.uint8)
    image = label.float() if image is None else image
    return LoadedCase("a", "a", image[None, None], label[None], None, None)


def epochs(batches, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [list(batches.epoch(generator)) for _ in range(count)]


def test_samples_come_with_their_labels_in_the_order_of_the_generator():
    images = torch.arange(7.0).view(7, 1, 1, 1).expand(7, 1, 3, 2).contiguous()
    batches = SampleBatches(images, images[:, 0].long(), 3, CPU)
    assert batches.samples_per_epoch == 7
    order = torch.Generator().manual_seed(0)
    for epoch in epochs(batches, 2):
        expected = torch.randperm(7, generator=order).tolist()
        assert [value for pictures, _ in epoch for value in pictures[:, 0, 0, 0].tolist()] == expected
        assert [len(pictures) for pictures, _ in epoch] == [3, 3, 1]
        assert all(torch.equal(pictures.long(), labels) for pictures, labels in epoch)


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
        assert [len(images) for images, _ in epoch] == [4, 4, 4, 3]
        images = torch.cat([images for images, _ in epoch])
        labels = torch.cat([labels for _, labels in epoch])
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
        for _, found in used.epoch(torch.Generator().manual_seed(0)):
            assert used.samples_at_hand.tolist() == found.flatten(1)[:, 0].tolist()
            seen += used.samples_at_hand.tolist()
        assert len(seen) == used.samples_per_epoch


def classes_at_centres(cases, count, patch=(3, 3, 3)):
    """How often each class lies at the centre of a patch, in some epochs of one patch for each volume."""
    found = Counter()
    batches = PatchBatches(cases, patch, 1, 8, CPU)
    for epoch in epochs(batches, count):
        for _, labels in epoch:
            found.update(labels[:, 0, 1, 1, 1].tolist())
    return found


def test_half_of_the_patches_are_centred_on_objects_however_small():
    label = torch.zeros(20, 20, 20)
    label[10, 10, 10] = 1
    found = classes_at_centres([make_volume(label)], 400)
    # Four standard deviations of 400 tosses of a coin are 40.
    assert abs(found[1] - 200) < 40
    assert found[0] + found[1] == 400


def test_classes_are_as_likely_as_each_other_however_large():
    label = torch.zeros(20, 20, 20)
    label[2:18, 2:18, 2:18] = 1
    label[10, 10, 10] = 3
    found = classes_at_centres([make_volume(label)], 800)
    assert set(found) == {0, 1, 3}
    assert abs(found[1] - 200) < 50
    assert abs(found[3] - 200) < 50


@pytest.mark.parametrize("value", [0, 2])
def test_a_volume_of_one_class_alone_gives_patches_too(value):
    assert classes_at_centres([make_volume(torch.full((6, 6, 6), value))], 20) == {value: 20}


def test_positions_are_spread_over_objects_of_which_a_part_is_kept(monkeypatch):
    monkeypatch.setattr(module, "_KEPT_POSITIONS", 50)
    label = torch.ones(12, 12, 12)
    batches = PatchBatches(
        [make_volume(label, torch.arange(12.0).view(12, 1, 1).expand(12, 12, 12))], (1, 1, 1), 300, 300, CPU
    )
    ((images, _),) = epochs(batches, 1)[0:1][0]
    assert set(images.flatten().tolist()) == set(range(12))


def test_the_generator_decides_the_patches():
    label = torch.from_numpy(np.random.default_rng(1).integers(0, 2, (16, 16, 16)))
    cases = [make_volume(label, torch.arange(16.0**3).view(16, 16, 16))] * 2
    runs = []
    for seed, global_seed in ((1, 0), (1, 5), (2, 0)):
        torch.manual_seed(global_seed)
        batches = PatchBatches(cases, (4, 4, 4), 2, 3, CPU)
        runs.append(torch.cat([images for epoch in epochs(batches, 2, seed) for images, _ in epoch]))
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
    assert [len(labels) for _, labels in epoch] == sizes
    assert all(torch.equal(pictures[:, 0, 0, 0].long(), labels) for pictures, labels in epoch)
    assert sorted(label for _, labels in epoch for label in labels.tolist()) == list(range(count))


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
