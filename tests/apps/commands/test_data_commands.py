import json
import re
from collections import Counter
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image
from support.four_channels import write_site
from typer.testing import CliRunner

from fedannot.apps.commands.data import data_app
from fedannot.apps.commands.data_options import parse_label_map, parse_numbers
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.federation import read_federation
from fedannot.transforms.errors import DataError


def run(*arguments):
    return CliRunner().invoke(data_app, [str(argument) for argument in arguments])


@pytest.fixture
def folders(tmp_path):
    """Options for four pictures of 8 × 8 pixels and their masks."""
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
        for index in range(4):
            pixels = np.full((8, 8), 255 if kind == "labels" else index, np.uint8)
            Image.fromarray(pixels).save(tmp_path / kind / f"p{index // 2}_{index}.png")
    return ("--images", tmp_path / "images", "--labels", tmp_path / "labels")


@pytest.fixture
def volume_folders(tmp_path):
    """Options for two volumes of 4 × 5 × 6 voxels and their masks."""
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
        for index in range(2):
            voxels = np.arange(120).reshape(4, 5, 6) % 2
            nibabel.save(nibabel.Nifti1Image(voxels.astype(np.uint8), np.eye(4)), tmp_path / kind / f"{index}.nii.gz")
    return ("--images", tmp_path / "images", "--labels", tmp_path / "labels", "--test", 0, "--sites", 1)


def imported(out, *arguments):
    result = run("import", *arguments, "--out", out)
    assert result.exit_code == 0, result.output
    return result


def all_cases(folder):
    """Site or test set → its cases, of all lists."""
    places = [*read_federation(folder).sites, *(["test"] if (folder / "test").is_dir() else [])]
    lists = {place: read_datalist(folder / place / "datalist.json").cases for place in places}
    return {place: [case for cases in sections.values() for case in cases] for place, sections in lists.items()}


def test_import_reports_what_was_left_out(folders, tmp_path):
    (tmp_path / "images" / "alone.png").write_bytes((tmp_path / "images" / "p0_0.png").read_bytes())
    (tmp_path / "images" / "p0_0.png").write_bytes(b"damaged")
    result = imported(tmp_path / "out", *folders, "--sites", 2, "--size", "8,8")
    lines = result.output.splitlines()
    assert "Left out: images/alone.png: no mask" in lines
    assert sum("p0_0.png: cannot be read as an image" in line for line in lines) == 1
    assert "Label values: 0 → class 0, 255 → class 1" in lines


def test_options_of_pictures_reach_the_description(folders, tmp_path):
    options = (
        "--sites",
        1,
        "--size",
        "32,16",
        "--channels",
        3,
        "--classes",
        "lesion, cyst",
        "--label-map",
        "255:1,7:2",
    )
    imported(tmp_path / "out", *folders, *options)
    for place in ("site-1", "test"):
        values = read_site_description(tmp_path / "out" / place).model_dump()
        assert values == {
            "pipeline": "image2d",
            "fit": "resize",
            "classes": ("lesion", "cyst"),
            "datalist": "datalist.json",
            "labels": {0: 0, 255: 1, 7: 2},
            "ignore": (),
            "annotated_classes": None,
            "channels": 3,
            "missing_channels": "refuse",
            "size": (32, 16),
        }


def test_options_of_volumes_reach_the_description(volume_folders, tmp_path):
    options = ("--size", "4,4,4", "--spacing", "1,1.5,2", "--window", "-1000,400", "--crop", "foreground")
    imported(tmp_path / "out", *volume_folders, *options, "--orientation", "LPS", "--fit", "pad", "--allow-cut", 0.5)
    assert read_site_description(tmp_path / "out" / "site-1").model_dump() == {
        "pipeline": "volume",
        "classes": ("lesion",),
        "ignore": (),
        "annotated_classes": None,
        "datalist": "datalist.json",
        "labels": {0: 0, 1: 1},
        "channels": 1,
        "channel_windows": None,
        "missing_channels": "refuse",
        "orientation": "LPS",
        "spacing": (1.0, 1.5, 2.0),
        "fit": "pad",
        "crop": "foreground",
        "intensity": "window",
        "window": (-1000.0, 400.0),
        "size": (4, 4, 4),
    }


