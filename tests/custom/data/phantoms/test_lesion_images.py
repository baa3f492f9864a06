"""Images with one lesion on disk: masks with noise as asked for, the clean ones beside."""

import hashlib

import numpy as np
import pytest
from PIL import Image

from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation, write_phantom_site
from fedannot.custom.data.site_data import load_site_data

NOISE = LesionImages("M(25,-25,10,0.5)", exact=True, stratified=0.5)


def hashes(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    out = tmp_path_factory.mktemp("embedded") / "federation"
    write_phantom_federation(out, NOISE, num_sites=4, seed=3, images_per_site=3, test_images=2)
    return out


def test_more_images_leave_the_first_ones_as_they_are(federation, tmp_path):
    write_phantom_site(tmp_path / "more", 0, NOISE, num_sites=4, seed=3, num_images=4)
    few, more = hashes(federation / "site-1"), hashes(tmp_path / "more")
    assert all(more[name] == few[name] for name in few if name.endswith(".png"))


def test_manifest_agrees_with_the_files(federation):
    for site in ("site-1", "site-2", "site-3", "site-4"):
        noise = read_manifest(federation / site).noise
        data = load_site_data(federation / site, federation.parent / "cache", site=site)
        noisy, clean = data.labels.numpy() == 1, data.clean_labels.numpy() == 1
        dice = [2 * (a & b).sum() / (a.sum() + b.sum()) for a, b in zip(noisy, clean, strict=True)]
        assert noise.dice == pytest.approx(np.mean(dice))
        assert noise.dice < 0.95
        assert noise.area_ratio == pytest.approx(noisy.sum() / clean.sum())
        assert (noise.area_ratio > 1) == (noise.mean > 0)
        assert 12.5 <= abs(noise.mean) <= 25
    means = [read_manifest(federation / f"site-{index}").noise.mean for index in range(1, 5)]
    assert sum(mean > 0 for mean in means) == 2


def test_without_noise_labels_are_the_clean_ones(tmp_path):
    write_phantom_site(tmp_path / "site", 0, LesionImages(), num_sites=1, num_images=2)
    for index in (1, 2):
        name = f"lesion_{index:03d}.png"
        given, clean = (np.asarray(Image.open(tmp_path / "site" / kind / name)) for kind in ("labels", "clean_labels"))
        np.testing.assert_array_equal(given, clean)
        assert set(np.unique(given)) == {0, 255}
        assert given.shape == (64, 64)
    assert read_manifest(tmp_path / "site").noise is None


def test_the_test_set_can_be_loaded(federation):
    data = load_site_data(federation / "test", federation.parent / "cache", section="testing", site="test")
    assert data.num_samples == 2
