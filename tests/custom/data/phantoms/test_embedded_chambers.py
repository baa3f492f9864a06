"""The embedded chambers on disk: the same bits whoever writes them, and labels that follow each site's protocol."""

import hashlib

import nibabel
import numpy as np
import pytest

from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.overview import federation_overview
from fedannot.custom.data.phantoms.chambers import write_chamber_federation, write_chamber_site, write_chamber_test
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.noise.follow_protocol import FollowProtocol
from fedannot.transforms.noise.site_protocol import SiteProtocol
from fedannot.transforms.phantoms.chamber_phantom import SHAPE, SPACING

PROTOCOLS = "0-C(12,8)-D(12,8)"
COMMON = {"num_sites": 3, "protocols": PROTOCOLS, "seed": 3}


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
    out = tmp_path_factory.mktemp("chambers") / "federation"
    write_chamber_federation(out, volumes_per_site=2, test_volumes=3, **COMMON)
    return out


def test_a_site_written_alone_and_later_is_the_same_bit_for_bit(federation, tmp_path):
    write_chamber_site(tmp_path / "own", 1, num_volumes=2, **COMMON)
    assert hashes(tmp_path / "own") == hashes(federation / "site-2")
    write_chamber_test(tmp_path / "test", num_volumes=3, seed=3)
    assert hashes(tmp_path / "test") == hashes(federation / "test")


def test_no_two_volumes_are_alike(federation):
    images = [digest for name, digest in hashes(federation).items() if "images/" in name]
    assert len(images) == len(set(images)) == 3 * (2 + 6) + 3


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
    write_chamber_site(tmp_path / "site", 0, num_sites=1, num_volumes=1)
    for file in (tmp_path / "site" / "labels").iterdir():
        assert np.array_equal(voxels(file), voxels(tmp_path / "site" / "clean_labels" / file.name))
    assert read_manifest(tmp_path / "site").protocol is None


def test_sites_load_them_as_slices_in_millimetres(federation, tmp_path):
    data = load_site_data(federation / "site-1", tmp_path / "cache", site="site-1")
    assert data.num_samples == 2 * SHAPE[2]
    assert tuple(data.cases[0].image.shape) == (SHAPE[2], 1, *SHAPE[:2])
    assert data.cases[0].spacing == pytest.approx(SPACING[:2])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"protocols": "0-C"}, r"Protocols 0-C: found 2 entries for 3 sites; expected 1 or all"),
        ({"protocols": "E"}, r"Found the protocol 'E'; expected 0"),
        ({"test_volumes": 0}, r"found test_volumes=0, expected at least 1"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(changes, reason, tmp_path):
    with pytest.raises(DataError, match=reason):
        write_chamber_federation(tmp_path / "out", **(COMMON | changes))
    assert not (tmp_path / "out").exists()
