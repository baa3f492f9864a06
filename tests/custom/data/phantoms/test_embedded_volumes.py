"""The embedded volumes on disk: the same bits whoever writes them, and labels that lack what the manifest says."""

import hashlib

import nibabel
import numpy as np
import pytest

from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.overview import federation_overview
from fedannot.custom.data.phantoms.volumes import write_volume_federation, write_volume_site, write_volume_test
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.errors import DataError
from fedannot.transforms.noise.missing_lesions import num_kept
from fedannot.transforms.phantoms.multi_lesion_phantom import SHAPE, SPACING

SHARES = (0.2, 0.5, 1.0)
COMMON = {"num_sites": 3, "completeness": SHARES, "seed": 3}


def hashes(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def voxels(file):
    return np.asarray(nibabel.load(file).dataobj)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    out = tmp_path_factory.mktemp("volumes") / "federation"
    write_volume_federation(out, volumes_per_site=3, test_volumes=2, **COMMON)
    return out


def test_a_site_written_alone_and_later_is_the_same_bit_for_bit(federation, tmp_path):
    write_volume_site(tmp_path / "own", 1, num_volumes=3, **COMMON)
    assert hashes(tmp_path / "own") == hashes(federation / "site-2")
    write_volume_test(tmp_path / "test", num_volumes=2, seed=3)
    assert hashes(tmp_path / "test") == hashes(federation / "test")


def test_no_two_volumes_are_alike_and_another_seed_gives_others(federation, tmp_path):
    images = [digest for name, digest in hashes(federation).items() if "images/" in name]
    assert len(images) == len(set(images)) == 3 * 3 + 2
    write_volume_test(tmp_path / "test", num_volumes=2, seed=4)
    assert not set(hashes(tmp_path / "test").values()) & set(images)


def test_every_volume_keeps_its_share_of_whole_lesions(federation):
    for site, share in zip(("site-1", "site-2", "site-3"), SHARES, strict=True):
        found = 0
        for file in sorted((federation / site / "labels").iterdir()):
            given, complete = voxels(file), voxels(federation / site / "clean_labels" / file.name)
            lesions, count = label_lesions(complete)
            kept = [number for number in range(1, count + 1) if given[lesions == number].all()]
            assert len(kept) == num_kept(count, share)
            assert np.array_equal(given != 0, np.isin(lesions, kept))
            found += len(kept)
        missing = read_manifest(federation / site).missing_lesions
        assert (missing.completeness, missing.num_kept) == (share, found)


def test_overview_has_the_share_and_the_dice(federation):
    rows = {row.site: row for row in federation_overview(federation)}
    assert rows["site-3"].completeness == rows["site-3"].dice == 1.0
    assert rows["site-1"].completeness < rows["site-2"].completeness < 1
    assert rows["site-1"].dice < rows["site-2"].dice < 1
    assert rows["test"].completeness is rows["test"].dice is None


def test_complete_labels_everywhere_without_a_share(tmp_path):
    write_volume_site(tmp_path / "site", 0, num_sites=1, num_volumes=2)
    for file in (tmp_path / "site" / "labels").iterdir():
        assert np.array_equal(voxels(file), voxels(tmp_path / "site" / "clean_labels" / file.name))
    assert read_manifest(tmp_path / "site").missing_lesions is None


def test_sites_load_them_as_slices_in_millimetres(federation, tmp_path):
    data = load_site_data(federation / "site-1", tmp_path / "cache", site="site-1")
    assert data.num_samples == 3 * SHAPE[2]
    case = data.cases[0]
    assert tuple(case.image.shape) == (SHAPE[2], 1, *SHAPE[:2])
    assert case.spacing == pytest.approx(SPACING[:2])
    assert case.slice_spacing == pytest.approx(SPACING[2])
    label = voxels(federation / "site-1" / "labels" / "volume_001.nii.gz")
    assert np.array_equal(np.moveaxis(case.label.numpy(), 0, -1), label)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"completeness": (0.5, 1.0)}, r"found 2 values for 3 sites; expected one for each"),
        ({"completeness": (0.5, 1.0, 1.5)}, r"found \[1\.5\]; expected shares from 0 to 1"),
        ({"volumes_per_site": 0}, r"found volumes_per_site=0, expected at least 1"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(changes, reason, tmp_path):
    with pytest.raises(DataError, match=reason):
        write_volume_federation(tmp_path / "out", **(COMMON | changes))
    assert not (tmp_path / "out").exists()


def test_a_site_that_the_federation_does_not_have_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"found site_index=3, expected 0 to 2"):
        write_volume_site(tmp_path / "site", 3, num_sites=3)
