"""Contours of DICOM RTSTRUCT become masks at the place where they were drawn, or are refused by name."""

import json
import math

import nibabel
import numpy as np
import pytest
import SimpleITK
from dicom_files import contour, write_oblique, write_structure_set
from matplotlib.path import Path as Polygon
from scipy.spatial.transform import Rotation

from fedannot.apps.functions.data import import_found
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.options import ImportOptions
from fedannot.custom.data.datalist import read_datalist
from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.folder_images import find_images

SHAPE, SPACING, ORIGIN = (5, 40, 48), (0.8, 1.1, 2.5), (-12.0, 34.0, -70.0)
AXIAL = np.eye(3)
TILTED = Rotation.from_euler("xyz", [12, -8, 25], degrees=True).as_matrix()
SAGITTAL = np.array([[0, 1, 0], [0, 0, -1], [-1, 0, 0]])
DIRECTIONS = {"axial": AXIAL, "tilted": TILTED, "sagittal": SAGITTAL}


def circle(affine, number, centre=(24, 20), radius=9.3, count=120):
    """Points of a circle in millimetres, around a centre in columns and rows of a slice."""
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False) + 0.01
    unit = affine[:3, :2] / np.linalg.norm(affine[:3, :2], axis=0)
    middle = affine[:3, :3] @ (*centre, number) + affine[:3, 3]
    return middle + radius * (np.outer(np.cos(angles), unit[:, 0]) + np.outer(np.sin(angles), unit[:, 1]))


def disc(affine, numbers=(1, 2, 3), **values):
    return [contour(circle(affine, number, **values)) for number in numbers]


def imported(root, classes=("GTV",), **named):
    wanted = Named(**({"images": root / "in", "labels": root / "in", "classes": classes} | named))
    options = ImportOptions(classes=classes)
    made = import_found(find_datasets(wanted), root / "out", sites="1", test=0.0, options=options)
    return made.report, read_datalist(root / "out" / "site-1" / "datalist.json").section("training")


def series(root, name="axial", folder="p1/ct", **values):
    return write_oblique(root / "in" / folder, SHAPE, DIRECTIONS[name], SPACING, ORIGIN, **values)[1]


@pytest.mark.parametrize("name", DIRECTIONS)
def test_a_disc_has_its_area_and_place_for_both_readers(tmp_path, name):
    affine = series(tmp_path, name)
    write_structure_set(tmp_path / "in" / "p1" / "rt" / "a.dcm", {"gtv ": disc(affine), "BODY": disc(affine)})
    report, (case,) = imported(tmp_path)
    label, written = nibabel.load(case.label), SimpleITK.ReadImage(str(case.label))
    values = np.asarray(label.dataobj)
    np.testing.assert_allclose(label.affine, nibabel.load(case.image).affine)
    assert values.sum() * np.prod(SPACING) == pytest.approx(3 * math.pi * 9.3**2 * SPACING[2], rel=0.02)
    # Columns and rows in the contour's plane, by SimpleITK's own places of voxels.
    inverse = np.linalg.inv(affine)
    for index in np.ndindex(values.shape):
        place = inverse[:3, :3] @ written.TransformIndexToPhysicalPoint(index) + inverse[:3, 3]
        distance = math.hypot((place[0] - 24) * SPACING[0], (place[1] - 20) * SPACING[1])
        if abs(distance - 9.3) > 0.02:
            assert written[index] == (distance < 9.3 and 0.5 < place[2] < 3.5)
    centre = label.affine @ (*np.argwhere(values).mean(axis=0), 1)
    np.testing.assert_allclose(centre[:3] * (-1, -1, 1), affine[:3] @ (24, 20, 2, 1), atol=0.1)
    (note,) = (note for note in report.notes if note.startswith("Contours"))
    assert "'BODY'" in note


