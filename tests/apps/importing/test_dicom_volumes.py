"""DICOM volumes and segmentations get the values and places that their files say, or are refused by name."""

import nibabel
import numpy as np
import pydicom
import pytest
from dicom_files import AFFINE, CT, MR, SHAPE, write_frames, write_segmentation, write_slices

from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.source import SourceCase, SourceDataset
from fedannot.apps.importing.volumes import as_nifti
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.datalist import read_datalist
from fedannot.transforms.errors import DataError

STORED = np.random.default_rng(0).integers(0, 4000, SHAPE).astype(np.uint16)
ONES, ZEROS = [1] * len(STORED), [0] * len(STORED)
SCALES = {
    "mixed": ([1, 0.5, 0.25, 2], [0, -10, 5.5, -1024]),
    "tiny": ([1e-3, 2e-3, 1.5e-3, 3e-3], [0, 0, 0, 0]),
    # The first slice is whole numbers; the others would become zeros.
    "whole first": ([1, 1e-5, 1e-5, 2e-5], [0, 0, 0, 0]),
    "none": (ONES, ZEROS),
}
MASK = np.zeros(SHAPE, np.uint8)
MASK[1:3, 1:3, 2:5], MASK[2, 4, 0] = 1, 2


def expected(slopes, intercepts):
    """Columns, rows, slices."""
    return np.stack([STORED[index].astype(float) * slopes[index] + intercepts[index] for index in range(len(STORED))]).T


def read(source, tmp_path, **options):
    volume = nibabel.load(as_nifti(source, tmp_path / "out.nii.gz", **options))
    return np.asarray(volume.dataobj), volume.affine


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("sop", [CT, MR], ids=["CT", "MR"])
def test_every_slice_of_a_series_has_its_own_slope(tmp_path, name, sop):
    values, affine = read(write_slices(tmp_path / "series", STORED, *SCALES[name], sop=sop), tmp_path)
    np.testing.assert_allclose(values, expected(*SCALES[name]), rtol=0, atol=1e-9 * 8000)
    np.testing.assert_allclose(affine, AFFINE, atol=1e-6)
    assert (values.dtype.kind == "f") == (name != "none")


@pytest.mark.parametrize("is_series", [True, False])
@pytest.mark.parametrize(("slope", "intercept", "bits"), [(2e6, 0, 16), (1, -1, 32)])
def test_whole_numbers_beyond_32_bits_stay_what_they_are(tmp_path, slope, intercept, bits, is_series):
    stored = STORED if bits == 16 else np.random.default_rng(1).integers(0, 2**32, SHAPE, dtype=np.uint32)
    scales = [slope] * len(stored), [intercept] * len(stored)
    if is_series:
        source = write_slices(tmp_path / "ct", stored, *scales, bits=bits)
    else:
        source = write_frames(tmp_path / "ct.dcm", stored, *scales, order=(2, 0, 3, 1), bits=bits)
    values, affine = read(source, tmp_path)
    # Frames may be counted from either end.
    values = values if affine[2, 2] > 0 else values[..., ::-1]
    np.testing.assert_array_equal(values, stored.T.astype(np.float64) * slope + intercept)


@pytest.mark.parametrize("apart", [None, 6.0])
def test_a_single_slice_is_as_thick_as_it_says(tmp_path, apart):
    values = {} if apart is None else {"SpacingBetweenSlices": apart}
    series = write_slices(tmp_path / "ct", STORED[:1], [1], [0], SliceThickness=5.0, **values)
    _, affine = read(series, tmp_path)
    sizes = np.linalg.norm(AFFINE[:3, :2], axis=0)
    np.testing.assert_allclose(np.linalg.norm(affine[:3, :3], axis=0), (*sizes, 5.0), atol=1e-6)


