"""The contact sheet: which cases are on it, where, and in which colours."""

from dataclasses import replace

import numpy as np
import pytest
from checked_sites import (
    CLASSIFIED,
    PICTURES,
    VOLUMES,
    classified,
    picture,
    picture_site,
    pixels,
    square,
    volume,
    write_site,
)
from PIL import Image

from fedannot.apps.checking import contact_sheet
from fedannot.apps.checking.checking import check_site
from fedannot.apps.checking.contact_sheet import (
    COLUMNS,
    GAP,
    HEADER,
    PANEL,
    TITLE,
    chosen_cases,
    draw_contact_sheet,
    problems_by_file,
)

# Panels are drawn at this many pixels per inch.
RESOLUTION = 100


def drawn(folder, **options):
    report = check_site(folder, "site-1")
    file = draw_contact_sheet(report, folder / "sheet.png", **options)
    return np.asarray(Image.open(file).convert("RGB")).astype(int), report


def panel(sheet, index):
    """The square of a panel."""
    row, column = divmod(index, COLUMNS)
    top = round((HEADER + row * (PANEL + TITLE) + TITLE) * RESOLUTION)
    left = round((GAP + column * PANEL) * RESOLUTION)
    side = round((PANEL - GAP) * RESOLUTION)
    return sheet[top : top + side, left : left + side]


def title(sheet, index):
    row, column = divmod(index, COLUMNS)
    top = round((HEADER + row * (PANEL + TITLE)) * RESOLUTION)
    left = round((GAP + column * PANEL) * RESOLUTION)
    return sheet[top : top + round(TITLE * RESOLUTION), left : left + round((PANEL - GAP) * RESOLUTION)]


def red(part):
    return (part[..., 0] > part[..., 1] + 60) & (part[..., 0] > part[..., 2] + 60)


def yellow(part):
    return (part[..., 0] > part[..., 2] + 60) & (part[..., 1] > part[..., 2] + 60) & (part[..., 1] > 150)


def is_blank(part):
    return bool((part == 255).all())


@pytest.mark.parametrize(("count", "rows", "shown"), [(3, 1, 3), (8, 2, 8), (30, 4, 24)])
def test_a_sheet_has_a_panel_for_each_case_up_to_24(tmp_path, count, rows, shown):
    picture_site(tmp_path, count=count)
    sheet, _ = drawn(tmp_path)
    height = round((HEADER + rows * (PANEL + TITLE)) * RESOLUTION)
    assert sheet.shape[:2] == (height, round((COLUMNS * PANEL + GAP) * RESOLUTION))
    assert [is_blank(panel(sheet, index)) for index in range(rows * COLUMNS)] == [
        index >= shown for index in range(rows * COLUMNS)
    ]


def test_a_contour_runs_around_the_annotation(tmp_path):
    picture_site(tmp_path, count=1)
    sheet, _ = drawn(tmp_path)
    # The square covers the pixels 4 to 7 of 16; a panel has 184 pixels.
    rows, columns = np.nonzero(red(panel(sheet, 0)))
    scale = round((PANEL - GAP) * RESOLUTION) / 16
    for result in (rows, columns):
        assert (result.min(), result.max()) == pytest.approx((4 * scale, 8 * scale), abs=3)


def test_the_clean_label_has_a_contour_of_its_own(tmp_path):
    items = picture_site(tmp_path, count=2)
    items[1]["clean_label"] = items[0]["label"]
    write_site(tmp_path, PICTURES, {"training": items})
    sheet, _ = drawn(tmp_path)
    assert [bool(yellow(panel(sheet, index)).any()) for index in (0, 1)] == [False, True]


def test_of_a_volume_the_slice_with_the_largest_annotation_is_drawn(tmp_path):
    image = np.zeros((16, 16, 9), np.float32)
    # In the slice with the largest annotation a quarter is bright: the first axis goes right, the second up.
    image[:8, 8:, 2] = 1
    mask = np.zeros(image.shape, np.uint8)
    mask[4:12, 4:12, 2] = 1
    mask[5:7, 5:7, 6] = 2
    write_site(tmp_path, VOLUMES, {"training": [volume(tmp_path, "v", image, mask)]})
    sheet, _ = drawn(tmp_path)
    square_of_panel = panel(sheet, 0)
    assert (square_of_panel[5:20, 5:80] > 200).all()
    assert (square_of_panel[5:20, 105:180] < 50).all()
    assert (square_of_panel[165:180, 5:80] < 50).all()
    assert red(square_of_panel).any()


