import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedannot.apps.importing.find import Named, find_datasets
from fedannot.transforms.errors import DataError


def find(**options):
    return find_datasets(Named(**options))


@pytest.fixture
def datalist(tmp_path):
    names = ["p1_a.png", "p1_b.png", "p2_a.png", "other.png"]
    items = [{"image": name, "label": f"masks/{name}"} for name in names]
    items[2]["group"] = "known"
    file = tmp_path / "datalist.json"
    file.write_text(json.dumps(items))
    return file


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"images": Path("a"), "labels": Path("b"), "datalist": Path("c")},
        {"images": Path("a"), "labels": Path("b"), "named": ["busi=a"]},
        {"images": Path("a"), "named": ["busi=a"]},
        {"datalist": Path("c"), "named": ["busi=a"]},
    ],
)
def test_exactly_one_place_is_expected(options):
    with pytest.raises(DataError, match="expected either --images with --labels, or --datalist, or --dataset"):
        find(**options)


@pytest.mark.parametrize("options", [{"images": Path("a")}, {"labels": Path("a")}])
def test_folders_come_in_pairs(options):
    with pytest.raises(DataError, match="expected --images and --labels together"):
        find(**options)


def test_options_that_would_do_nothing_are_errors(datalist):
    folders = {"images": datalist.parent, "labels": datalist.parent}
    with pytest.raises(DataError, match="--key: names a list of a datalist"):
        find(**folders, key="training")
    with pytest.raises(DataError, match="--label-suffix: belongs to the names of masks"):
        find(datalist=datalist, label_suffix="_mask")


def test_patterns_choose_among_the_images(datalist):
    (dataset,) = find(datalist=datalist, include=["p1_*", "other*"])
    assert [case.image.name for case in dataset.cases] == ["p1_a.png", "p1_b.png", "other.png"]
    with pytest.raises(DataError, match=r"--include: no image of .* fits x\*"):
        find(datalist=datalist, include=["x*"])


def test_the_group_is_found_in_the_name_where_it_is_not_known(datalist):
    (dataset,) = find(datalist=datalist, group="^(p[0-9])_")
    assert [case.group for case in dataset.cases] == ["p1", "p1", "known", None]


@pytest.mark.parametrize("pattern", ["(", "^p[0-9]_"])
def test_a_pattern_without_a_group_is_an_error(datalist, pattern):
    with pytest.raises(DataError, match=r"--group: found .*; expected a regular expression with a group"):
        find(datalist=datalist, group=pattern)


@pytest.mark.parametrize("text", ["busi", "nothing=folder", "=folder"])
def test_names_of_data_sets_are_known(text):
    with pytest.raises(DataError, match=rf"--dataset: found {text!r}, expected NAME=DIR with a name among .*busi, "):
        find(named=[text])


def test_data_sets_are_found_by_name(tmp_path):
    for place in ("one", "two"):
        folder = tmp_path / place / "benign"
        folder.mkdir(parents=True)
        for name in ("benign (1).png", "benign (1)_mask.png"):
            Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / name)
    first, second = find(named=[f"busi={tmp_path / 'one'}", f"busi={tmp_path / 'two'}"])
    assert [case.image.parents[1].name for case in (*first.cases, *second.cases)] == ["one", "two"]
    assert first.name == "busi"