def test_slices_in_which_0_is_white_become_brightness(tmp_path):
    slopes, intercepts = SCALES["mixed"]
    write_slices(tmp_path / "series", STORED, slopes, intercepts, bits=12, PhotometricInterpretation="MONOCHROME1")
    stored = 4095 - STORED.astype(float)
    shown = np.stack([stored[index] * slopes[index] + intercepts[index] for index in range(len(stored))]).T
    np.testing.assert_allclose(read(tmp_path / "series", tmp_path)[0], shown, atol=1e-6)


@pytest.mark.parametrize("name", SCALES)
def test_frames_have_their_own_places_and_slopes(tmp_path, name):
    write_frames(tmp_path / "ct" / "a.dcm", STORED, *SCALES[name], order=(2, 0, 3, 1))
    for source in (tmp_path / "ct", tmp_path / "ct" / "a.dcm"):
        values, affine = read(source, tmp_path)
        # Frames may be counted from either end.
        if affine[2, 2] < 0:
            affine = affine @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, SHAPE[0] - 1], [0, 0, 0, 1]])
            values = values[..., ::-1]
        np.testing.assert_allclose(affine, AFFINE, atol=1e-6)
        np.testing.assert_allclose(values, expected(*SCALES[name]), rtol=0, atol=1e-9 * 8000)


def test_frames_that_make_no_volume_are_refused_by_name(tmp_path):
    write_frames(tmp_path / "gap" / "a.dcm", STORED, ONES, ZEROS, order=(0, 1, 3))
    write_frames(tmp_path / "film" / "b.dcm", STORED, ONES, ZEROS, order=(0, 1, 2), places=False)
    write_frames(tmp_path / "two" / "c.dcm", STORED, ONES, ZEROS, order=(0, 1, 2, 3))
    (tmp_path / "two" / "d.dcm").write_bytes((tmp_path / "two" / "c.dcm").read_bytes())
    for folder, reason in (
        ("gap", r"a\.dcm: its 3 frames cannot be read as a volume"),
        ("film", r"b\.dcm: its 3 frames cannot be read as a volume"),
        ("two", r"\.dcm: found 4 frames in one of 2 files of a series; expected such a file in a folder of its own"),
    ):
        with pytest.raises(DataError, match=reason):
            as_nifti(tmp_path / folder, tmp_path / "out.nii.gz")
    assert not (tmp_path / "out.nii.gz").exists()


def imported(tmp_path, cases, **options):
    dataset = SourceDataset("dicom", "segmentation", True, tuple(cases))
    return write_imported_federation(
        [dataset], tmp_path / "out", SiteChoice(1), ImportOptions(**options), test_share=0.0
    )


@pytest.mark.parametrize("chosen", [(0, 1, 2, 3), (1, 2), (2,)])
def test_a_segmentation_lies_where_its_series_lies(tmp_path, chosen):
    series = write_slices(tmp_path / "series", STORED, ONES, ZEROS)
    mask = np.where(np.isin(np.arange(SHAPE[0]), chosen)[:, None, None], MASK, 0)
    write_segmentation(tmp_path / "seg" / "a.dcm", series, mask, chosen)
    imported(tmp_path, [SourceCase(series, tmp_path / "seg")], labels={1: 1, 2: 2}, classes=("a", "b"))
    (case,) = read_datalist(tmp_path / "out" / "site-1" / "datalist.json").section("training")
    image, label = nibabel.load(case.image), nibabel.load(case.label)
    np.testing.assert_allclose(label.affine, image.affine)
    np.testing.assert_allclose(image.affine, AFFINE, atol=1e-6)
    assert np.array_equal(label.dataobj, mask.T)


