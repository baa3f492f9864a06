import gzip
from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK
from scans import OBLIQUE, ORIGIN, SPACING, VOXELS, file_number, itk_volume, write_series

from fedannot.apps.importing.checked import checked_case
from fedannot.apps.importing.mask_notes import rounded_masks, turned_masks
from fedannot.apps.importing.reading import Reading
from fedannot.apps.importing.source import SourceCase, SourceDataset
from fedannot.apps.importing.volumes import as_nifti
from fedannot.custom.data.description import VolumeDescription
from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.dicom_header import is_dicom_series


def expected_affine(directions=OBLIQUE, step=None):
    """Voxel (i, j, k) lies at origin + i·column 1 + …, and of left-back-top the first two become right-front."""
    columns = [directions[:, axis] * SPACING[axis] for axis in range(3)]
    if step is not None:
        columns[2] = np.array(step)
    affine = np.eye(4)
    for axis, column in enumerate((*columns, ORIGIN)):
        affine[:3, axis] = (-column[0], -column[1], column[2])
    return affine


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_nifti_stays_the_file_it_is(tmp_path, name):
    nibabel.save(nibabel.Nifti1Image(VOXELS, np.eye(4)), tmp_path / name)
    before = (tmp_path / name).read_bytes()
    assert as_nifti(tmp_path / name, tmp_path / "out.nii.gz") == tmp_path / name
    assert (tmp_path / name).read_bytes() == before
    assert not (tmp_path / "out.nii.gz").exists()


@pytest.mark.parametrize("directions", [np.eye(3), OBLIQUE, OBLIQUE @ np.diag([1, -1, -1])])
@pytest.mark.parametrize("name", ["a.nrrd", "a.nhdr", "a.mha", "a.mhd"])
def test_other_formats_become_nifti_with_the_same_voxels_at_the_same_places(tmp_path, name, directions):
    SimpleITK.WriteImage(itk_volume(directions=directions), str(tmp_path / name))
    volume = nibabel.load(as_nifti(tmp_path / name, tmp_path / "new" / "out.nii.gz"))
    assert np.array_equal(volume.dataobj, VOXELS.transpose(2, 1, 0))
    np.testing.assert_allclose(volume.affine, expected_affine(directions), atol=1e-5)
    assert volume.header.get_xyzt_units()[0] == "mm"


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint16, np.int32, np.int64, np.float32, np.float64])
def test_values_keep_their_type(tmp_path, kind):
    SimpleITK.WriteImage(itk_volume(VOXELS.astype(kind)), str(tmp_path / "a.nrrd"))
    volume = nibabel.load(as_nifti(tmp_path / "a.nrrd", tmp_path / "out.nii.gz"))
    assert volume.get_data_dtype() == kind
    assert np.array_equal(volume.dataobj, VOXELS.transpose(2, 1, 0))


def test_a_dicom_series_becomes_nifti(tmp_path):
    folder = write_series(tmp_path / "series")
    assert is_dicom_series(folder)
    volume = nibabel.load(as_nifti(folder, tmp_path / "out.nii.gz"))
    assert np.array_equal(volume.dataobj, VOXELS.transpose(2, 1, 0))
    np.testing.assert_allclose(volume.affine, expected_affine(), atol=1e-5)


def test_the_slices_of_a_tilted_gantry_stay_where_they_are(tmp_path):
    directions = np.eye(3)
    folder = write_series(tmp_path / "tilted", shear=(0, 0.8, 0), directions=directions)
    volume = nibabel.load(as_nifti(folder, tmp_path / "out.nii.gz"))
    np.testing.assert_allclose(volume.affine, expected_affine(directions, step=(0, 0.8, SPACING[2])), atol=1e-5)


def test_sheared_axes_of_nrrd_stay_where_they_are(tmp_path):
    header = (
        "NRRD0005\ntype: uchar\ndimension: 3\nspace: left-posterior-superior\nsizes: 3 4 5\nkinds: domain domain domain"
        "\nspace directions: (1,0,0) (0.3,1,0) (0,0,2)\nspace origin: (1,2,3)\nencoding: raw\n\n"
    )
    (tmp_path / "a.nrrd").write_bytes(header.encode() + bytes(range(60)))
    affine = nibabel.load(as_nifti(tmp_path / "a.nrrd", tmp_path / "out.nii.gz")).affine
    expected = [[-1, -0.3, 0, -1], [0, -1, 0, -2], [0, 0, 2, 3], [0, 0, 0, 1]]
    np.testing.assert_allclose(affine, expected, atol=1e-6)