def test_a_ring_has_its_hole_and_every_voxel_is_that_of_an_independent_polygon(tmp_path):
    affine = series(tmp_path)
    random = np.random.default_rng(3)
    star = [circle(affine, 2, radius=random.uniform(6, 14), count=60)[index] for index in range(60)]
    contours = [contour(star), contour(circle(affine, 2, radius=4.1)), contour(circle(affine, 2, radius=2.1))]
    # Before the slices, of which the first one says whose they are.
    write_structure_set(tmp_path / "in" / "p1" / "ct" / "!rs.dcm", {"GTV": contours})
    report, (case,) = imported(tmp_path)
    assert "Patients: the PatientID of 1 DICOM series names 1." in report.notes
    assert case.group == "p"
    values = np.asarray(nibabel.load(case.label).dataobj)
    inverse = np.linalg.inv(affine)
    centres = np.argwhere(np.ones(SHAPE[:0:-1]))
    expected = np.zeros(len(centres), dtype=bool)
    for points in (star, circle(affine, 2, radius=4.1), circle(affine, 2, radius=2.1)):
        plane = (np.array(points) @ inverse[:3, :3].T + inverse[:3, 3])[:, :2]
        expected ^= Polygon(plane).contains_points(centres)
    # DICOM columns run along the first axis of the NIfTI file, as they are stored.
    assert np.array_equal(values[..., 2], expected.reshape(SHAPE[:0:-1]))
    assert values[..., (0, 1, 3, 4)].sum() == 0
    assert 0 < values.sum() < expected.size


def test_contours_through_centres_of_voxels_have_these_voxels(tmp_path):
    """As programs write them that trace masks: the outermost voxels of an object, and those around a hole."""
    affine = series(tmp_path)
    mask = np.zeros(SHAPE[:0:-1], dtype=np.uint8)
    mask[10:31, 8:25] = 1
    mask[16:20, 12:18] = 0
    corners = [(10, 8), (30, 8), (30, 24), (10, 24)], [(15, 11), (20, 11), (20, 18), (15, 18)]
    contours = [contour([affine[:3] @ (*corner, 1, 1) for corner in corners_]) for corners_ in corners]
    write_structure_set(tmp_path / "in" / "p1" / "ct" / "rs.dcm", {"GTV": contours})
    _, (case,) = imported(tmp_path)
    assert np.array_equal(np.asarray(nibabel.load(case.label).dataobj)[..., 1], mask)


def test_classes_are_in_the_order_of_their_names_and_the_later_one_wins(tmp_path):
    affine = series(tmp_path)
    inner, outer = disc(affine, radius=4.0), disc(affine)
    points = [contour([affine[:3, 3]], "POINT"), contour(circle(affine, 1)[:30], "OPEN_PLANAR")]
    regions = {"Tumour": [*inner, *points], "Organ": outer, "Marker": points, "Böse": disc(affine, radius=1.5)}
    write_structure_set(tmp_path / "in" / "p1" / "ct" / "rs.dcm", regions)
    # Another patient has the third class.
    series(tmp_path, folder="p2/ct", series="1.2.3.7")
    write_structure_set(tmp_path / "in" / "p2" / "ct" / "rs.dcm", {"Marker": outer}, series="1.2.3.7")
    report, (case, _) = imported(tmp_path, ("organ", "TUMOUR", "marker"))
    values = np.asarray(nibabel.load(case.label).dataobj)
    sizes = [np.count_nonzero(values == label) * np.prod(SPACING[:2]) / 3 for label in (1, 2, 3)]
    assert sizes == pytest.approx([math.pi * (9.3**2 - 16), math.pi * 16, 0], rel=0.05)
    (note,) = (note for note in report.notes if note.startswith("Contours"))
    for text in (
        "'Böse'",
        "no region for 'marker' (1), 'organ' (1), 'TUMOUR' (1)",
        "4 contours",
        f"{np.count_nonzero(values == 2)} voxels",
    ):
        assert text in note
    with pytest.raises(DataError, match=r"found 'Tumour' covered by the regions of later classes"):
        imported(tmp_path / "again", ("TUMOUR", "organ"), images=tmp_path / "in", labels=tmp_path / "in")