def test_names_of_channels_and_what_is_missing_reach_the_description(tmp_path):
    site = write_site(tmp_path / "four", count=3, missing=(3,))
    folders = ("--images", site / "images", "--labels", site / "labels")
    imported(tmp_path / "out", *folders, "--channels", "a, b,c,d", "--missing-channels", "zeros", "--sites", 1)
    description = read_site_description(tmp_path / "out" / "site-1")
    assert (description.channels, description.missing_channels) == (("a", "b", "c", "d"), "zeros")


def test_options_of_slices_reach_the_description(volume_folders, tmp_path):
    options = ("--pipeline", "volume_slices", "--size", "4,5", "--slice-axis", 0)
    imported(tmp_path / "out", *volume_folders, *options, "--allow-cut", 0.5)
    description = read_site_description(tmp_path / "out" / "site-1")
    assert (description.pipeline, description.size, description.slice_axis) == ("volume_slices", (4, 5), 0)
    assert (description.intensity, description.window, description.spacing) == ("zscore", None, None)


def test_without_options_descriptions_have_their_defaults(volume_folders, tmp_path):
    imported(tmp_path / "out", *volume_folders)
    description = read_site_description(tmp_path / "out" / "site-1")
    assert (description.pipeline, description.size, description.orientation) == ("volume", None, "RAS")


def test_patients_found_in_names_stay_together(folders, tmp_path):
    imported(tmp_path / "out", *folders, "--group", "^(p[0-9])_", "--sites", 2, "--test", 0)
    result = {site: {case.group for case in cases} for site, cases in all_cases(tmp_path / "out").items()}
    assert sorted(map(sorted, result.values())) == [["p0"], ["p1"]]


def test_images_are_chosen_by_their_names(folders, tmp_path):
    imported(tmp_path / "out", *folders, "--include", "p0_*", "--include", "*_3.png", "--sites", 1, "--test", 0)
    names = sorted(case.image.name for case in all_cases(tmp_path / "out")["site-1"])
    assert names == ["p0_0.png", "p0_1.png", "p1_3.png"]


def test_masks_with_a_suffix_as_isic_has_them(folders, tmp_path):
    for file in (tmp_path / "labels").iterdir():
        file.rename(file.with_name(f"{file.stem}_segmentation.png"))
    imported(tmp_path / "out", *folders, "--label-suffix", "_segmentation", "--sites", 1, "--test", 0)
    cases = all_cases(tmp_path / "out")["site-1"]
    assert len(cases) == 4
    assert all(case.image.name == case.label.name for case in cases)


def test_shares_and_seed_decide_the_split(folders, tmp_path):
    options = (*folders, "--sites", 1, "--test", 0.5, "--validation", 0.5)
    tested = []
    for seed in range(5):
        imported(tmp_path / f"{seed}", *options, "--seed", seed)
        datalist = read_datalist(tmp_path / f"{seed}" / "site-1" / "datalist.json")
        assert [len(datalist.section(section)) for section in ("training", "validation")] == [1, 1]
        tested.append(tuple(sorted(case.image.name for case in all_cases(tmp_path / f"{seed}")["test"])))
    assert len(set(tested)) > 1


def test_public_data_sets_are_imported_by_name(tmp_path):
    for name in ("one", "two"):
        folder = tmp_path / name / "benign"
        folder.mkdir(parents=True)
        for index in range(3):
            for suffix in ("", "_mask"):
                Image.fromarray(np.full((8, 8), 255, np.uint8)).save(folder / f"benign ({index}){suffix}.png")
    named = [text for name in ("one", "two") for text in ("--dataset", f"busi={tmp_path / name}")]
    imported(tmp_path / "out", *named, "--sites", 2, "--test", 0)
    assert [len(cases) for cases in all_cases(tmp_path / "out").values()] == [3, 3]


