"""Public data sets whose several annotators drew polygons, contours or a mask of each object."""

import json

import nibabel
import numpy as np
import pytest
import SimpleITK as sitk
from miniatures import gleason_xai, lidc_idri, picture, riga, text, volume
from PIL import Image, ImageDraw

from fedannot.apps.importing.contour_pictures import NestedContours
from fedannot.apps.importing.layouts import DATASETS
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.polygons import PolygonMask
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.datalist import read_datalist
from fedannot.transforms.errors import DataError


def imported(dataset, out, **keys):
    options = ImportOptions(keys=keys)
    write_imported_federation([dataset], out, SiteChoice(1), options, test_share=0, seed=0)
    return {case.image.stem: case for case in read_datalist(out / "site-1" / "datalist.json").section("training")}


def pixels(file):
    return np.array(Image.open(file))


def test_polygons_of_each_pathologist_become_a_mask_in_which_the_higher_pattern_counts(tmp_path):
    gleason_xai(tmp_path / "data")
    dataset = DATASETS["gleason-xai"].read(tmp_path / "data", seed=0)
    assert [(case.image.parent.name, case.source, len(case.annotations)) for case in dataset.cases] == [
        ("original", "pr633a", 2),
        ("original", "zt80", 1),
    ]
    assert [str(left).partition(":")[0] for left in dataset.skipped] == [
        "final_filtered_explanations_df.csv, line 6 (PR633a_A2)",
        "lost",
    ]
    cases = imported(dataset, tmp_path / "out")
    masks = {one.annotator: pixels(one.file) for one in cases["PR633a_A1"].annotations}
    # The triangle with corners at (2, 2), (6, 2) and (2, 6) of 8 pixels, those on its long side left out or in.
    rows, columns = np.mgrid[:8, :8] + 0.5
    inside = (rows > 2) & (columns > 2) & (rows + columns < 8)
    on_side = (rows > 2) & (columns > 2) & (rows + columns == 8)
    assert (masks["ann"][inside] == 2).all()
    assert (masks["ann"][~inside & ~on_side] == 1).all()
    assert (masks["bo"][inside] == 3).all()
    assert (masks["bo"][~inside & ~on_side] == 0).all()


def test_a_polygon_has_the_area_and_place_that_its_corners_say(tmp_path):
    circle = [(0.5 + 0.3 * np.cos(angle), 0.25 + 0.2 * np.sin(angle)) for angle in np.linspace(0, 2 * np.pi, 200)]
    drawn = PolygonMask(tmp_path, ((2, tuple(circle)),)).draw(tmp_path, (100, 200))
    rows, columns = np.nonzero(drawn == 2)
    assert len(rows) == pytest.approx(np.pi * 60 * 20, rel=0.01)
    assert (rows.mean() + 0.5, columns.mean() + 0.5) == pytest.approx((25, 100), abs=0.1)


def test_a_polygon_may_have_more_corners_than_a_cell_of_a_table_commonly_holds(tmp_path):
    gleason_xai(tmp_path)
    table = tmp_path / "final_filtered_explanations_df.csv"
    corners = json.dumps([[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], *[[0.25, 0.75]] * 20_000])
    table.write_text(table.read_text() + f'ZT80_38_A_1_1,bo,3,a,"{corners}"\n')
    _, case = DATASETS["gleason-xai"].read(tmp_path, seed=0).cases
    assert [one.annotator for one in case.annotations] == ["ann", "bo"]


@pytest.mark.parametrize("tree", [{}, {"hierarchy": {"3": {}}}, {"hierarchy": {"3": ["a"], "4": ["a"], "5": []}}])
def test_a_tree_of_patterns_that_cannot_be_used_is_named(tmp_path, tree):
    gleason_xai(tmp_path)
    text(tmp_path / "label_remapping.json", json.dumps(tree))
    with pytest.raises(DataError, match=r"label_remapping\.json: found .*; expected"):
        DATASETS["gleason-xai"].read(tmp_path, seed=0)