def test_structure_sets_find_their_series_by_its_uid_whatever_the_names(tmp_path):
    for patient, number in (("p1", 7), ("p2", 3)):
        affine = series(tmp_path, folder=f"{patient}/ct", series=f"1.2.3.{number}")
        rest = tmp_path / "sets" / f"{10 - number}.dcm"
        write_structure_set(rest, {"GTV": disc(affine, radius=number)}, series=f"1.2.3.{number}")
    _, cases = imported(tmp_path, labels=tmp_path / "sets")
    areas = {case.image.name: int(np.asarray(nibabel.load(case.label).dataobj).sum()) for case in cases}
    assert areas["p1_ct.nii.gz"] > 4 * areas["p2_ct.nii.gz"] > 0


def test_a_datalist_names_structure_sets_and_their_regions(tmp_path):
    affine = series(tmp_path)
    write_structure_set(tmp_path / "in" / "rs" / "a.dcm", {"Cord": disc(affine), "GTV": disc(affine, radius=4)})
    items = [{"image": "p1/ct", "label": "rs/a.dcm"}, {"image": "p1/ct", "label": "rs"}]
    content = {"labels": {"0": "background", "5": "gtv"}, "training": items}
    (tmp_path / "in" / "datalist.json").write_text(json.dumps(content))
    datasets = find_datasets(Named(datalist=tmp_path / "in" / "datalist.json"))
    import_found(datasets, tmp_path / "out", sites="1", test=0.0)
    for case in read_datalist(tmp_path / "out" / "site-1" / "datalist.json").section("training"):
        values = np.asarray(nibabel.load(case.label).dataobj)
        assert values.sum() * np.prod(SPACING[:2]) / 3 == pytest.approx(math.pi * 16, rel=0.05)


def test_a_bundle_leaves_contours_beside_its_images_out_by_name(tmp_path):
    affine = series(tmp_path)
    file = write_structure_set(tmp_path / "in" / "p1" / "ct" / "a.dcm", {"GTV": disc(affine)})
    found = find_images(str(tmp_path / "in"), pictures=False, without="")
    assert found.files == (str(tmp_path / "in" / "p1" / "ct"),)
    assert found.left_out == (f"{file}: left out, it holds contours, no image.",)


WRONG = {
    "series": ({"series": "1.2.9"}, r"a\.dcm: found contours of the series 1\.2\.9; expected those of its image"),
    "frame": ({"frame": "1.2.9"}, r"a\.dcm: found 'GTV' in the frame of reference 1\.2\.9; expected that of its image"),
    "no regions": ({"without": ("StructureSetROISequence",)}, r"a\.dcm: found no StructureSetROISequence"),
    "no contours": ({"without": ("ROIContourSequence",)}, r"a\.dcm: found no ROIContourSequence"),
}


@pytest.mark.parametrize("name", WRONG)
def test_structure_sets_of_another_series_or_without_a_sequence_are_named(tmp_path, name):
    affine = series(tmp_path)
    values, message = WRONG[name]
    write_structure_set(tmp_path / "in" / "p1" / "ct" / "a.dcm", {"GTV": disc(affine)}, **values)
    with pytest.raises(DataError, match=message):
        imported(tmp_path)


def off(affine, steps):
    return circle(affine, 2) + steps * affine[:3, 2]


BAD = {
    "between slices": (lambda a: [contour(off(a, 0.5))], r"contours up to 0\.5 slices off the slices of the image"),
    "another plane": (lambda a: [contour(circle(a, 2) @ TILTED)], r"contours up to .* (off|outside)"),
    "above": (lambda a: [contour(off(a, 5))], r"found contours up to 2\.5 voxels outside of the image"),
    "beside": (lambda a: [contour(circle(a, 1, centre=(2, 3)))], r"found contours up to .* voxels outside"),
    "far away": (lambda a: [contour(circle(a, 1) + 1e30)], r"found contours up to 1e\+30 .* outside|voxels outside"),
    "NaN": (lambda a: [contour(circle(a, 1) * np.nan)], r"'GTV' with points that are not finite"),
    "text": (lambda a: [contour(circle(a, 1), ContourData=["1", "2", "3"])], r"with 3 numbers for 120 points"),
    "a billion": (lambda a: [contour(circle(a, 1), NumberOfContourPoints=10**9)], r"360 numbers for 1000000000 points"),
    "too many": (lambda a: [contour(np.zeros((20_001, 3)))], r"with 20001 points; expected at most 20000"),
    "every second": (lambda a: disc(a, (0, 2, 4)), r"'GTV' in 3 slices, 2 or more apart"),
    "cut": (lambda a: [*disc(a, (1,)), *disc(a, (1,), centre=(30, 20))], r"contours of 'GTV' that cut each other"),
    "small": (lambda a: [contour(circle(a, 1, centre=(24.5, 20.5), radius=0.2))], r"around no centre of a voxel"),
    "open": (lambda a: [contour(circle(a, 1), "OPEN_PLANAR")], r"the regions 'GTV' and no closed contour of GTV"),
    "none": (lambda a: [], r"the regions 'GTV' and no closed contour of GTV"),
}


