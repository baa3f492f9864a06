"""The embedded cells on disk: the same bits whoever writes them, mixes of classes that differ, labels as asked for."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from fedannot.custom.data.datalist import TESTING, TRAINING, read_datalist
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.phantoms.cells import write_cell_federation, write_cell_site, write_cell_test
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.phantoms.cell_phantom import CLASSES, SIDE, cell_phantom

COMMON = {"num_sites": 3, "label_noise": "0-S50-C100", "seed": 3}


def hashes(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def labels_of(folder, section=TRAINING):
    cases = read_datalist(folder / "datalist.json").section(section)
    return [case.label for case in cases], [case.clean_label for case in cases]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    out = tmp_path_factory.mktemp("cells") / "federation"
    write_cell_federation(out, images_per_site=60, test_images=16, **COMMON)
    return out


def test_a_site_written_alone_and_later_is_the_same_bit_for_bit(federation, tmp_path):
    write_cell_site(tmp_path / "own", 1, num_images=60, **COMMON)
    assert hashes(tmp_path / "own") == hashes(federation / "site-2")
    write_cell_test(tmp_path / "test", num_images=16, seed=3)
    assert hashes(tmp_path / "test") == hashes(federation / "test")


def test_no_two_images_are_alike_and_another_seed_gives_others(federation, tmp_path):
    images = [digest for name, digest in hashes(federation).items() if "images/" in name]
    assert len(images) == len(set(images)) == 3 * 60 + 16
    write_cell_test(tmp_path / "test", num_images=16, seed=4)
    assert not set(hashes(tmp_path / "test").values()) & set(images)


def test_labels_are_wrong_where_they_should_be(federation):
    given, true = labels_of(federation / "site-1")
    assert given == true
    given, true = (np.array(labels) for labels in labels_of(federation / "site-2"))
    assert 18 <= (given != true).sum() <= 42  # 30 expected, 3 standard deviations
    assert read_manifest(federation / "site-2").class_noise.num_wrong == (given != true).sum()
    given, true = labels_of(federation / "site-3")
    # Clinical: the other grade of the shape, or another shape of the grade.
    pairs = list(zip(given, true, strict=True))
    assert all(one != other and (one // 2 == other // 2 or one % 2 == other % 2) for one, other in pairs)
    assert read_federation(federation).noise == "labels 0-S50-C100"


def test_the_true_labels_do_not_depend_on_the_noise(federation, tmp_path):
    write_cell_federation(tmp_path / "clean", num_sites=3, seed=3, images_per_site=60, test_images=16)
    for site in ("site-1", "site-2", "site-3"):
        assert labels_of(tmp_path / "clean" / site)[0] == labels_of(federation / site)[1]
    assert labels_of(federation / "test", TESTING) == ([*range(8), *range(8)], [None] * 16)


def test_classes_are_imbalanced_and_sites_differ(tmp_path):
    counts = []
    for index in range(4):
        write_cell_site(tmp_path / str(index), index, num_sites=4, num_images=400)
        counts.append(np.bincount(labels_of(tmp_path / str(index))[0], minlength=8))
    total = np.sum(counts, axis=0)
    assert total.max() > 3 * total.min() > 0
    # Each shape has a common and a rare grade.
    assert (total[0::2] > total[1::2]).all()
    shares = np.array(counts) / 400
    assert (shares.std(axis=0) / shares.mean(axis=0)).mean() > 0.1


def test_the_true_loading_path(federation, tmp_path):
    data = load_site_data(federation / "site-2", tmp_path, site="site-2")
    assert data.images.shape == (60, 1, 32, 32)
    assert data.classes == CLASSES
    assert data.labels.tolist() == labels_of(federation / "site-2")[0]
    assert data.clean_labels.tolist() == labels_of(federation / "site-2")[1]


def test_a_cell_is_drawn_in_its_frame_and_by_its_generator_alone():
    first, again = (cell_phantom(5, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    mean = np.mean([cell_phantom(6, np.random.default_rng(seed)) for seed in range(60)], axis=0)
    assert first.shape == (SIDE, SIDE)
    # The cell is brighter than what lies around it.
    assert mean[24:40, 24:40].mean() > 0.5
    assert abs(mean[:3].mean()) < 0.1
    with pytest.raises(ValueError, match="class from 0 to 7, but got label=8"):
        cell_phantom(8, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images_per_site": 0}, "images_per_site=0, expected at least 1"),
        ({"label_noise": "S10-S10"}, "2 entries for 3 sites"),
        ({"label_noise": "M(25,-25,10,0.2)"}, "expected 0, or S, P or C"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        write_cell_federation(tmp_path / "out", **(COMMON | {"images_per_site": 2, "test_images": 2} | changes))
    assert not (tmp_path / "out").exists()


def test_right_labels_need_neither_monai_nor_torch(tmp_path):
    code = (
        "import sys; from pathlib import Path; from fedannot.custom.data.phantoms.cells import write_cell_site;"
        f"write_cell_site(Path({str(tmp_path / 'site')!r}), 0, num_sites=1, num_images=1);"
        "assert not {'monai', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
