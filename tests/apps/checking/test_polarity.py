"""Masks whose values are confused are found, at a site and between sites, and what is reported to do mends them."""

import json
import shutil

import numpy as np
import pytest
import yaml
from checked_sites import PICTURES, VOLUMES, federation, picture, pixels, summary, volume, write_site
from PIL import Image
from typer.testing import CliRunner

from fedannot.apps.checking.checking import check_folder, check_site
from fedannot.apps.checking.layout import MaskLayout
from fedannot.apps.commands.cli import app

SIZE = 32


def disc(radius, row=16, column=16, shape=(SIZE, SIZE)):
    """255 in a disc."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return np.where((rows - row) ** 2 + (columns - column) ** 2 <= radius**2, 255, 0).astype(np.uint8)


def inverse(mask):
    return np.where(mask == 0, 255, 0).astype(np.uint8)


def site_of(folder, masks, first=0, description=PICTURES):
    items = [
        picture(folder, f"case_{index}", pixels(index, (SIZE, SIZE)), mask)
        for index, mask in enumerate(masks, start=first)
    ]
    write_site(folder, description, {"training": items})
    return folder


LESIONS = [disc(5), disc(3, 8, 20), disc(7, 20, 10), disc(4)]


def kinds(report):
    return [kind for _, kind, _ in summary(report) if "inverted" in kind]


@pytest.mark.parametrize(
    ("mask", "foreground", "border", "enclosed"),
    [
        (np.zeros((4, 5)), 0, 0, 6 / 20),
        (np.ones((4, 5)), 1, 1, 0),
        # One row of four: a face of each axis' two, of ten and of eight pixels.
        (np.eye(4, 5)[0] * 0 + np.array([[1], [0], [0], [0]]), 0.25, (5 / 10 + 2 / 8) / 2, 6 / 15),
    ],
)
def test_layout_of_a_mask_by_counting(mask, foreground, border, enclosed):
    layout = MaskLayout.of(mask.astype(np.uint8))
    assert (layout.foreground, layout.border, layout.enclosed) == pytest.approx((foreground, border, enclosed))


def test_a_column_through_a_volume_leaves_the_border_of_its_slices():
    """It takes 4 of 64 voxels of the first and the last slice, and nothing of the other faces."""
    mask = np.zeros((8, 8, 6), np.uint8)
    mask[3:5, 3:5] = 1
    assert MaskLayout.of(mask).border == pytest.approx((4 / 64 + 0) / 2)
    inverted = MaskLayout.of(1 - mask)
    assert inverted.border == 1
    assert inverted.is_inside_out


def test_inverted_masks_are_found_with_shares_number_and_mending(tmp_path):
    report = check_site(site_of(tmp_path, [*map(inverse, LESIONS), np.full((SIZE, SIZE), 255, np.uint8)]), "site-1")
    ((severity, kind, files),) = summary(report)
    assert (severity, kind, len(files)) == ("warning", "inverted-masks", 5)
    share = sorted([np.mean(mask == 0) for mask in LESIONS] + [1.0])[2]
    finding = report.findings[0]
    assert f"found {share:.0%} of the image and 100% of its border annotated (medians of 5 masks, of which 5" in (
        finding.found
    )
    assert "labels: {0: 1, 255: 0}" in finding.remedy
    assert "--label-map 0:1,255:0" in finding.remedy


def test_inverted_volumes_are_found(tmp_path):
    rng = np.random.default_rng(0)
    items = []
    for index in range(3):
        mask = np.ones((10, 12, 8), np.uint8)
        mask[3:6, 4:8, index : index + 4] = 0
        mask[7, 4:8, index : index + 4] = 2
        items.append(volume(tmp_path, f"v{index}", rng.normal(size=mask.shape).astype(np.float32), mask))
    write_site(tmp_path, VOLUMES, {"training": items})
    report = check_site(tmp_path, "site-1")
    assert kinds(report) == ["inverted-masks"]
    (finding,) = (finding for finding in report.findings if finding.kind == "inverted-masks")
    assert "Let the value at the border lead to 0" in finding.remedy


CORNER = np.full((SIZE, SIZE), 255, np.uint8)
CORNER[:9, :9] = 0
PIXEL = np.full((SIZE, SIZE), 255, np.uint8)
PIXEL[0, 0] = 0
MARGIN = np.zeros((SIZE, SIZE), np.uint8)
MARGIN[1:-1, 1:-1] = 255


@pytest.mark.parametrize(
    "masks",
    [
        LESIONS,
        [disc(17)] * 4,  # fills the image but for its corners
        [np.full((SIZE, SIZE), 255, np.uint8)] * 4,
        [CORNER] * 4,
        [PIXEL] * 4,
        [MARGIN] * 4,  # a whole body that does not touch the border
        [inverse(LESIONS[0]), *LESIONS[1:]],  # a single one
        [np.zeros((SIZE, SIZE), np.uint8)] * 3 + [LESIONS[0]],
    ],
    ids=["lesions", "corners", "full", "one corner", "one pixel", "margin", "single", "empty"],
)
def test_what_fills_the_image_is_no_false_alarm(tmp_path, masks):
    federation(tmp_path, ["site-1", "site-2"])
    site_of(tmp_path / "site-1", masks)
    site_of(tmp_path / "site-2", LESIONS, first=10)
    assert [kinds(site) for site in check_folder(tmp_path).sites] == [[], []]


def test_a_body_that_goes_on_beyond_the_first_and_last_slice_is_no_false_alarm(tmp_path):
    rng = np.random.default_rng(0)
    items = []
    for index in range(3):
        mask = np.zeros((20, 20, 8), np.uint8)
        mask[1:-1, 1:-1] = 1
        items.append(volume(tmp_path, f"v{index}", rng.normal(size=mask.shape).astype(np.float32), mask))
    write_site(tmp_path, VOLUMES, {"training": items})
    assert kinds(check_site(tmp_path, "site-1")) == []


def test_masks_at_another_sites_polarity_are_found(tmp_path):
    """A body takes most of the image, so that its inverse does not; only beside the other sites it is seen."""
    bodies = [disc(14), disc(13), disc(15)]
    federation(tmp_path, ["site-1", "site-2", "site-3"])
    for number in (1, 2, 3):
        masks = [inverse(mask) for mask in bodies] if number == 2 else bodies
        site_of(tmp_path / f"site-{number}", masks, first=10 * number)
    sites = {site.site: site for site in check_folder(tmp_path).sites}
    assert [kinds(sites[name]) for name in ("site-1", "site-3")] == [[], []]
    ((severity, kind, files),) = summary(sites["site-2"])
    assert (severity, kind, len(files)) == ("warning", "inverted-unlike-other-sites", 3)
    own, theirs = np.mean(inverse(disc(14)) > 0), np.mean(disc(14) > 0)
    result = sites["site-2"].findings[0].found
    assert f"found {own:.0%} of the image and 100% of its border annotated (medians of 3 masks" in result
    assert f"at site-1, site-3 the foreground takes {theirs:.0%} and lies inside" in result
    assert kinds(check_site(tmp_path / "site-2", "site-2")) == []


def check(folder):
    result = CliRunner().invoke(app, ["data", "check", str(folder), "--no-pictures"], env={"COLUMNS": "250"})
    return result.output


def copied_pack(pack, key, target, sources=None):
    """Copy cases of a pack, with a datalist of their own, and return that."""
    items = json.loads((pack / "datalist.json").read_text(encoding="utf-8"))[key]
    chosen = [item for item in items if sources is None or item["source"] in sources]
    for item in chosen:
        for name in (item["image"], item["label"]):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(pack / name, target / name)
    (target / "datalist.json").write_text(json.dumps({"items": chosen}))
    return target / "datalist.json"


@pytest.fixture
def cells(real_data, tmp_path):
    """The datalist of two sources of real cells."""
    return copied_pack(real_data / "bubil-cells", "items", tmp_path / "cells", ("bubil_d2", "bubil_d3"))


def imported(folder, datalist, *options):
    options = options or ("--sites", "by-source", "--size", "64,64")
    result = CliRunner().invoke(
        app, ["data", "import", *map(str, ["--datalist", datalist, "--key", "items", *options, "--out", folder])]
    )
    assert result.exit_code == 0, result.output
    return folder


def invert_files(files):
    for file in files:
        Image.fromarray(inverse(np.asarray(Image.open(file)))).save(file)


def test_the_inverted_site_of_an_imported_federation_is_found_and_mended_by_its_description(cells, tmp_path):
    folder = imported(tmp_path / "imported", cells)
    assert "inverted-" not in check(folder)
    invert_files((folder / "bubil_d3" / "labels").iterdir())
    text = check(folder)
    assert text.count("warning inverted-masks") == 1
    assert "labels: {0: 1, 255: 0}" in text
    description = folder / "bubil_d3" / "data.yaml"
    values = yaml.safe_load(description.read_text(encoding="utf-8"))
    description.write_text(yaml.safe_dump(values | {"labels": {0: 1, 255: 0}}))
    assert "inverted-" not in check(folder)


def test_inverted_masks_of_all_sites_are_mended_by_the_label_map(cells, tmp_path):
    invert_files((cells.parent / "labels").iterdir())
    text = check(imported(tmp_path / "found", cells))
    # Two sites and the test set.
    assert text.count("warning inverted-masks") == 3
    assert "--label-map 0:1,255:0" in text
    options = ("--sites", "by-source", "--size", "64,64", "--label-map", "0:1,255:0")
    assert "inverted-" not in check(imported(tmp_path / "mended", cells, *options))


@pytest.mark.parametrize(
    ("pack", "key", "options"),
    [
        ("bubil-cells", "items", ("--sites", "by-source", "--size", "64,64")),
        ("busi-breast-us", "segmentation", ("--sites", "3", "--size", "64,64")),
        (
            "hippocampus-msd",
            "items",
            ("--sites", "3", "--size", "48,64,48", "--label-map", "1:1,2:2", "--classes", "front,back"),
        ),
    ],
)
def test_no_false_alarm_on_real_masks(real_data, tmp_path, pack, key, options):
    datalist = copied_pack(real_data / pack, key, tmp_path / "pack")
    assert "inverted-" not in check(imported(tmp_path / "imported", datalist, *options))