@pytest.mark.parametrize(
    "corners",
    [
        "[" * 9000,
        "[[0,0],[1,0],[NaN,1]]",
        "[[0,0],[1,0],[Infinity,1]]",
        "[[0,0],[1,0],[9,1]]",
        "[[0,0,0],[1,0],[0,1]]",
        "x",
    ],
)
def test_corners_that_are_none_are_left_out_with_their_row(tmp_path, corners):
    gleason_xai(tmp_path)
    table = tmp_path / "final_filtered_explanations_df.csv"
    # An editor's line, though cells before it have several.
    more = f'ZT80_38_A_1_1,ann,3,"a\n(a second line)",[]\nZT80_38_A_1_1,bo,3,a,"{corners}"\n'
    table.write_text(table.read_text() + more)
    dataset = DATASETS["gleason-xai"].read(tmp_path, seed=0)
    assert [one.annotator for one in dataset.cases[1].annotations] == ["ann"]
    assert any("line 10 (ZT80_38_A_1_1)" in str(left) for left in dataset.skipped)


def test_all_nodules_of_a_session_become_one_mask(tmp_path):
    lidc_idri(tmp_path / "data")
    folder = tmp_path / "data" / "0001a"
    other = np.zeros((4, 4, 2), np.uint8)
    other[3, 2, 0] = 1
    volume(folder / "0001a_ct_scan.nrrd")
    nibabel.save(nibabel.Nifti1Image(other, np.eye(4)), folder / "0001a_1_00000001_00000001.nii.gz")
    # NRRD of SimpleITK is stored in LPS, the miniatures of NIfTI in RAS.
    for scan in ("0001a", "0002a", "0002b"):
        file = tmp_path / "data" / scan / f"{scan}_ct_scan.nrrd"
        image = sitk.ReadImage(str(file))
        image.SetDirection((-1, 0, 0, 0, -1, 0, 0, 0, 1))
        sitk.WriteImage(image, str(file))
    dataset = DATASETS["lidc-idri"].read(tmp_path / "data", seed=0)
    shown = [
        (case.name, case.group, {one.annotator: len(one.file) for one in case.annotations}) for case in dataset.cases
    ]
    assert shown == [
        ("LIDC-IDRI-0001a", "LIDC-IDRI-0001", {"session-1": 2, "session-3": 1}),
        ("LIDC-IDRI-0002a", "LIDC-IDRI-0002", {"session-2": 1}),
        ("LIDC-IDRI-0002b", "LIDC-IDRI-0002", {"session-2": 1}),
    ]
    assert tuple(map(str, dataset.skipped)) == (
        "0003a/0003a_ct_scan.nrrd: no mask",
        "0009a/0009a_2_00000007_00000007.nii.gz: no image",
    )
    cases = imported(dataset, tmp_path / "out", spacing=None)
    assert len(cases) == 3
    masks = {one.annotator: one.file for case in cases.values() for one in case.annotations}
    values = np.asarray(nibabel.load(masks["session-1"]).dataobj)
    assert sorted(zip(*np.nonzero(values), strict=True)) == [(1, 1, 1), (3, 2, 0)]


