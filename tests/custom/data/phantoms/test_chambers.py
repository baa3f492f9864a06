"""Heart chambers on disk: labels follow each site's protocol, the generic ones lie beside."""

import nibabel
import numpy as np
import pytest

from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.overview import federation_overview
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.writer import write_phantom_federation, write_phantom_site
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.noise.follow_protocol import FollowProtocol
from fedannot.transforms.noise.site_protocol import SiteProtocol
from fedannot.transforms.phantoms.chamber_phantom import SHAPE, SPACING

PROTOCOLS = "0-C(12,8)-D(12,8)"


def voxels(file):
    return np.asarray(nibabel.load(file).dataobj)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    out = tmp_path_factory.mktemp("chambers") / "federation"
    write_phantom_federation(out, Chambers(PROTOCOLS), num_sites=3, seed=3, images_per_site=2, test_images=3)
    return out


@pytest.mark.parametrize(("site", "text"), [("site-1", "0"), ("site-2", "C(12,8)"), ("site-3", "D(12,8)")])
def test_training_labels_have_both_parts_of_the_protocol_and_validation_labels_the_systematic_one(
    federation, site, text
):
    protocol = SiteProtocol.parse(text)
    systematic = FollowProtocol(protocol, systematic_only=True)
    datalist = read_datalist(federation / site / "datalist.json")
    pairs = {
        section: [(voxels(case.label), voxels(case.clean_label)) for case in datalist.section(section)]
        for section in ("training", "validation")
    }
    assert [len(pairs["training"]), len(pairs["validation"])] == [2, 6]
    for given, generic in pairs["validation"]:
        assert np.array_equal(given, systematic(generic))
    for given, generic in pairs["training"]:
        expected = np.asarray(systematic(generic))
        if protocol.kind == "none":
            assert np.array_equal(given, generic)
        elif protocol.kind == "C":
            assert np.all(given <= expected)
            assert given.sum() < expected.sum()
        else:
            assert np.all(given >= expected)
            assert given.sum() > expected.sum()


def test_the_test_set_is_of_unseen_centres_with_generic_labels(federation):
    cases = read_datalist(federation / "test" / "datalist.json").section("testing")
    assert [case.source for case in cases] == ["unseen-1", "unseen-2", "unseen-1"]
    assert all(case.clean_label is None for case in cases)


def test_overview_and_manifest_say_what_the_protocols_did(federation):
    rows = {row.site: row for row in federation_overview(federation)}
    assert [rows[f"site-{number}"].protocol for number in (1, 2, 3)] == [None, "C(12,8,4,0.25)", "D(12,8,4,0.25)"]
    assert rows["site-1"].dice == 1.0
    assert rows["test"].dice is None
    areas = [read_manifest(federation / f"site-{number}").protocol.area_ratio for number in (1, 2, 3)]
    assert areas[1] < areas[0] == 1.0 < areas[2]
    assert read_federation(federation).noise == f"protocols {PROTOCOLS}"


def test_generic_labels_everywhere_without_protocols(tmp_path):
    write_phantom_site(tmp_path / "site", 0, Chambers(), num_sites=1, num_images=1)
    for file in (tmp_path / "site" / "labels").iterdir():
        assert np.array_equal(voxels(file), voxels(tmp_path / "site" / "clean_labels" / file.name))
    assert read_manifest(tmp_path / "site").protocol is None


def test_sites_load_them_as_slices_in_millimetres(federation, tmp_path):
    data = load_site_data(federation / "site-1", tmp_path / "cache", site="site-1")
    assert data.num_samples == 2 * SHAPE[2]
    assert tuple(data.cases[0].image.shape) == (SHAPE[2], 1, *SHAPE[:2])
    assert data.cases[0].spacing == pytest.approx(SPACING[:2])