def test_dicom_segments_that_are_named_as_classes_are_these(tmp_path):
    cases = []
    for name, mask, names in (("a", MASK, ["tumour", "oedema"]), ("b", (3 - MASK) * (MASK > 0), ["oedema", "tumour"])):
        series = write_slices(tmp_path / name, STORED, ONES, ZEROS)
        label = write_segmentation(
            tmp_path / f"{name}-seg.dcm", series, mask.astype(np.uint8), range(len(STORED)), names
        )
        cases.append(SourceCase(series, label, name=name))
    report = imported(tmp_path, cases, labels={1: 1, 2: 2}, classes=("tumour", "oedema"))
    assert report.excluded == ()
    for case in read_datalist(tmp_path / "out" / "site-1" / "datalist.json").section("training"):
        np.testing.assert_array_equal(np.asarray(nibabel.load(case.label).dataobj), MASK.T)


def test_one_file_that_cannot_be_used_does_not_end_an_import(tmp_path):
    good = write_slices(tmp_path / "good", STORED, ONES, ZEROS)
    write_segmentation(tmp_path / "seg" / "a.dcm", good, MASK, range(4))
    write_frames(tmp_path / "film" / "b.dcm", STORED, ONES, ZEROS, order=(0, 1, 2), places=False)
    cut = write_slices(tmp_path / "cut", STORED, ONES, ZEROS)
    for file in cut.iterdir():
        file.write_bytes(file.read_bytes()[:-20])
    cases = [SourceCase(tmp_path / name, tmp_path / "seg", name=name) for name in ("good", "film", "cut")]
    report = imported(tmp_path, cases, labels={1: 1, 2: 1})
    assert len(report.excluded) == 2
    assert len(read_datalist(tmp_path / "out" / "site-1" / "datalist.json").section("training")) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ImagePositionPatient": None}, r"1\.dcm: found no usable ImagePositionPatient"),
        ({"ImageOrientationPatient": None}, r"1\.dcm: found no usable ImageOrientationPatient"),
        ({"PixelSpacing": None}, r"1\.dcm: found no usable PixelSpacing"),
        ({"PixelSpacing": [0, 0]}, r"1\.dcm: found no usable PixelSpacing"),
        ({"PixelSpacing": [2, 2]}, r"1\.dcm: found PixelSpacing \[2\.0, 2\.0\], in 0\.dcm \[0\.7, 0\.9\]"),
        ({"ImageOrientationPatient": [0, 1, 0, 1, 0, 0]}, r"1\.dcm: found ImageOrientationPatient \[0\.0, 1\.0,"),
    ],
)
def test_slices_without_a_place_of_their_own_are_refused_by_name(tmp_path, values, message):
    """SimpleITK would take 1 mm, or what the first slice says."""
    series = write_slices(tmp_path / "series", STORED, ONES, ZEROS)
    slice_ = pydicom.dcmread(series / "1.dcm")
    for name, value in values.items():
        delattr(slice_, name) if value is None else setattr(slice_, name, value)
    slice_.save_as(series / "1.dcm", enforce_file_format=True)
    with pytest.raises(DataError, match=message):
        as_nifti(series, tmp_path / "out.nii.gz")


def test_slices_at_one_place_or_with_a_place_that_is_no_number_do_not_end_an_import(tmp_path):
    good, same, text = (write_slices(tmp_path / name, STORED, ONES, ZEROS) for name in ("good", "same", "text"))
    for file in same.iterdir():
        slice_ = pydicom.dcmread(file)
        slice_.ImagePositionPatient = [0, 0, 0]
        slice_.save_as(file, enforce_file_format=True)
    damaged = text / "1.dcm"
    damaged.write_bytes(damaged.read_bytes().replace(b"3.0\\4.0\\", b"abc\\4.0\\"))
    write_segmentation(tmp_path / "seg" / "a.dcm", good, MASK, range(4))
    cases = [SourceCase(folder, tmp_path / "seg", name=folder.name) for folder in (good, same, text)]
    report = imported(tmp_path, cases, labels={1: 1, 2: 1})
    assert "same: found voxels of 0.9 × 0.7 × 0 mm" in str(report.excluded[0])
    assert "1.dcm: found no usable ImagePositionPatient" in str(report.excluded[1])
    assert report.num_cases == 1