def fundus(folder, contours, gap=0.0, name="image1"):
    """A photograph with texture, and a copy on which contours are drawn; both are JPEG."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(sum(map(ord, name)))
    base = np.kron(rng.integers(90, 150, (30, 40, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    plain = Image.fromarray(base)
    plain.save(folder / f"{name}prime.jpg", quality=92)
    copy = plain.copy()
    for (row, column), (height, width) in contours:
        box = (column - width, row - height, column + width, row + height)
        ImageDraw.Draw(copy).arc(box, gap, 360 - gap, fill=(10, 10, 30), width=3)
    copy.save(folder / f"{name}-1.jpg", quality=92)
    return folder / f"{name}-1.jpg", folder / f"{name}prime.jpg"


def ellipse(centre, axes, size=(240, 320)):
    rows, columns = np.mgrid[: size[0], : size[1]]
    return ((rows - centre[0]) / axes[0]) ** 2 + ((columns - centre[1]) / axes[1]) ** 2 <= 1


@pytest.mark.parametrize("gap", [0.0, 1.0])
def test_contours_on_a_copy_enclose_disc_and_cup(tmp_path, gap):
    disc, cup = ((120, 160), (60, 50)), ((125, 150), (25, 20))
    copy, plain = fundus(tmp_path, (disc, cup), gap)
    drawn = NestedContours(copy).draw(plain, (240, 320))
    # Pillow's box has its last pixel, and its line lies inside: the middle is a pixel within.
    for found, (centre, axes) in ((drawn > 0, disc), (drawn == 2, cup)):
        truth = ellipse(centre, (axes[0] - 1, axes[1] - 1))
        assert 2 * (found & truth).sum() / (found.sum() + truth.sum()) > 0.98


@pytest.mark.parametrize(
    "contours",
    [
        (),
        (((120, 160), (60, 50)),),
        (((120, 100), (40, 30)), ((120, 220), (40, 30))),
        (((120, 160), (90, 80)), ((120, 160), (60, 50)), ((120, 160), (25, 20))),
    ],
    ids=["none", "one", "beside each other", "three"],
)
def test_other_contours_are_named_not_guessed(tmp_path, contours):
    copy, plain = fundus(tmp_path, contours)
    with pytest.raises(DataError, match=r"image1-1\.jpg: found no two closed lines"):
        NestedContours(copy).draw(plain, (240, 320))


def test_an_ophthalmologist_has_a_number_in_all_folders_and_corrected_folders_count(tmp_path):
    riga(tmp_path / "miniature")
    dataset = DATASETS["riga"].read(tmp_path / "miniature", seed=0)
    assert [(case.name, case.source) for case in dataset.cases] == [
        ("BinRushed1-Corrected_image1", "binrushed"),
        ("MagrabiFemale_image1", "magrabia"),
        ("MESSIDOR_image1", "messidor"),
    ]
    names = ["ophthalmologist-1", "ophthalmologist-6"]
    assert all([one.annotator for one in case.annotations] == names for case in dataset.cases)
    reasons = [left.reason for left in dataset.skipped]
    assert (reasons.count("there is a corrected folder"), reasons.count("no image")) == (4, 3)
    # One whose contours are none is left out by name, and the others are imported.
    for number in range(2):
        fundus(tmp_path / "real" / "MESSIDOR", (((120, 160), (60, 50)), ((120, 160), (25, 20))), name=f"image{number}")
    fundus(tmp_path / "real" / "Magrabia", (((120, 160), (60, 50)),))
    cases = imported(DATASETS["riga"].read(tmp_path / "real", seed=0), tmp_path / "out")
    assert sorted(cases) == ["MESSIDOR_image0", "MESSIDOR_image1"]
    assert set(np.unique(pixels(cases["MESSIDOR_image0"].label))) == {0, 1, 2}
    assert "image1-1.jpg" in (tmp_path / "out" / "import.json").read_text()


def test_a_second_file_of_a_photograph_or_of_a_copy_is_left_out_by_name(tmp_path):
    riga(tmp_path)
    folder = tmp_path / "MESSIDOR"
    for name in ("image1prime", "image1-6"):
        (folder / f"{name}.tif").write_bytes((folder / f"{name}.jpg").read_bytes())
    skipped = DATASETS["riga"].read(tmp_path, seed=0).skipped
    found = [str(left) for left in skipped if left.reason == "there is another file of its name"]
    assert found == [
        f"MESSIDOR/{name}.tif: there is MESSIDOR/{name}.jpg already" for name in ("image1-6", "image1prime")
    ]


def test_what_has_an_unknown_name_is_left_out_by_name_not_in_silence(tmp_path):
    lidc_idri(tmp_path / "lidc-idri")
    volume(tmp_path / "lidc-idri" / "0001a" / "0001a_1_00000001.nii.gz")
    riga(tmp_path / "riga")
    picture(tmp_path / "riga" / "MESSIDOR" / "image1-10.jpg")
    gleason_xai(tmp_path / "gleason-xai")
    for name in ("more/PR633a_A1", "PR9_A1"):
        picture(tmp_path / "gleason-xai" / "TMA" / "original" / f"{name}.jpg")
    # Of pictures that have a name twice at one scale the first counts, in the order of paths.
    picture(tmp_path / "gleason-xai" / "z" / "original" / "PR633a_A1.jpg")
    left = {}
    for name in ("lidc-idri", "riga", "gleason-xai"):
        dataset = DATASETS[name].read(tmp_path / name, seed=0)
        left[name] = {str(one) for one in dataset.skipped}
    assert "0001a/0001a_1_00000001.nii.gz: its name is neither of a scan nor of a nodule" in left["lidc-idri"]
    assert "MESSIDOR/image1-10.jpg: its name is neither of a photograph nor of a copy" in left["riga"]
    first = "TMA/original/PR633a_A1.jpg"
    assert {"TMA/original/PR9_A1.jpg: no mask", f"z/original/PR633a_A1.jpg: there is {first} already"} <= left[
        "gleason-xai"
    ]
    assert dataset.cases[0].image == tmp_path / "gleason-xai" / first
