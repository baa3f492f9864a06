"""Which slices are trained on: every n-th, and of those without annotation a share, spread evenly."""

import json

import nibabel
import numpy as np
import pytest
import torch

from fedannot.custom.data.description import SliceDescription, write_site_description
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batches import training_batches
from fedannot.custom.training.trained_slices import slices_of, trained_slices

CPU = torch.device("cpu")


def chosen(annotated, stride=1, share=1.0):
    flags = torch.tensor([letter == "x" for letter in annotated])
    return slices_of(flags, stride, share).nonzero().flatten().tolist()


@pytest.mark.parametrize(
    ("annotated", "stride", "share", "expected"),
    [
        ("........", 1, 1.0, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("........", 3, 1.0, [1, 4, 7]),
        # Half of eight empty ones, in the middle of each pair.
        ("........", 1, 0.5, [1, 3, 5, 7]),
        ("..xx....", 1, 0.0, [2, 3]),
        ("..xx....", 1, 0.5, [1, 2, 3, 5, 7]),
        # Of every second slice 3 is annotated, and 1, 5, 7 are not.
        ("...x....", 2, 0.34, [3, 5]),
        # Never nothing of a volume.
        ("........", 1, 0.0, [4]),
        (".", 5, 0.0, [0]),
        ("...", 9, 1.0, [1]),
    ],
)
def test_slices_by_hand(annotated, stride, share, expected):
    assert chosen(annotated, stride, share) == expected


@pytest.mark.parametrize("share", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("count", [3, 10, 57])
def test_the_share_is_kept_and_spread_evenly(share, count):
    result = chosen("." * count, share=share)
    assert len(result) == max(round(share * count), 1)
    steps = np.diff(result)
    assert np.ptp(steps) <= 1 if len(steps) else True


@pytest.fixture
def site(tmp_path):
    """Two volumes of ten slices; of the first, slices 4 to 6 are annotated, of the second none."""
    items = []
    for number in range(2):
        voxels = np.random.default_rng(number).normal(size=(8, 8, 10)).astype("f4")
        mask = np.zeros((8, 8, 10), np.uint8)
        mask[2:5, 2:5, 4:7] = 1 - number
        for kind, array in (("image", voxels), ("label", mask)):
            nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), tmp_path / f"{kind}_{number}.nii")
        items.append({kind: f"{kind}_{number}.nii" for kind in ("image", "label")})
    (tmp_path / "datalist.json").write_text(json.dumps({"training": items}), encoding="utf-8")

    def load(**changes):
        description = SliceDescription(classes=("lesion",), labels={0: 0, 1: 1}, size=(8, 8), **changes)
        write_site_description(tmp_path, description)
        return load_site_data(tmp_path, tmp_path / "cache", site="site-1")

    return load


def trained_on(data, **options):
    batches = training_batches(data, TrainingSettings(batch_size=3), CPU, **options)
    epoch = batches.epoch(torch.Generator().manual_seed(0))
    return sorted(int(sample) for batch in epoch for sample in batch.samples), batches.samples_per_epoch


def test_training_takes_the_slices_that_the_description_names(site):
    assert trained_on(site()) == (list(range(20)), 20)
    assert trained_slices(site(), site().labels) is None
    # Of ten slices 1, 3, 5, 7, 9 are in step; 5 is annotated, of the others one in four counts.
    assert trained_on(site(stride=2, empty_slices=0.25)) == ([5, 7, 15], 3)
    data = site(empty_slices=0.0)
    assert trained_on(data)[0] == [4, 5, 6, 15]
    assert data.num_samples == len(data.images) == 20


def test_annotations_that_count_otherwise_decide(site):
    data = site(empty_slices=0.0)
    labels = data.labels.clone()
    labels[:] = 0
    labels[12, 3, 3] = 1
    labels[17] = 255
    assert trained_on(data, labels=labels)[0] == [5, 12]
    used = torch.zeros(20, dtype=torch.bool)
    used[:2] = True
    assert trained_on(data, used=used)[0] == [0, 1]


def test_what_is_trained_on_decodes_nothing_again(site, tmp_path):
    site()
    before = {file.name for file in (tmp_path / "cache").rglob("*.bin")}
    site(stride=3, empty_slices=0.5)
    assert {file.name for file in (tmp_path / "cache").rglob("*.bin")} == before
