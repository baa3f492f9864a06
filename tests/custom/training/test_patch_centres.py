"""Centres of patches: on objects and the background as often as they should be, not on ignored voxels."""

from collections import Counter

import pytest
import torch
from support.volumes import epochs, make_volume

from fedannot.custom.training import patches
from fedannot.custom.training.batches import PatchBatches
from fedannot.transforms.ignored_label import IGNORED_LABEL

CPU = torch.device("cpu")


def classes_at_centres(cases, count, patch=(3, 3, 3)):
    """How often each class lies at the centre of a patch, in some epochs of one patch for each volume."""
    result = Counter()
    batches = PatchBatches(cases, patch, 1, 8, CPU)
    for epoch in epochs(batches, count):
        for batch in epoch:
            result.update(batch.labels[:, 0, 1, 1, 1].tolist())
    return result


def test_half_of_the_patches_are_centred_on_objects_however_small():
    label = torch.zeros(20, 20, 20)
    label[10, 10, 10] = 1
    result = classes_at_centres([make_volume(label)], 400)
    # Four standard deviations of 400 tosses of a coin are 40.
    assert abs(result[1] - 200) < 40
    assert result[0] + result[1] == 400


def test_classes_are_as_likely_as_each_other_however_large():
    label = torch.zeros(20, 20, 20)
    label[2:18, 2:18, 2:18] = 1
    label[10, 10, 10] = 3
    result = classes_at_centres([make_volume(label)], 800)
    assert set(result) == {0, 1, 3}
    assert abs(result[1] - 200) < 50
    assert abs(result[3] - 200) < 50


@pytest.mark.parametrize("value", [0, 2])
def test_a_volume_of_one_class_alone_gives_patches_too(value):
    assert classes_at_centres([make_volume(torch.full((6, 6, 6), value))], 20) == {value: 20}


def test_positions_are_spread_over_objects_of_which_a_part_is_kept(monkeypatch):
    monkeypatch.setattr(patches, "_KEPT_POSITIONS", 50)
    label = torch.ones(12, 12, 12)
    batches = PatchBatches(
        [make_volume(label, torch.arange(12.0).view(12, 1, 1).expand(12, 12, 12))], (1, 1, 1), 300, 300, CPU
    )
    ((batch,),) = epochs(batches, 1)
    assert set(batch.images.flatten().tolist()) == set(range(12))


# --- a share of patches on objects


@pytest.mark.parametrize(("share", "on_object"), [(1 / 3, 2), (0.5, 3), (0.0, 0), (1.0, 6)])
def test_a_share_of_each_batch_is_centred_on_objects(share, on_object):
    """The only object voxel of 27,000 is otherwise a centre by chance alone."""
    label = torch.zeros(30, 30, 30)
    label[10, 10, 10] = 1
    batches = PatchBatches([make_volume(label)], (3, 3, 3), 12, 6, CPU, foreground_share=share)
    counts = [int((batch.labels[:, 0, 1, 1, 1] == 1).sum()) for epoch in epochs(batches, 4) for batch in epoch]
    assert counts == [on_object] * 8


def test_of_single_patches_the_share_is_a_chance():
    label = torch.zeros(20, 20, 20)
    label[10, 10, 10] = 1
    batches = PatchBatches([make_volume(label)], (3, 3, 3), 1, 1, CPU, foreground_share=1 / 3)
    count = sum(int(batch.labels[0, 0, 1, 1, 1] == 1) for epoch in epochs(batches, 300) for batch in epoch)
    # Four standard deviations of 300 draws with a chance of a third are 33.
    assert abs(count - 100) < 33


def test_other_patches_lie_at_every_position_of_a_volume_as_often():
    """Also where the whole volume is ignored or has no object; each patch shows the number of its first voxel."""
    volume = torch.arange(6.0).view(6, 1, 1).expand(6, 4, 2)
    for value in (0, 255):
        case = make_volume(torch.full((6, 4, 2), value), volume)
        batches = PatchBatches([case], (3, 4, 4), 400, 400, CPU, foreground_share=1 / 3)
        ((batch,),) = epochs(batches, 1)
        result = Counter(batch.images[:, 0, 0, 0, 0].tolist())
        assert set(result) == {0, 1, 2, 3}
        # Four standard deviations of 400 draws with a chance of a quarter are 35.
        assert all(abs(count - 100) < 35 for count in result.values())


# --- ignored voxels


def test_no_patch_is_centred_on_ignored_voxels():
    """Most of the volume is ignored; objects of two classes and the background lie at its borders."""
    label = torch.full((20, 20, 20), IGNORED_LABEL)
    label[:2] = 0
    label[19, 3, 3] = 1
    label[19, 15:18, 15] = 2
    result = classes_at_centres([make_volume(torch.nn.functional.pad(label, [1] * 6, value=IGNORED_LABEL))], 800)
    assert set(result) == {0, 1, 2}
    # Half on the background, a quarter on each class; four standard deviations are 57 and 49.
    assert abs(result[0] - 400) < 57
    assert abs(result[1] - 200) < 49


def test_patches_of_a_volume_with_ignored_voxels_are_those_with_background_there():
    """Where no draw meets them: what is drawn is the same."""
    background = torch.zeros(16, 16, 16)
    background[4:7, 4:7, 4:7] = 1
    ignored = background.clone()
    ignored[0, 0, 0] = IGNORED_LABEL
    runs = [
        torch.cat(
            [
                batch.places
                for epoch in epochs(PatchBatches([make_volume(label)], (4, 4, 4), 8, 4, CPU, with_places=True), 3)
                for batch in epoch
            ]
        )
        for label in (background, ignored)
    ]
    assert torch.equal(*runs)


def test_the_only_voxel_that_is_not_ignored_is_found():
    label = torch.full((30, 30, 30), IGNORED_LABEL)
    label[12, 13, 14] = 0
    assert classes_at_centres([make_volume(label)], 20) == {0: 20}


def test_a_volume_of_which_all_is_ignored_gives_patches_from_everywhere():
    label = torch.full((6, 6, 6), IGNORED_LABEL)
    places = torch.arange(6.0).view(6, 1, 1).expand(6, 6, 6)
    batches = PatchBatches([make_volume(label, places)], (1, 1, 1), 100, 100, CPU)
    ((batch,),) = epochs(batches, 1)
    assert set(batch.images.flatten().tolist()) == set(range(6))
    assert (batch.labels == IGNORED_LABEL).all()
