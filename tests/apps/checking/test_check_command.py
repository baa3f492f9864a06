"""`fedannot data check` and `fedannot data overlap` as a person calls them."""

import json
import os

import pytest
from checked_sites import PICTURES, federation, picture, picture_site, pixels, square, write_site
from typer.testing import CliRunner

from fedannot.apps.commands.data import data_app


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    """Default outputs go to the working folder."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "140")


def run(*arguments):
    return CliRunner().invoke(data_app, [str(argument) for argument in arguments])


def check(*arguments):
    return run("check", *arguments, "--no-pictures")


def test_a_good_site_ends_with_code_0(tmp_path):
    picture_site(tmp_path / "site")
    result = check(tmp_path / "site")
    assert result.exit_code == 0, result.output
    assert "Every site can train." in result.output
    assert list((tmp_path / "work").iterdir()) == []


def test_a_site_that_cannot_train_ends_with_code_1_and_is_named(tmp_path):
    federation(tmp_path / "data", ["good", "bad"])
    picture_site(tmp_path / "data" / "good")
    picture_site(tmp_path / "data" / "bad", description=PICTURES.replace("255", "1"))
    result = check(tmp_path / "data")
    assert result.exit_code == 1
    assert "Cannot be used as they are: bad." in result.output
    assert "If 255 marks the lesion, write in data.yaml: labels: {0: 0, 255: 1}." in result.output
    assert "Traceback" not in result.output


def test_an_unusable_case_alone_ends_with_code_0(tmp_path):
    picture_site(tmp_path / "site")
    (tmp_path / "site" / "images" / "case_0.png").write_bytes(b"damaged")
    result = check(tmp_path / "site")
    assert result.exit_code == 0, result.output
    assert "images/case_0.png: cannot be read as an image" in result.output


def test_a_folder_that_is_nothing_ends_with_one_line_and_code_1(tmp_path):
    result = check(tmp_path)
    assert result.exit_code == 1
    assert "found neither federation.yaml nor data.yaml" in result.output
    assert "Traceback" not in result.output


def test_of_many_files_five_are_shown_and_the_others_counted(tmp_path):
    picture_site(tmp_path / "site", count=8)
    for index in range(7):
        (tmp_path / "site" / "labels" / f"case_{index}.png").unlink()
    result = check(tmp_path / "site", "--json", tmp_path / "report.json")
    assert "labels/case_4.png" in result.output
    assert "labels/case_5.png" not in result.output
    assert "and 2 more" in result.output
    (site,) = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["sites"]
    assert [finding["files"] for finding in site["findings"]] == [[f"labels/case_{index}.png"] for index in range(7)]


def test_the_worst_comes_first(tmp_path):
    items = picture_site(tmp_path / "site", count=4)
    items.append(picture(tmp_path / "site", "copy", pixels(1), square()))
    write_site(tmp_path / "site", PICTURES, {"training": items})
    (tmp_path / "site" / "images" / "case_3.png").unlink()
    output = check(tmp_path / "site").output
    assert output.index("missing-file") < output.index("duplicate")


def test_markup_in_file_names_is_printed_as_it_is(tmp_path):
    items = [picture(tmp_path / "site", f"[red]{index}", pixels(index), square()) for index in range(2)]
    write_site(tmp_path / "site", PICTURES, {"training": items})
    (tmp_path / "site" / "images" / "[red]1.png").unlink()
    assert "images/[red]1.png: found no such file" in check(tmp_path / "site").output


def test_the_json_has_its_keys_whatever_was_found(tmp_path):
    federation(tmp_path / "data", ["good", "unusable"])
    items = picture_site(tmp_path / "data" / "good")
    write_site(tmp_path / "data" / "good", PICTURES, {"training": items[:2], "validation": items[2:]})
    (tmp_path / "data" / "good" / "labels" / "case_1.png").unlink()
    result = check(tmp_path / "data", "--json", tmp_path / "new" / "report.json")
    assert result.exit_code == 1
    report = json.loads((tmp_path / "new" / "report.json").read_text(encoding="utf-8"))
    sites = report.pop("sites")
    assert report == {"content": "fedannot check", "version": 1, "name": "trial", "can_train": False}
    of_data = ["pipeline", "lists", "classes", "not_annotated", "ignored_values", "images"]
    keys = ["site", "role", "can_train", *of_data, "counts", "findings"]
    assert [list(site) for site in sites] == [keys, keys]
    good, unusable = sites
    (finding,) = good.pop("findings")
    assert list(finding) == ["severity", "kind", "files", "found", "remedy", "scope", "blocks_training"]
    assert (finding["severity"], finding["kind"]) == ("error", "missing-file")
    assert (finding["files"], finding["scope"]) == (["labels/case_1.png"], "case")
    assert finding["blocks_training"] is False
    images = good.pop("images")
    assert good == {
        "site": "good",
        "role": "site",
        "can_train": True,
        "pipeline": "image2d",
        "lists": {"training": {"items": 2, "usable": 1}, "validation": {"items": 1, "usable": 1}},
        "classes": {"training": {"lesion": 1}, "validation": {"lesion": 1}},
        "not_annotated": [],
        "ignored_values": [],
        "counts": {"error": 1, "warning": 0, "note": 0},
    }
    assert (images["readable"], images["voxel_types"], images["spacing_mm"]) == (3, {"L": 3}, None)
    assert images["shape"] == {"smallest": [1, 16, 16], "largest": [1, 16, 16]}
    assert (unusable["pipeline"], unusable["can_train"], unusable["lists"]) == (None, False, {})


def test_contact_sheets_lie_in_a_default_folder_that_is_printed(tmp_path):
    picture_site(tmp_path / "somewhere")
    result = run("check", tmp_path / "somewhere")
    assert result.exit_code == 0, result.output
    sheet = tmp_path / "work" / "runs" / "check" / "somewhere" / "somewhere.png"
    assert sheet.is_file()
    assert str(sheet.parent.relative_to(tmp_path / "work")) in result.output
    assert [file.name for file in sheet.parent.iterdir()] == ["somewhere.png"]
    assert (
        run("check", tmp_path / "somewhere", "--no-pictures", "--prepared", "--out", tmp_path / "seen").exit_code == 0
    )
    assert [file.name for file in (tmp_path / "seen").iterdir()] == ["somewhere-prepared.png"]


def salt_file(folder, salt):
    file = folder / "salt.txt"
    file.write_text(f"{salt}\n")
    return file


def test_a_salt_is_no_argument(tmp_path):
    """Every account of a machine reads the arguments of a process."""
    picture_site(tmp_path / "site")
    result = check(tmp_path / "site", "--salt", "correct horse")
    assert result.exit_code == 2
    assert "--salt-file" in result.output


@pytest.mark.parametrize(
    ("content", "found"), [(None, "cannot be read"), (b"a\nb\n", "2 lines"), (b"\xff", "cannot be read")]
)
def test_a_file_that_is_no_salt_is_named(tmp_path, content, found):
    picture_site(tmp_path / "site")
    if content is not None:
        (tmp_path / "salt.txt").write_bytes(content)
    result = check(tmp_path / "site", "--salt-file", tmp_path / "salt.txt", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert found in result.output.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_fingerprints_of_two_hospitals_are_compared(tmp_path):
    for name, first in (("a", 0), ("b", 2)):
        picture_site(tmp_path / name, first=first)
        result = check(
            tmp_path / name, "--salt-file", salt_file(tmp_path, "correct horse"), "--out", tmp_path / "out" / name
        )
        assert result.exit_code == 0, result.output
    files = [tmp_path / "out" / name / "fingerprints.json" for name in ("a", "b")]
    result = run("overlap", *files)
    assert result.exit_code == 0, result.output
    (row,) = [line.split() for line in result.output.splitlines() if line.split()[:2] == ["a", "training"]]
    assert row == ["a", "training", "b", "training", "1", "0"]


def test_hospitals_without_overlap_are_reported_so(tmp_path):
    for name, first in (("a", 0), ("b", 10)):
        picture_site(tmp_path / name, first=first)
        check(tmp_path / name, "--salt-file", salt_file(tmp_path, "correct horse"), "--out", tmp_path / name)
    result = run("overlap", tmp_path / "a" / "fingerprints.json", tmp_path / "b" / "fingerprints.json")
    assert "No image and no group is at two sites." in result.output


def test_a_short_salt_ends_with_code_1_and_writes_nothing(tmp_path):
    picture_site(tmp_path / "site")
    result = check(tmp_path / "site", "--salt-file", salt_file(tmp_path, "short"), "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "expected at least 8" in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["check", "overlap"])
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: fedannot data {command}" in result.output


def test_what_is_written_again_leaves_the_further_names_of_older_files_alone(tmp_path):
    """A backup made of hard links is no copy if a command writes into the file."""
    picture_site(tmp_path / "site")
    out = tmp_path / "out"
    arguments = [
        "check",
        tmp_path / "site",
        "--out",
        out,
        "--json",
        out / "found.json",
        "--salt-file",
        salt_file(tmp_path, "a secret of sixteen"),
    ]
    assert run(*arguments).exit_code == 0
    names = sorted(file.name for file in out.iterdir())
    (tmp_path / "backup").mkdir()
    before = {}
    for name in names:
        os.link(out / name, tmp_path / "backup" / name)
        before[name] = (tmp_path / "backup" / name).read_bytes()
    picture_site(tmp_path / "site", count=5)
    assert run(*arguments).exit_code == 0
    assert len(names) == 3
    for name in names:
        assert (tmp_path / "backup" / name).read_bytes() == before[name]
        assert (out / name).read_bytes() != before[name]
