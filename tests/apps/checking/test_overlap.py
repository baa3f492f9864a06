"""Fingerprints that hospitals exchange, and what can be concluded from them."""

import hashlib
import hmac
import json

import pytest
from checked_sites import PICTURES, picture, picture_site, pixels, square, write_site
from PIL import Image

from fedannot.apps.checking.checking import check_site
from fedannot.apps.checking.fingerprints import fingerprint, read_fingerprints, write_fingerprints
from fedannot.apps.checking.overlap import Overlap, find_overlaps
from fedannot.transforms.errors import DataError

SALT = "correct horse"


@pytest.fixture
def hospitals(tmp_path):
    """Two hospitals with one image in common, in a's training and b's testing list, and a patient of one source."""
    mine = picture_site(tmp_path / "a")
    mine[0] |= {"group": "p1", "source": "trial"}
    mine[1] |= {"group": "p2"}
    write_site(tmp_path / "a", PICTURES, {"training": mine})
    theirs = picture_site(tmp_path / "b", first=10)
    theirs[0] |= {"group": "p1", "source": "trial"}
    theirs[1] |= {"group": "p2"}
    shared = picture(tmp_path / "b", "their_name", pixels(2), square())
    write_site(tmp_path / "b", PICTURES, {"training": theirs, "testing": [shared]})
    return tmp_path


def written(folder, name, salt=SALT):
    file = folder / f"{name}.json"
    write_fingerprints(file, [check_site(folder / name, name).facts], salt)
    return file


def test_fingerprints_are_hmacs():
    expected = hmac.new(b"salt", b"image:abc", hashlib.sha256).hexdigest()
    assert fingerprint(b"salt", "image", "abc") == expected


def test_common_images_and_patients_are_counted_by_list(hospitals):
    sites, overlaps = find_overlaps([written(hospitals, "a"), written(hospitals, "b")])
    assert sites == ["a", "b"]
    # The patient p2 has no source: both hospitals may well have a second patient.
    assert overlaps == [
        Overlap(("a", "training"), ("b", "training"), images=0, groups=1),
        Overlap(("a", "training"), ("b", "testing"), images=1, groups=0),
    ]


def test_a_file_of_fingerprints_names_nothing_but_the_site(hospitals):
    text = written(hospitals, "b").read_text(encoding="utf-8")
    for word in ("their_name", "case_", "png", "p1", "trial", SALT, str(hospitals)):
        assert word not in text
    content = json.loads(text)
    assert content.keys() == {"content", "version", "salt_check", "sites"}
    lists = content["sites"][0]["lists"]
    assert {name: len(values["images"]) for name, values in lists.items()} == {"training": 3, "testing": 1}
    assert lists["training"]["images"] == sorted(lists["training"]["images"])


def test_constant_images_have_no_fingerprint(hospitals):
    Image.new("L", (16, 16), 5).save(hospitals / "a" / "images" / "case_0.png")
    (site,) = read_fingerprints(written(hospitals, "a")).sites
    assert len(site.lists["training"].images) == 2


def test_another_salt_gives_other_fingerprints_and_is_refused(hospitals):
    first, second = written(hospitals, "a"), written(hospitals, "b", "battery staple")
    with pytest.raises(DataError, match=r"b\.json: made with another salt than .*a\.json"):
        find_overlaps([first, second])
    (other,) = read_fingerprints(second).sites
    (same,) = read_fingerprints(written(hospitals, "b")).sites
    assert not set(other.lists["training"].images) & set(same.lists["training"].images)


def test_sites_of_one_name_are_distinguished_by_their_files(hospitals):
    first, second = written(hospitals, "a"), written(hospitals, "b")
    second.write_text(second.read_text(encoding="utf-8").replace('"site": "b"', '"site": "a"'))
    sites, overlaps = find_overlaps([first, second])
    assert sites == [f"a ({first})", f"a ({second})"]
    assert len(overlaps) == 2


@pytest.mark.parametrize("content", ["[]", "{}", '{"content": "fedannot check", "version": 1}'])
def test_another_file_is_refused(hospitals, content):
    file = written(hospitals, "a")
    file.write_text(content)
    with pytest.raises(DataError, match=r"a\.json"):
        find_overlaps([file, file])


def test_one_site_alone_cannot_be_compared(hospitals):
    with pytest.raises(DataError, match="found 1 site"):
        find_overlaps([written(hospitals, "a")])


def test_a_short_salt_is_refused(hospitals):
    with pytest.raises(DataError, match="found 5 characters, expected at least 8"):
        written(hospitals, "a", "short")
