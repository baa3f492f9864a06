"""What is found between sites: sites that do not fit together, and cases that two of them have."""

import pytest
from checked_sites import PICTURES, federation, only, picture, picture_site, pixels, square, summary, write_site

from fedannot.apps.checking.checking import check_folder
from fedannot.transforms.errors import DataError


def check(folder):
    report = check_folder(folder)
    return {site.site: site for site in report.sites}, report


@pytest.fixture
def folder(tmp_path):
    """Two sites with a common test set, without any fault."""
    federation(tmp_path, ["site-1", "site-2"])
    picture_site(tmp_path / "site-1")
    picture_site(tmp_path / "site-2", first=10)
    items = picture_site(tmp_path / "test", first=20)
    write_site(tmp_path / "test", PICTURES, {"testing": items})
    return tmp_path


def test_a_federation_without_fault_has_no_finding(folder):
    sites, report = check(folder)
    assert [(name, site.role) for name, site in sites.items()] == [
        ("site-1", "site"),
        ("site-2", "site"),
        ("test", "test"),
    ]
    assert all(summary(site) == [] for site in sites.values())
    assert report.can_train
    assert report.name == "trial"


def test_an_image_at_two_sites_is_reported_to_each_with_its_own_file_only(folder):
    items = picture_site(folder / "site-2", first=10)
    items.append(picture(folder / "site-2", "theirs", pixels(1), square()))
    write_site(folder / "site-2", PICTURES, {"training": items})
    sites, _ = check(folder)
    assert summary(sites["site-1"]) == [("warning", "shared-images", ("images/case_1.png",))]
    assert summary(sites["site-2"]) == [("warning", "shared-images", ("images/theirs.png",))]
    text = sites["site-1"].findings[0].found
    assert "at site-2: 1 image (training here, training there)" in text
    assert "theirs" not in text


def test_a_training_image_in_the_common_test_set_is_leakage(folder):
    items = picture_site(folder / "test", first=20)
    items.append(picture(folder / "test", "seen", pixels(11), square()))
    write_site(folder / "test", PICTURES, {"testing": items})
    sites, report = check(folder)
    assert summary(sites["site-2"]) == [("warning", "test-leakage", ("images/case_11.png",))]
    assert summary(sites["site-1"]) == summary(sites["test"]) == []
    assert report.can_train


def test_a_sites_own_test_image_may_be_in_the_common_test_set(folder):
    items = picture_site(folder / "site-1")
    write_site(folder / "site-1", PICTURES, {"training": items[:2], "testing": items[2:]})
    write_site(folder / "test", PICTURES, {"testing": [picture(folder / "test", "seen", pixels(2), square())]})
    sites, _ = check(folder)
    assert summary(sites["site-1"]) == []


@pytest.mark.parametrize(("source", "found"), [("a", True), ("b", False)])
def test_a_patient_at_a_site_and_in_the_test_set_is_leakage_if_the_source_is_the_same(folder, source, found):
    items = picture_site(folder / "site-1")
    items[2] |= {"group": "p7", "source": "a"}
    write_site(folder / "site-1", PICTURES, {"training": items})
    tested = picture_site(folder / "test", first=20)
    tested[0] |= {"group": "p7", "source": source}
    write_site(folder / "test", PICTURES, {"testing": tested})
    sites, _ = check(folder)
    expected = [("warning", "test-group-leakage", ("images/case_2.png",))] if found else []
    assert summary(sites["site-1"]) == expected


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("[lesion]", "[tumour]", "found classes tumour; other sites have lesion"),
        ("channels: 1", "channels: 3", "found channels 3; other sites have 1"),
    ],
)
def test_a_site_that_is_described_otherwise_cannot_train_with_the_others(folder, old, new, found):
    (folder / "site-2" / "data.yaml").write_text(PICTURES.replace(old, new))
    sites, report = check(folder)
    assert found in only(sites["site-2"], "unlike-other-sites").found
    assert summary(sites["site-1"]) == []
    assert not report.can_train


def test_segmentation_in_a_classification_federation_is_an_error(folder):
    federation(folder, ["site-1", "site-2"], task="classification")
    sites, report = check(folder)
    assert "found task segmentation; federation.yaml says classification" in sites["site-1"].findings[0].found
    assert not report.can_train


def test_a_site_without_description_does_not_stop_the_check_of_the_others(folder):
    (folder / "site-1" / "data.yaml").unlink()
    (folder / "site-2" / "labels" / "case_10.png").unlink()
    sites, report = check(folder)
    assert summary(sites["site-1"]) == [("error", "site-unusable", ())]
    assert summary(sites["site-2"]) == [("error", "missing-file", ("labels/case_10.png",))]
    assert not report.can_train


def test_a_test_set_without_usable_case_stops_the_federation(folder):
    write_site(folder / "test", PICTURES, {"training": picture_site(folder / "test")})
    sites, report = check(folder)
    assert only(sites["test"], "no-usable-case").blocks_training
    assert not report.can_train


def test_a_folder_that_is_neither_federation_nor_site_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"found neither federation\.yaml nor data\.yaml"):
        check_folder(tmp_path)


def test_names_of_one_hospital_tell_its_patients_whatever_the_others_call_theirs(folder):
    names = [f"patient{number:02d}_{side}" for number in range(4) for side in ("left", "right")]
    items = [picture(folder / "site-1", name, pixels(100 + index), square()) for index, name in enumerate(names)]
    right = [item for item in items if "right" in item["image"]]
    lists = {"training": [item for item in items if item not in right], "validation": right}
    write_site(folder / "site-1", PICTURES, lists)
    others = ("kq", "zv", "xb", "mw", "rt", "ph", "cd", "fy", "gj")
    for site, first in (("site-2", 200), ("test", 300)):
        items = [
            picture(folder / site, f"{name}{site[0]}", pixels(first + i), square()) for i, name in enumerate(others)
        ]
        write_site(folder / site, PICTURES, {"testing" if site == "test" else "training": items})
    sites, _ = check(folder)
    leaking = sorted(f"images/{name}.png" for name in names)
    ((severity, kind, files),) = summary(sites["site-1"])
    assert (severity, kind, sorted(files)) == ("warning", "likely-patient-leakage", leaking)
    assert summary(sites["site-2"]) == summary(sites["test"]) == []