@pytest.mark.parametrize("missing", [1, 3])
def test_a_series_with_a_missing_slice_is_refused(tmp_path, missing):
    folder = write_series(tmp_path / "series", left_out=[missing])
    message = rf"series: found 5 mm between the slices {missing} and {missing + 1}, elsewhere 2\.5 mm"
    with pytest.raises(DataError, match=message):
        as_nifti(folder, tmp_path / "out.nii.gz")
    assert not (tmp_path / "out.nii.gz").exists()


def test_two_series_in_a_folder_are_refused(tmp_path):
    folder = write_series(tmp_path / "series")
    write_series(folder, uid="1.2.3.5", prefix="b")
    with pytest.raises(DataError, match="series: found 2 DICOM series; expected one in each folder"):
        as_nifti(folder, tmp_path / "out.nii.gz")


def write_vector(folder):
    image = SimpleITK.GetImageFromArray(np.zeros((3, 4, 5, 2), np.float32), isVector=True)
    SimpleITK.WriteImage(image, str(folder / "vector.mha"))
    return folder / "vector.mha"


def write_picture(folder):
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.zeros((3, 4), np.uint8)), str(folder / "flat.mha"))
    return folder / "flat.mha"


def write_time_series(folder):
    image = SimpleITK.GetImageFromArray(np.zeros((2, 3, 4, 5), np.uint8), isVector=False)
    SimpleITK.WriteImage(image, str(folder / "time.nrrd"))
    return folder / "time.nrrd"


def write_huge_header(folder):
    header = "NRRD0004\ntype: short\ndimension: 3\nsizes: 100000 100000 100000\nencoding: raw\nendian: little\n\n"
    (folder / "huge.nrrd").write_bytes(header.encode() + bytes(100))
    return folder / "huge.nrrd"


def write_cut_off(folder):
    SimpleITK.WriteImage(itk_volume(), str(folder / "cut.mha"))
    (folder / "cut.mha").write_bytes((folder / "cut.mha").read_bytes()[:-40])
    return folder / "cut.mha"


def write_damaged(folder):
    (folder / "damaged.nrrd").write_bytes(b"no header")
    return folder / "damaged.nrrd"


def write_without_raw(folder):
    SimpleITK.WriteImage(itk_volume(), str(folder / "alone.mhd"))
    (folder / "alone.raw").unlink()
    return folder / "alone.mhd"


def write_cut_off_slice(folder):
    series = write_series(folder / "cut-slice")
    middle = series / f"{file_number(3)}.dcm"
    middle.write_bytes(middle.read_bytes()[:200])
    return series


def write_pictures(folder):
    (folder / "pictures").mkdir()
    (folder / "pictures" / "a.png").write_bytes(b"no DICOM")
    return folder / "pictures"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (write_vector, r"vector\.mha: found 3 axes with 2 values per voxel; expected three axes and one value"),
        (write_picture, r"flat\.mha: found 2 axes with 1 values per voxel"),
        (write_time_series, r"time\.nrrd: found 4 axes with 1 values per voxel"),
        (write_huge_header, rf"huge\.nrrd: found {10**15} voxels; expected at most {2**30}"),
        (write_cut_off, r"cut\.mha: cannot be read as a volume \("),
        (write_damaged, r"damaged\.nrrd: cannot be read as a volume \("),
        (write_without_raw, r"alone\.mhd: cannot be read as a volume \("),
        (write_cut_off_slice, "cut-slice: found 5 mm between the slices 3 and 4"),
        (write_pictures, "pictures: found 0 DICOM series"),
        (lambda folder: folder / "nowhere.nrrd", r"nowhere\.nrrd: found no such file; expected a volume"),
    ],
)
def test_what_is_no_volume_is_named(tmp_path, write, message):
    source = write(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        as_nifti(source, tmp_path / "out.nii.gz")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.nii.gz").exists()


def test_only_folders_that_begin_with_dicom_are_series(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    assert not is_dicom_series(folder)
    (folder / "short").write_bytes(b"DICM")
    assert not is_dicom_series(folder)
    assert not is_dicom_series(folder / "short")
    (folder / ".hidden").write_bytes(b"x")
    (folder / "a").write_bytes(bytes(128) + b"DICM")
    assert is_dicom_series(folder)


@pytest.fixture
def check(tmp_path):
    def check_(image, label, **options):
        dataset = SourceDataset("any", "segmentation", volumes=True, cases=())
        reading = Reading(VolumeDescription(classes=("any",), labels={0: 0, 1: 1}), **options)
        return checked_case(SourceCase(image, label, name="case"), dataset, tmp_path / "staging", reading)

    return check_


def write_mask(file: Path, *, shift=0.0, directions=OBLIQUE, voxels=None):
    image = itk_volume((VOXELS % 3).astype(np.uint8) if voxels is None else voxels, directions)
    image.SetOrigin([place + shift for place in ORIGIN])
    SimpleITK.WriteImage(image, str(file))
    return file


@pytest.mark.parametrize("name", ["mask.nii.gz", "mask.mha", "mask.nrrd"])
def test_a_mask_may_have_another_format_than_its_image(tmp_path, check, name):
    case = check(write_series(tmp_path / "series"), write_mask(tmp_path / name))
    assert case.values == (0, 1, 2)
    image, label = nibabel.load(case.image), nibabel.load(case.label)
    np.testing.assert_allclose(image.affine, label.affine, atol=1e-3)
    assert np.array_equal(label.dataobj, VOXELS.transpose(2, 1, 0) % 3)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"shift": 1.0}, r"mask\.nrrd: found a mask that lies up to 1\.7 mm off its image"),
        ({"directions": np.eye(3)}, r"mask\.nrrd: found a mask that lies up to .* mm off"),
        ({"voxels": VOXELS[:5]}, r"mask\.nrrd: found a mask that ends inside of its image, annotated up to its end"),
        ({"voxels": VOXELS / np.float32(7)}, r"mask\.nrrd: found a mask with fractions"),
    ],
)
def test_a_mask_that_does_not_fit_is_named_as_the_person_knows_it(tmp_path, check, mask, message):
    image = write_series(tmp_path / "series")
    with pytest.raises(DataError, match=message) as caught:
        check(image, write_mask(tmp_path / "mask.nrrd", **mask))
    assert "staging" not in str(caught.value)