@pytest.mark.parametrize("slices", [False, True])
def test_prepared_volumes_are_drawn_as_the_network_sees_them(tmp_path, slices):
    """Stored with turned axes: in RAS the right eight of sixteen voxels are bright, and a crop to 8 × 8 keeps four."""
    image = np.random.default_rng(0).uniform(0, 0.1, (16, 16, 6)).astype(np.float32)
    image[8:, :, 2] += 5
    mask = np.zeros(image.shape, np.uint8)
    mask[2:10, 6:10, 2] = 1
    item = volume(tmp_path, "v", image[::-1], mask[::-1], np.diag([-1, 1, 2, 1]))
    kind = "volume_slices\nsize: [8, 8]" if slices else "volume\nsize: [8, 8, 6]"
    write_site(tmp_path, VOLUMES.replace("pipeline: volume", f"pipeline: {kind}"), {"training": [item]})
    sheet, report = drawn(tmp_path, prepared=True)
    shown = panel(sheet, 0)
    assert (shown[5:35, 10:80] < 60).all()
    assert (shown[5:35, 110:180] > 200).all()
    assert red(shown[40:145]).any()
    (case,) = report.facts.cases
    prepared = contact_sheet.build_preparation(report.facts.description)
    size = "6 slices of 8 × 8, 1 × 1 mm" if slices else "8 × 8 × 6, 1 × 1 × 2 mm"
    # Of the columns 2 to 9 those from 4 on are left.
    assert contact_sheet._prepared_panel(case, prepared).caption == f"{size}, 25% cut off"
    for kept, shown in ((1.0, "0%"), (0.999, "<1%")):
        other = replace(case, annotation=replace(case.annotation, share_kept=kept))
        assert contact_sheet._prepared_panel(other, prepared).caption == f"{size}, {shown} cut off"


def test_prepared_pictures_have_the_size_of_the_network(tmp_path):
    picture_site(tmp_path, 2)
    (tmp_path / "images" / "case_1.png").write_bytes(b"no picture")
    sheet, report = drawn(tmp_path, prepared=True)
    prepared = contact_sheet.build_preparation(report.facts.description)
    captions = [contact_sheet._prepared_panel(case, prepared).caption for case in report.facts.cases]
    assert captions == ["16 × 32, 0% cut off", ""]
    # Twice as wide as high.
    good, bad = (panel(sheet, index) for index in (1, 0))
    assert not is_blank(good[:80])
    assert is_blank(good[100:])
    assert red(bad).any()


def test_voxels_keep_their_proportions(tmp_path):
    # Cut across the third axis: 16 voxels of 1 mm across and 16 of 0.5 mm up.
    shape, affine = (16, 16, 4), np.diag([1, 0.5, 3, 1])
    item = volume(tmp_path, "v", pixels(0, shape), square(shape, 1), affine)
    write_site(tmp_path, VOLUMES, {"training": [item]})
    sheet, _ = drawn(tmp_path)
    side = round((PANEL - GAP) * RESOLUTION)
    assert not is_blank(panel(sheet, 0)[: side // 2 - 3])
    assert is_blank(panel(sheet, 0)[side // 2 + 3 :])


def test_problem_cases_come_first_the_worst_before_others_with_red_titles(tmp_path):
    items = picture_site(tmp_path, count=30)
    items.append(picture(tmp_path, "copy", pixels(7), square()))
    write_site(tmp_path, PICTURES, {"training": items})
    (tmp_path / "labels" / "case_29.png").unlink()
    sheet, report = drawn(tmp_path)
    names = [case.name for case in chosen_cases(report.facts, problems_by_file(report))]
    assert names[:4] == ["images/case_29.png", "images/case_7.png", "images/copy.png", "images/case_0.png"]
    assert len(names) == len(set(names)) == 24
    assert names[-1] == "images/case_28.png"
    assert [bool(red(title(sheet, index)).any()) for index in range(4)] == [True, True, True, False]


def test_an_image_that_cannot_be_read_has_a_panel_that_says_so(tmp_path):
    picture_site(tmp_path)
    (tmp_path / "images" / "case_2.png").write_bytes(b"damaged")
    sheet, _ = drawn(tmp_path)
    assert red(panel(sheet, 0)).any()
    assert not is_blank(panel(sheet, 2))


def test_classified_pictures_are_drawn_in_colour_without_contours(tmp_path):
    blue = np.zeros((16, 16, 3), np.uint8)
    blue[:8, :, 2] = 255
    write_site(
        tmp_path,
        CLASSIFIED.replace("channels: 1", "channels: 3"),
        {"training": [classified(tmp_path, "blue", blue, 2)]},
    )
    sheet, _ = drawn(tmp_path)
    assert panel(sheet, 0)[40, 90].tolist() == [0, 0, 255]
    assert panel(sheet, 0)[150, 90].tolist() == [0, 0, 0]


def test_a_site_without_cases_has_no_sheet(tmp_path):
    (tmp_path / "data.yaml").write_text("pipeline: none\n")
    assert draw_contact_sheet(check_site(tmp_path, "site-1"), tmp_path / "sheet.png") is None
    assert not (tmp_path / "sheet.png").exists()
