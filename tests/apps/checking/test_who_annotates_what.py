"""The check says which site annotates which classes, and what ignored pixels are; they count as nothing else."""

import numpy as np
import pytest
from checked_sites import federation, only, picture, pixels, square, write_site

from fedannot.apps.checking.checking import check_folder
from fedannot.apps.checking.contact_sheet import draw_contact_sheet
from fedannot.apps.checking.report import report_as_json
from fedannot.apps.checking.table import print_report
from fedannot.apps.terminal import Terminal

FIRST = "pipeline: image2d\nchannels: 1\nsize: [16, 16]\nclasses: [liver, cyst]\n"
BOTH = FIRST + "labels: {0: 0, 1: 1, 2: 2}\n"
LIVER = FIRST + "labels: {0: 0, 1: 1}\nannotated_classes: [liver]\n"
IGNORED = BOTH + "ignore: [200]\n"


def site(folder, description, values=(1, 2), ignored=0, first=0):
    """A site with a square of each value, and as many columns of the value 200."""
    items = []
    for index, value in enumerate(values, start=first):
        mask = square(value=value)
        mask[:, :ignored] = 200
        items.append(picture(folder, f"case_{index}", pixels(index), mask))
    write_site(folder, description, {"training": items})


@pytest.fixture
def report(tmp_path):
    """A site that annotates all, one without a class, one with ignored pixels."""
    federation(tmp_path, ["all", "some", "ignoring"])
    site(tmp_path / "all", BOTH)
    site(tmp_path / "some", LIVER, values=(1, 1), first=2)
    site(tmp_path / "ignoring", IGNORED, ignored=2, first=4)
    return check_folder(tmp_path)


def text_of(report, tmp_path):
    file = tmp_path / "report.txt"
    with file.open("w") as stream:
        print_report(report, Terminal(file=stream, width=140))
    return file.read_text()


def rows_of(text):
    """The cells of a table by the name of the site in the first."""
    cells = (line.split() for line in text.splitlines() if line.strip() and "─" not in line)
    rows = {}
    for first, *others in cells:
        rows.setdefault(first, others)
    return rows


def test_a_table_says_who_annotates_what(report, tmp_path):
    rows = rows_of(text_of(report, tmp_path).split("Who annotates what")[1])
    assert rows["all"] == ["liver,", "cyst", "-", "-", "-"]
    assert rows["some"] == ["liver", "cyst", "-", "-"]
    assert rows["ignoring"] == ["liver,", "cyst", "-", "200", "12.5%"]


def test_the_table_of_classes_counts_no_class_that_is_not_annotated(report, tmp_path):
    rows = rows_of(text_of(report, tmp_path).split("each class")[1].split("Who annotates")[0])
    assert (rows["all"], rows["some"], rows["ignoring"]) == (["1", "1"], ["2", "-"], ["1", "1"])


def test_nothing_is_wrong_with_a_site_that_does_not_annotate_a_class_or_ignores_pixels(report):
    assert report.can_train
    assert [(site.site, [finding.kind for finding in site.findings]) for site in report.sites] == [
        ("all", []),
        ("some", []),
        ("ignoring", []),
    ]


def test_the_json_has_what_is_not_annotated_and_ignored(report):
    sites = report_as_json(report)["sites"]
    assert [site["not_annotated"] for site in sites] == [[], ["cyst"], []]
    assert [site["ignored_values"] for site in sites] == [[], [], [200]]


def test_a_federation_that_annotates_everything_has_no_such_table(tmp_path):
    site(tmp_path, BOTH)
    assert "Who annotates what" not in text_of(check_folder(tmp_path), tmp_path)


def test_a_class_that_nobody_annotates_is_a_warning(tmp_path):
    federation(tmp_path, ["one", "two"])
    for first, name in enumerate(("one", "two")):
        site(tmp_path / name, LIVER, values=(1, 1), first=2 * first)
    finding = only(check_folder(tmp_path).sites[0], "annotated-by-nobody")
    assert finding.severity.value == "warning"
    assert "no site that annotates cyst" in finding.found


def test_a_value_of_another_site_is_an_error_that_names_the_file(tmp_path):
    federation(tmp_path, ["all"])
    site(tmp_path / "all", BOTH, ignored=2)
    report = check_folder(tmp_path)
    assert not report.can_train
    first = next(finding for finding in report.sites[0].findings if finding.kind == "label-values")
    assert first.files == ("labels/case_0.png",)
    assert "found the label values 0, 1, 200, expected only 0, 1, 2" in first.found


def test_a_case_of_which_all_is_ignored_is_a_warning(tmp_path):
    site(tmp_path, IGNORED, ignored=16)
    assert only(check_folder(tmp_path).sites[0], "ignored-everywhere").files == (
        "labels/case_0.png",
        "labels/case_1.png",
    )


def test_ignored_pixels_have_a_place_in_contact_sheets(report, tmp_path):
    drawn = [
        draw_contact_sheet(report.sites[2], tmp_path / f"{prepared}.png", prepared=prepared)
        for prepared in (False, True)
    ]
    assert all(file is not None and file.stat().st_size > np.prod((10, 10)) for file in drawn)