def test_label_values_of_a_resampled_mask_are_rounded_on_request(tmp_path, check):
    """Read back by SimpleITK: whole numbers at the mask's place."""
    image = write_series(tmp_path / "series")
    mask = write_mask(tmp_path / "mask.nrrd", voxels=(VOXELS % 3).astype(np.float32) * np.float32(0.9999))
    with pytest.raises(
        DataError, match=r"mask\.nrrd: found .* not quite whole.* --round-labels takes the nearest ones"
    ):
        check(image, mask)
    case = check(image, mask, round_labels=True)
    assert (case.is_rounded, case.values) == (True, (0, 1, 2))
    written, given = SimpleITK.ReadImage(str(case.label)), SimpleITK.ReadImage(str(mask))
    assert np.array_equal(SimpleITK.GetArrayFromImage(written), VOXELS % 3)
    np.testing.assert_allclose(written.GetOrigin(), given.GetOrigin(), atol=1e-3)
    assert rounded_masks([case]).startswith("Rounded masks: in 1 of 1 cases (mask.nrrd for one)")
    assert not check(image, write_mask(tmp_path / "whole.nrrd"), round_labels=True).is_rounded


def test_an_image_with_holes_is_named_as_the_person_knows_it(tmp_path, check):
    voxels = VOXELS.astype(np.float32)
    voxels[0, 0, 0] = np.nan
    SimpleITK.WriteImage(itk_volume(voxels), str(tmp_path / "holes.mha"))
    with pytest.raises(DataError, match=r"holes\.mha: found 1 intensities that are not finite") as caught:
        check(tmp_path / "holes.mha", write_mask(tmp_path / "mask.nrrd"))
    assert "staging" not in str(caught.value)


def test_several_masks_of_a_volume_become_one(tmp_path, check):
    image = write_mask(tmp_path / "image.mha", voxels=VOXELS)
    first = write_mask(tmp_path / "lesion_1.nrrd", voxels=(VOXELS == 7).astype(np.uint8))
    second = write_mask(tmp_path / "lesion_2.nii.gz", voxels=(VOXELS > 100).astype(np.uint8))
    case = check(image, (first, second))
    label = nibabel.load(case.label)
    expected = ((VOXELS == 7) | (VOXELS > 100)).transpose(2, 1, 0)
    np.testing.assert_array_equal(np.asarray(label.dataobj), expected)
    np.testing.assert_allclose(label.affine, nibabel.load(case.image).affine)
    assert {value: count.pixels for value, count in case.counts.items()} == {
        0: int((~expected).sum()),
        1: int(expected.sum()),
    }


def test_a_mask_half_a_voxel_off_is_taken_where_its_image_lies_if_its_voxels_are_trusted(tmp_path, check):
    image = write_series(tmp_path / "series")
    mask = write_mask(tmp_path / "mask.nrrd", shift=1.0)
    with pytest.raises(DataError, match=r"If the voxels do belong together, --trust-voxels imports the mask with"):
        check(image, mask)
    case = check(image, mask, trust_voxels=True)
    assert case.offset == pytest.approx(3**0.5, abs=0.01)
    moved, at = nibabel.load(case.label), nibabel.load(case.image)
    np.testing.assert_array_equal(moved.affine, at.affine)
    np.testing.assert_array_equal(np.asarray(moved.dataobj), VOXELS.transpose(2, 1, 0) % 3)