@pytest.mark.parametrize("name", BAD)
def test_contours_without_a_place_in_the_image_are_refused_by_name(tmp_path, name):
    make, message = BAD[name]
    write_structure_set(tmp_path / "in" / "p1" / "ct" / "a.dcm", {"GTV": make(series(tmp_path))})
    with pytest.raises(DataError, match=r"ct.a\.dcm: .*" + message):
        imported(tmp_path)
    assert not (tmp_path / "out").exists()


def test_one_bad_structure_set_does_not_end_an_import_and_the_names_are_asked_for(tmp_path):
    for patient in ("p1", "p2", "p3"):
        affine = series(tmp_path, folder=patient)
        write_structure_set(tmp_path / "in" / patient / "rs.dcm", {"GTV": disc(affine), "Cord": disc(affine)})
    with pytest.raises(DataError, match=r"rs\.dcm: found the regions 'GTV', 'Cord'; expected --classes NAME,…"):
        imported(tmp_path, None)
    bad = tmp_path / "in" / "p2" / "rs.dcm"
    bad.write_bytes(bad.read_bytes()[:-900])
    report, cases = imported(tmp_path)
    assert len(cases) == 2
    assert "rs.dcm" in str(report.excluded[0])
    with pytest.raises(
        DataError, match=r"--classes: found 'GTX', of which no structure set has closed contours; other"
    ):
        imported(tmp_path / "more", ("GTV", "GTX"), images=tmp_path / "in", labels=tmp_path / "in")


def test_two_regions_of_one_name_are_refused(tmp_path):
    affine = series(tmp_path)
    write_structure_set(tmp_path / "in" / "p1" / "ct" / "a.dcm", {"GTV": disc(affine), "gtv": disc(affine)})
    with pytest.raises(DataError, match=r"found 2 regions 'GTV' with contours, of the numbers 1, 2; expected one"):
        imported(tmp_path)


def test_contours_in_two_items_of_one_region_are_all_drawn(tmp_path):
    affine = series(tmp_path)
    file = tmp_path / "in" / "p1" / "ct" / "a.dcm"
    write_structure_set(file, {"GTV": disc(affine)})
    _, (whole,) = imported(tmp_path)
    (tmp_path / "out").rename(tmp_path / "whole")
    write_structure_set(file, {"GTV": ()}, drawn=[(1, disc(affine, (1,))), (1, disc(affine, (2, 3)))])
    _, (split,) = imported(tmp_path)
    whole = nibabel.load(tmp_path / "whole" / whole.label.relative_to(tmp_path / "out"))
    assert whole.get_fdata().any()
    np.testing.assert_array_equal(nibabel.load(split.label).get_fdata(), whole.get_fdata())


def test_two_regions_of_one_number_are_refused_where_one_is_asked_for(tmp_path):
    affine = series(tmp_path)
    file = tmp_path / "in" / "p1" / "ct" / "a.dcm"
    write_structure_set(file, {"GTV": disc(affine), "Cord": disc(affine)}, numbers=(1, 1))
    with pytest.raises(
        DataError, match=r"a\.dcm: found 2 regions of the number 1, one of them 'GTV'; expected a number"
    ):
        imported(tmp_path)
    write_structure_set(file, {"GTV": disc(affine), "Cord": disc(affine), "Body": ()}, numbers=(1, 2, 2))
    imported(tmp_path)