@pytest.mark.parametrize(
    ("pack", "options", "sites", "num_test"),
    [
        (
            "busi-breast-us",
            ("--key", "segmentation", "--sites", 4),
            {f"site-{i}": n for i, n in zip(range(1, 5), (30, 30, 29, 29), strict=True)},
            30,
        ),
        ("busi-breast-us", ("--key", "classification", "--sites", 3), {f"site-{i}": 208 for i in (1, 2, 3)}, 156),
        # A fifth of 35, 69, 47, 61, 58 and 35 is 7, 14, 9, 12, 12 and 7.
        (
            "bubil-cells",
            ("--sites", "by-source"),
            {"bubil_d1": 28, "bubil_d2": 55, "bubil_d3": 38, "bubil_d4": 49, "bubil_d5": 46, "bubil_d6": 28},
            61,
        ),
        ("hippocampus-msd", ("--sites", 8), {f"site-{index}": 26 for index in range(1, 9)}, 52),
        # A fifth of 4000, 351, 100 and 300 is 800, 70, 20 and 60.
        (
            "bloodcells-multicentre",
            ("--sites", "by-source", "--channels", 3, "--size", "64,64"),
            {"barcelona_pbc": 3200, "bccd": 281, "cellavision_blog": 80, "jiangxi_tecom": 240},
            950,
        ),
    ],
)
def test_real_packs_come_in_with_one_command(real_data, tmp_path, pack, options, sites, num_test):
    source = real_data / pack / "datalist.json"
    result = imported(tmp_path / "out", "--datalist", source, *options)
    assert "Left out" not in result.output
    found = all_cases(tmp_path / "out")
    assert {place: len(cases) for place, cases in found.items()} == sites | {"test": num_test}
    # Every case of the pack, counted by centre and, for classification, class.
    content = json.loads(source.read_text(encoding="utf-8"))
    items = content[options[1]] if options[0] == "--key" else content["items"]
    expected = Counter((item["source"], item["label"] if isinstance(item["label"], int) else None) for item in items)
    copied = [case for cases in found.values() for case in cases]
    assert Counter((case.source, case.label if isinstance(case.label, int) else None) for case in copied) == expected
    assert len({(case.image.parents[1], case.image.name) for case in copied}) == len(items)
    first = copied[0]
    name = first.image.name
    (original,) = (
        item["image"] for item in items if item["image"].endswith(f"/{name}") and item["source"] == first.source
    )
    assert first.image.read_bytes() == (source.parent / original).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("noise", "nowhere", "--model", "M(1,-1,1,0.5)"), "Error: nowhere/federation.yaml: found no such folder"),
        (("phantom", "--noise", "M(1)"), "Error: Contour noise: Found 'M(1)'"),
        (("phantom", "--sites", "0"), "Error: Phantom: found num_sites=0"),
        (("import", "--images", "nowhere", "--labels", "nowhere"), "Error: nowhere: found no such folder"),
        (("import",), "Error: Import: expected either --images with --labels, or --datalist, or --dataset"),
        (("import", "--images", "a"), "Error: Import: expected --images and --labels together"),
        (("import", "--images", "a", "--labels", "b", "--datalist", "c"), "Error: Import: expected either --images"),
        (("import", "--dataset", "busi"), "Error: --dataset: found 'busi', expected NAME=DIR"),
        (("import", "--datalist", "nowhere.json"), "Error: nowhere.json: found no such file"),
    ],
)
def test_errors_are_one_line_without_traceback(tmp_path, arguments, message):
    result = run(*arguments, "--out", tmp_path / "out")
    assert_one_line_error(result, message)
    assert list(tmp_path.iterdir()) == []