def test_trusted_voxels_must_be_as_many_and_others_stay_as_they_are(tmp_path, check):
    image = write_series(tmp_path / "series")
    with pytest.raises(DataError, match=r"mask\.nrrd: found a mask of 3 × 4 × 5 voxels"):
        check(image, write_mask(tmp_path / "mask.nrrd", voxels=VOXELS[:5] % 3), trust_voxels=True)
    right = write_mask(tmp_path / "mask.nii.gz")
    case = check(image, right, trust_voxels=True)
    assert (case.label, case.offset) == (right, 0)


def write_nifti(file, voxels, affine):
    nibabel.save(nibabel.Nifti1Image(voxels, affine), file)
    return file


def test_a_mask_in_another_orientation_at_the_same_place_is_turned_to_its_image(tmp_path, check):
    affine = np.diag([1.5, 1.5, 3.0, 1.0])
    affine[:3, 3] = -30, -20, 10
    labels = (np.arange(4 * 5 * 6).reshape(4, 5, 6) % 7 == 0).astype(np.uint8)
    image = write_nifti(tmp_path / "image.nii.gz", labels.astype(np.int16), affine)
    for name, orientation in (("mirrored", [[0, -1], [1, 1], [2, 1]]), ("turned", [[2, 1], [0, -1], [1, 1]])):
        mask = tmp_path / f"{name}.nii.gz"
        nibabel.save(nibabel.Nifti1Image(labels, affine).as_reoriented(orientation), mask)
        case = check(image, mask)
        assert (case.is_turned, case.offset) == (True, 0)
        assert case.label != mask
        np.testing.assert_array_equal(np.asarray(nibabel.load(case.label).dataobj), labels)
        np.testing.assert_array_equal(nibabel.load(case.label).affine, affine)
        assert "Turned masks: in 1 of 1 cases" in turned_masks([case])


@pytest.mark.parametrize("flip", [True, False])
def test_trusted_voxels_are_never_mirrored(tmp_path, check, flip):
    """Elsewhere by 4 mm; trusting the voxels would mirror the mask if its first axis runs the other way."""
    voxels = np.arange(4 * 5 * 6).reshape(4, 5, 6).astype(np.int16)
    image = write_nifti(tmp_path / "image.nii.gz", voxels, np.diag([2.0, 2, 2, 1]))
    affine = np.diag([-2.0 if flip else 2.0, 2, 2, 1])
    affine[:3, 3] = 6 if flip else 0, 0, 4
    mask = write_nifti(tmp_path / "mask.nii.gz", (voxels % 2).astype(np.uint8), affine)
    if not flip:
        assert check(image, mask, trust_voxels=True).offset == 4
        return
    for trusted in (False, True):
        with pytest.raises(DataError, match=r"Its axes run to LAS, those of the image to RAS, so that --trust-voxels"):
            check(image, mask, trust_voxels=trusted)


def test_voxels_of_a_mask_whose_header_says_nothing_may_be_trusted(tmp_path, check):
    affine = np.diag([-2.0, -2, 2, 1])
    affine[:3, 3] = 6, 8, 4
    voxels = np.arange(4 * 5 * 6).reshape(4, 5, 6).astype(np.int16)
    image = write_nifti(tmp_path / "image.nii.gz", voxels, affine)
    mask = write_nifti(tmp_path / "mask.nii.gz", (voxels % 2).astype(np.uint8), np.eye(4))
    case = check(image, mask, trust_voxels=True)
    np.testing.assert_array_equal(np.asarray(nibabel.load(case.label).dataobj), voxels % 2)
    np.testing.assert_array_equal(nibabel.load(case.label).affine, affine)


def test_a_damaged_nifti_is_named(tmp_path, check):
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(b"no header"))
    with pytest.raises(DataError, match=r"a\.nii\.gz: cannot be read as a NIfTI volume"):
        check(tmp_path / "a.nii.gz", tmp_path / "a.nii.gz")


def test_voxels_in_another_unit_than_millimetres_are_refused(tmp_path):
    """NRRD says `space units`, which SimpleITK does not tell."""
    image = SimpleITK.GetImageFromArray(np.zeros((4, 5, 6), np.int16))
    image.SetSpacing((500.0, 500.0, 2000.0))
    SimpleITK.WriteImage(image, str(tmp_path / "a.nrrd"))
    with pytest.raises(DataError, match=r"a\.nrrd: found voxels of 500 × 500 × 2e\+03 mm; expected at most 100 mm"):
        as_nifti(tmp_path / "a.nrrd", tmp_path / "out.nii.gz")
