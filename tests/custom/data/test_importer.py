import json

import numpy as np
import pytest
from PIL import Image

from fedannot.custom.data.federation import read_federation, read_site_description
from fedannot.custom.data.importer import import_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError


@pytest.fixture
def folders(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "masks"
    images.mkdir()
    labels.mkdir()
    for index in range(10):
        generator = np.random.default_rng(index)
        pixels = generator.integers(0, 255, (12, 9, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(images / f"case_{index}.jpg")
        mask = np.zeros((12, 9), np.uint8)
        mask[2 : 4 + index % 3, 3:7] = 255
        Image.fromarray(mask).save(labels / f"case_{index}.png")
    return images, labels


def names(folder, section):
    return [item["image"] for item in json.loads((folder / "datalist.json").read_text()).get(section, [])]


def test_every_pair_comes_once_and_sites_are_of_equal_size(folders, tmp_path):
    out = tmp_path / "federation"
    report = import_federation(*folders, out, num_sites=3, size=(6, 5), channels=3, seed=1)
    assert report.labels == {0: 0, 255: 1}
    assert report.unpaired == report.excluded == ()
    parts = [names(out / site, "training") for site in read_federation(out).sites] + [names(out / "test", "testing")]
    assert sorted(len(part) for part in parts[:3]) == [2, 3, 3]
    assert len(parts[3]) == 2
    assert sorted(name for part in parts for name in part) == [f"images/case_{index}.jpg" for index in range(10)]
    data = load_site_data(out / "site-1", tmp_path / "cache", site="site-1")
    assert data.images.shape == (3, 3, 6, 5)


def test_files_are_copied_as_they_are_and_the_seed_decides(folders, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        import_federation(*folders, tmp_path / name, num_sites=2, seed=seed)
    copied = tmp_path / "a" / "site-1" / names(tmp_path / "a" / "site-1", "training")[0]
    assert copied.read_bytes() == (folders[0] / copied.name).read_bytes()
    assert not copied.is_symlink()
    first, again, other = (names(tmp_path / name / "site-1", "training") for name in "abc")
    assert first == again != other


def test_validation_comes_from_each_site(folders, tmp_path):
    import_federation(*folders, tmp_path / "out", num_sites=2, test_share=0, validation_share=0.4)
    for site in ("site-1", "site-2"):
        assert len(names(tmp_path / "out" / site, "training")) == 3
        assert len(names(tmp_path / "out" / site, "validation")) == 2
    assert not (tmp_path / "out" / "test").exists()


def test_unusable_and_unpaired_files_are_named(folders, tmp_path):
    images, labels = folders
    (images / "case_0.jpg").write_bytes(b"damaged")
    Image.fromarray(np.zeros((9, 12), np.uint8)).save(labels / "case_1.png")
    (images / "case_2.jpg").unlink()
    (labels / "case_3.png").unlink()
    report = import_federation(images, labels, tmp_path / "out", num_sites=2, test_share=0)
    assert report.unpaired == ("images/case_3.jpg", "masks/case_2.png")
    assert len(report.excluded) == 2
    assert "case_0.jpg: cannot be read" in report.excluded[0]
    assert "9 × 12" in report.excluded[1]
    assert "12 × 9" in report.excluded[1]
    assert len(names(tmp_path / "out" / "site-1", "training")) == 3


def test_masks_that_do_not_explain_themselves_need_a_map(folders, tmp_path):
    mask = np.zeros((12, 9), np.uint8)
    mask[:2], mask[2:4] = 85, 170
    Image.fromarray(mask).save(folders[1] / "case_0.png")
    with pytest.raises(DataError, match=r"case_0\.png: found the label values 0, 85, 170.*--label-map"):
        import_federation(*folders, tmp_path / "out", num_sites=2)
    report = import_federation(
        *folders, tmp_path / "out", num_sites=2, label_map={85: 1, 170: 2, 255: 1}, classes=("lesion", "cyst")
    )
    assert report.excluded == ()
    description = read_site_description(tmp_path / "out" / "site-1")
    assert description.labels == {0: 0, 85: 1, 170: 2, 255: 1}
    assert description.classes == ("lesion", "cyst")


def test_values_0_and_1_explain_themselves(folders, tmp_path):
    for file in folders[1].iterdir():
        Image.fromarray(np.asarray(Image.open(file)) // 255).save(file)
    assert import_federation(*folders, tmp_path / "out", num_sites=2).labels == {0: 0, 1: 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_sites": 9}, r"found 10 usable of 10 pairs, 2 of them for the test set; expected .* each of 9 sites"),
        ({"num_sites": 0}, "found 0 sites, expected at least 1"),
        ({"num_sites": 2, "test_share": 1.0}, r"found test=1\.0, expected a share"),
        ({"num_sites": 2, "include": ["nothing*"]}, r"no pictures in .*images that fit nothing\*, case_0\.png, .*, …"),
        ({"num_sites": 2, "channels": 2}, "Import: key 'channels' is 2"),
        ({"num_sites": 2, "label_map": {255: 2}}, r"'labels' leads to the classes \[0, 2\]"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(folders, tmp_path, options, message):
    with pytest.raises(DataError, match=message):
        import_federation(*folders, tmp_path / "out", **options)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["images", "masks"]


def test_real_ultrasound_lesions(real_data, tmp_path):
    source = real_data / "busi-breast-us" / "seg"
    out = tmp_path / "busi"
    patterns = ("benign_*", "malignant_*")
    report = import_federation(
        source / "images", source / "labels", out, num_sites=6, size=(64, 64), include=patterns, seed=0
    )
    assert report.excluded == report.unpaired == ()
    sites = read_federation(out).sites
    data = [load_site_data(out / site, tmp_path / "cache", site=site) for site in sites]
    data.append(load_site_data(out / "test", tmp_path / "cache", section="testing", site="test"))
    assert sum(part.num_samples for part in data) == 98
    assert all(part.excluded == () and part.labels.flatten(1).any(1).all() for part in data)
