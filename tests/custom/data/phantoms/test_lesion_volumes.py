"""Volumes with several lesions on disk: labels lack what the manifest says."""

import nibabel
import numpy as np
import pytest

from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.overview import federation_overview
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation, write_phantom_site
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.noise.missing_lesions import num_kept
from fedannot.transforms.phantoms.multi_lesion_phantom import SHAPE, SPACING

SHARES = (0.2, 0.5, 1.0)


def voxels(file):
    return np.asarray(nibabel.load(file).dataobj)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    out = tmp_path_factory.mktemp("volumes") / "federation"
    write_phantom_federation(out, LesionVolumes(SHARES), num_sites=3, seed=3, images_per_site=3, test_images=2)
    return out


def test_every_volume_keeps_its_fraction_of_whole_lesions(federation):
    for site, share in zip(("site-1", "site-2", "site-3"), SHARES, strict=True):
        result = 0
        for file in sorted((federation / site / "labels").iterdir()):
            given, complete = voxels(file), voxels(federation / site / "clean_labels" / file.name)
            lesions, count = label_lesions(complete)
            kept = [number for number in range(1, count + 1) if given[lesions == number].all()]
            assert len(kept) == num_kept(count, share)
            assert np.array_equal(given != 0, np.isin(lesions, kept))
            result += len(kept)
        missing = read_manifest(federation / site).missing_lesions
        assert (missing.completeness, missing.num_kept) == (share, result)


def test_overview_has_the_share_and_the_dice(federation):
    rows = {row.site: row for row in federation_overview(federation)}
    assert rows["site-3"].completeness == rows["site-3"].dice == 1.0
    assert rows["site-1"].completeness < rows["site-2"].completeness < 1
    assert rows["site-1"].dice < rows["site-2"].dice < 1
    assert rows["test"].completeness is rows["test"].dice is None


def test_complete_labels_everywhere_without_a_share(tmp_path):
    write_phantom_site(tmp_path / "site", 0, LesionVolumes(), num_sites=1, num_images=2)
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
