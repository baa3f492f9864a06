"""Cells on disk: mixes of classes that differ, labels as asked for."""

import numpy as np
import pytest

from fedannot.custom.data.datalist import TESTING, TRAINING, read_datalist
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation, write_phantom_site
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.phantoms.cell_phantom import CLASSES, SIDE, cell_phantom


def labels_of(folder, section=TRAINING):
    cases = read_datalist(folder / "datalist.json").section(section)
    return [case.label for case in cases], [case.clean_label for case in cases]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    out = tmp_path_factory.mktemp("cells") / "federation"
    write_phantom_federation(out, Cells("0-S50-C100"), num_sites=3, seed=3, images_per_site=60, test_images=16)
    return out


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
    write_phantom_federation(tmp_path / "clean", Cells(), num_sites=3, seed=3, images_per_site=60, test_images=16)
    for site in ("site-1", "site-2", "site-3"):
        assert labels_of(tmp_path / "clean" / site)[0] == labels_of(federation / site)[1]
    assert labels_of(federation / "test", TESTING) == ([*range(8), *range(8)], [None] * 16)


def test_classes_are_imbalanced_and_sites_differ(tmp_path):
    counts = []
    for index in range(4):
        write_phantom_site(tmp_path / str(index), index, Cells(), num_sites=4, num_images=400)
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