def assert_one_line_error(result, message):
    """One line, after the one that says what the command does."""
    assert result.exit_code == 1
    assert result.stdout == ""
    _, error = result.stderr.splitlines()
    assert message in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sites", "many"), "Error: --sites: found 'many', expected 8, by-source"),
        (("--sites", "5"), "Error: Import: found 4 usable cases, 1 of them for the test set"),
        (("--sites", "by-source"), "Error: --sites: found 4 cases without a source"),
        (("--size", "8"), "Error: --size: found 8; expected ROWS,COLUMNS for the pipeline 'image2d'"),
        (("--size", "8,eight"), "Error: --size: found '8,eight', expected whole numbers with commas"),
        (("--size", "8,0"), "Error: Import: key 'size"),
        (("--channels", "17"), "Error: Import: key 'channels' is 17"),
        (("--channels", "rgb"), "Error: --channels: found 'rgb', expected a number, or names of channels with commas"),
        (("--channels", "2"), "Error: Import of images and labels: found no usable case among 4"),
        (("--spacing", "1,1,1"), "'spacing'"),
        (("--window", "0,nan"), "Error: --window: found '0,nan', expected 2 numbers"),
        (("--pipeline", "volume"), "Error: --pipeline: found 'volume', but images and labels holds pictures"),
        (("--label-map", "255"), "Error: --label-map: found '255', expected VALUE:CLASS"),
        (("--label-map", "255:2"), "lead to the classes [0, 2], and the names are lesion"),
        (("--classes", "a,b"), "lead to the classes [0, 1], and the names are a, b"),
        (("--group", "p"), "Error: --group: found 'p'"),
        (("--include", "x*"), "Error: Found no pair: no images in"),
        (("--label-suffix", "_mask"), "Error: Found no pair"),
        (("--key", "training"), "Error: --key: names a list of a datalist"),
        (("--test", "1"), "Error: Import: found test=1.0"),
        (("--validation", "-0.5"), "Error: Import: found validation=-0.5"),
    ],
)
def test_options_that_cannot_be_followed_are_errors_and_leave_nothing(folders, tmp_path, options, message):
    result = run("import", *folders, *options, "--out", tmp_path / "out")
    assert_one_line_error(result, message)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["images", "labels"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--size", "4,4"), "Error: --size: found 4,4; expected three extents for the pipeline 'volume'"),
        (("--spacing", "1,1"), "Error: --spacing: found '1,1', expected 3 numbers with commas between them"),
        (("--window", "1,2,3"), "Error: --window: found '1,2,3', expected 2 numbers with commas between them"),
        (("--pipeline", "volume_slices"), "Error: --size: found none; slices need ROWS,COLUMNS"),
        (("--orientation", "RAX"), "Error: Import: key 'orientation'"),
        (("--orientation", "RLS"), "key 'orientation' is 'RLS', expected one letter of R/L"),
        (("--window", "400,-1000"), "key 'window' is [400.0, -1000.0], expected the lower end first"),
        (("--spacing", "1,0,1"), "Error: Import: key 'spacing"),
        (("--slice-axis", "0"), "'slice_axis'"),
        (("--channels", "3"), "'channels'"),
    ],
)
def test_options_that_do_not_fit_volumes_are_errors_and_leave_nothing(volume_folders, tmp_path, options, message):
    result = run("import", *volume_folders, *options, "--out", tmp_path / "out")
    assert_one_line_error(result, message)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["images", "labels"]


def test_a_folder_with_files_in_it_is_left_alone(folders, tmp_path):
    result = run("import", *folders, "--sites", 1, "--out", tmp_path / "images")
    assert_one_line_error(result, "images: found a folder with files in it; expected an empty or absent output folder")
    assert len(list((tmp_path / "images").iterdir())) == 4


@pytest.mark.parametrize("command", ["phantom", "import", "noise"])
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert re.search(rf"Examples?:\s+fedannot data {command} ", result.output)


def test_texts_are_parsed():
    assert parse_label_map("85:1, 170:2") == {85: 1, 170: 2}
    assert parse_numbers("--size", "128, 64", int) == (128, 64)
    assert parse_numbers("--spacing", "0.5,1e1", float) == (0.5, 10.0)
    for text in ("85", "a:1", "1:2:3", ""):
        with pytest.raises(DataError, match="VALUE:CLASS"):
            parse_label_map(text)
    for text in ("", "1,,2", "1;2", "1.5,2"):
        with pytest.raises(DataError, match=r"--size: found .*, expected whole numbers with commas between them"):
            parse_numbers("--size", text, int)
    for text in ("nan", "1,inf", "x"):
        with pytest.raises(DataError, match=r"--window: found .*, expected numbers with commas between them"):
            parse_numbers("--window", text, float)


def test_after_an_import_the_jobs_that_fit_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    clean = tmp_path / "clean"
    assert run("phantom", "--sites", 1, "--images", 6, "--test-images", 1, "--out", clean).exit_code == 0
    pictures = ("--images", clean / "site-1" / "images", "--labels", clean / "site-1" / "labels", "--size", "64,64")
    result = run("import", *pictures, "--sites", 2, "--out", tmp_path / "made")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "These are 2D images with masks, for segmentation. Jobs that fit: adele, audit, auto, decoupled, " in said
    assert "fedgsca" not in said
    assert f"For example: fedannot simulate auto --data {tmp_path / 'made'}" in said
    assert "network.in_channels = 1, network.num_classes = 1, network.spatial_dims = 2" in said


