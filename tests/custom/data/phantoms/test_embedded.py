import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.phantoms.lesions import write_phantom_federation, write_phantom_site, write_phantom_test
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError

NOISE = {"noise": "M(25,-25,10,0.5)", "exact": True, "stratified": 0.5, "seed": 3}


def hashes(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    out = tmp_path_factory.mktemp("embedded") / "federation"
    write_phantom_federation(out, num_sites=4, images_per_site=3, test_images=2, **NOISE)
    return out


def test_a_site_written_alone_is_the_same_bit_for_bit(federation, tmp_path):
    write_phantom_site(tmp_path / "own", 2, num_sites=4, num_images=3, **NOISE)
    assert hashes(tmp_path / "own") == hashes(federation / "site-3")
    write_phantom_test(tmp_path / "test", num_images=2, seed=3)
    assert hashes(tmp_path / "test") == hashes(federation / "test")


def test_writing_again_gives_the_same_bits_and_another_seed_others(federation, tmp_path):
    write_phantom_federation(tmp_path / "again", num_sites=4, images_per_site=3, test_images=2, **NOISE)
    assert hashes(tmp_path / "again") == hashes(federation)
    write_phantom_site(tmp_path / "other", 0, num_sites=4, num_images=3, **(NOISE | {"seed": 4}))
    image = "images/lesion_001.png"
    assert hashes(tmp_path / "other")[image] != hashes(federation / "site-1")[image]


def test_more_images_leave_the_first_ones_as_they_are(federation, tmp_path):
    write_phantom_site(tmp_path / "more", 0, num_sites=4, num_images=4, **NOISE)
    few, more = hashes(federation / "site-1"), hashes(tmp_path / "more")
    assert all(more[name] == few[name] for name in few if name.endswith(".png"))


def test_no_two_images_are_alike(federation):
    images = [digest for name, digest in hashes(federation).items() if "/images/" in f"/{name}"]
    assert len(images) == len(set(images)) == 4 * 3 + 2


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
    write_phantom_site(tmp_path / "site", 0, num_sites=1, num_images=2)
    for index in (1, 2):
        name = f"lesion_{index:03d}.png"
        given, clean = (np.asarray(Image.open(tmp_path / "site" / kind / name)) for kind in ("labels", "clean_labels"))
        np.testing.assert_array_equal(given, clean)
        assert set(np.unique(given)) == {0, 255}
        assert given.shape == (64, 64)
    assert read_manifest(tmp_path / "site").noise is None


def test_test_set_is_clean_and_has_its_own_list(federation):
    assert list(json.loads((federation / "test" / "datalist.json").read_text(encoding="utf-8"))) == ["testing"]
    data = load_site_data(federation / "test", federation.parent / "cache", section="testing", site="test")
    assert data.num_samples == 2


def test_a_folder_with_files_is_refused_and_a_failure_leaves_nothing(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(DataError, match="full: found a folder with files in it; expected an empty or absent"):
        write_phantom_federation(tmp_path / "full", num_sites=1)
    with pytest.raises(DataError, match=r"M\(1,2\)"):
        write_phantom_federation(tmp_path / "out", num_sites=1, noise="M(1,2)")
    assert [file.name for file in tmp_path.iterdir()] == ["full"]


def test_clean_phantoms_need_neither_monai_nor_torch(tmp_path):
    code = (
        "import sys; from pathlib import Path; from fedannot.custom.data.phantoms.lesions import write_phantom_site;"
        f"write_phantom_site(Path({str(tmp_path / 'site')!r}), 0, num_sites=1, num_images=1);"
        "assert not {'monai', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