def distinct(file, number, shape=(8, 8)):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(number).integers(0, 255, shape).astype(np.uint8)).save(file)
    return file


def test_classes_in_folders_and_in_a_table_by_the_command(tmp_path):
    for number in range(12):
        distinct(tmp_path / "cells" / f"kind {number % 3}" / f"{number}.png", number)
    folders = ("--class-folders", tmp_path / "cells")
    assert run("import", *folders, "--size", "8,8", "--sites", 2, "--out", tmp_path / "a").exit_code == 0
    rows = ["file,kind,patient", *(f"{number},{'xyz'[number % 3]},p{number // 2}" for number in range(12))]
    (tmp_path / "cells.csv").write_text("\n".join(rows), encoding="utf-8")
    table = ("--classes-csv", tmp_path / "cells.csv", "--images", tmp_path / "cells")
    columns = ("--image-column", "file", "--class-column", "kind", "--group-column", "patient")
    options = (*table, *columns, "--classes", "z,y,x", "--size", "8,8", "--sites", 2)
    assert run("import", *options, "--out", tmp_path / "b").exit_code == 0
    assert read_site_description(tmp_path / "a" / "site-1").classes == ("kind 0", "kind 1", "kind 2")
    assert read_site_description(tmp_path / "b" / "site-1").classes == ("z", "y", "x")
    patients = [{case.group for case in cases} for cases in all_cases(tmp_path / "b").values()]
    assert sum(map(len, patients)) == len(set().union(*patients)) == 6
    assert_one_line_error(
        run("import", *folders, "--image-column", "file", "--out", tmp_path / "c"),
        "--image-column: names a column of a table; expected --classes-csv with it",
    )


def test_what_an_import_decides_is_printed(tmp_path):
    for number in range(6):
        # The last two show the same; the masks of all number two objects.
        distinct(tmp_path / "all" / f"{number}.png", min(number, 4))
        mask = np.zeros((8, 8), np.uint8)
        mask[1:3, 1:3], mask[5:7, 5:7] = 1, 2
        Image.fromarray(mask).save(tmp_path / "all" / f"{number}_cells.png")
    places = ("--images", tmp_path / "all", "--labels", tmp_path / "all", "--label-suffix", "_cells")
    result = run("import", *places, "--size", "8,8", "--sites", 1, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "If they number objects of one class: --instances." in " ".join(result.output.split())
    result = run("import", *places, "--instances", "--fit", "pad", "--sites", 1, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "Label values: 0 → class 0, 1-65535 → class 1" in said
    assert "Pixel-identical images: 1 group of 2 cases" in said
    assert "4 = 5." in said
    assert "Grey values" not in said
    found = {case.image.stem: site for site, cases in all_cases(tmp_path / "out").items() for case in cases}
    assert found["4"] == found["5"]
    both = run("import", *places, "--instances", "--label-map", "1:1,2:1", "--sites", 1, "--out", tmp_path / "no")
    assert_one_line_error(both, "expected one of a label map of values, one of colours, and --instances")
    result = run("import", *places, "--label-map", "1:1,2:1", "--sites", 1, "--out", tmp_path / "mapped")
    assert "Grey values" not in result.output


def test_slices_and_trusted_voxels_by_the_command(volume_folders, tmp_path):
    for file in (tmp_path / "labels").iterdir():
        mask = nibabel.load(file)
        moved = mask.affine.copy()
        moved[:3, 3] += 0.5
        nibabel.save(nibabel.Nifti1Image(np.asarray(mask.dataobj), moved), file)
    slices = ("--pipeline", "volume_slices", "--size", "4,4", "--fit", "resize", "--stride", 2, "--empty-slices", 0.5)
    result = run("import", *volume_folders, *slices, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "--trust-voxels" in result.output
    result = run("import", *volume_folders, *slices, "--trust-voxels", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Trusted voxels: 2 masks lay up to 0.866 mm off" in " ".join(result.output.split())
    description = read_site_description(tmp_path / "out" / "site-1")
    assert (description.fit, description.stride, description.empty_slices) == ("resize", 2, 0.5)
