"""Volumes of HDF5 files as NIfTI, and their import with every annotator."""

import re
from dataclasses import replace

import nibabel
import numpy as np
import pytest
import SimpleITK as sitk
from typer.testing import CliRunner

from fedannot.apps.commands.data import data_app
from fedannot.apps.importing.hdf5_volumes import Hdf5Names, convert_hdf5
from fedannot.custom.data.datalist import read_datalist
from fedannot.transforms.errors import DataError

h5py = pytest.importorskip("h5py")

NAMES = Hdf5Names(("t1", "t2"), ("label_a1", "label_a2"), "voxel_spacing", "zyx")
# By the axes of the file: z, y, x.
SPACING = (3.0, 0.5, 0.75)


def write(file, **changes):
    """A case as the files of MMIS-2024 hold it; None leaves something out."""
    file.parent.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(len(file.stem) + ord(file.stem[-1]))
    label = np.zeros((4, 6, 5), np.uint8)
    label[1:3, 2:5, 1:4] = 1
    values = {
        "t1": generator.normal(size=(4, 6, 5)),
        "t2": generator.normal(size=(4, 6, 5)),
        "label_a1": label,
        "label_a2": np.roll(label, 1, axis=1),
        "voxel_spacing": np.array(SPACING),
    } | changes
    with h5py.File(file, "w") as content:
        for name, value in values.items():
            if value is not None:
                content[name] = value
    return values


def test_voxels_lie_where_another_program_reads_them(tmp_path):
    values = write(tmp_path / "in" / "deep" / "case_1.h5")
    converted = convert_hdf5(tmp_path / "in", NAMES, tmp_path / "out")
    assert (converted.count, converted.left_out) == (1, ())
    for number, name in enumerate(NAMES.images):
        image = sitk.ReadImage(str(tmp_path / "out" / "images" / f"case_1_{number:04d}.nii.gz"))
        # SimpleITK's arrays have z first, its spacing x.
        np.testing.assert_allclose(sitk.GetArrayFromImage(image), values[name], rtol=1e-6)
        assert image.GetSpacing() == pytest.approx(SPACING[::-1])
    for name in NAMES.labels:
        mask = nibabel.load(tmp_path / "out" / "labels" / name / "case_1.nii.gz")
        np.testing.assert_array_equal(np.asarray(mask.dataobj).T, values[name])
        # The file does not say where its axes point, and this one does not, either.
        assert (int(mask.header["sform_code"]), int(mask.header["qform_code"])) == (0, 0)


def test_other_axes_and_a_spacing_that_is_given(tmp_path):
    values = write(tmp_path / "in" / "a.hdf5", voxel_spacing=None)
    names = Hdf5Names(("t1",), ("label_a1",), (0.5, 0.75, 3.0), axes="yxz", spacing_axes="yxz")
    convert_hdf5(tmp_path / "in", names, tmp_path / "out")
    image = nibabel.load(tmp_path / "out" / "images" / "a.nii.gz")
    np.testing.assert_allclose(image.get_fdata(), values["t1"].transpose(1, 0, 2), rtol=1e-6)
    assert image.header.get_zooms() == pytest.approx((0.75, 0.5, 3.0))


def test_the_order_of_axes_is_never_guessed(tmp_path):
    write(tmp_path / "a.h5")
    unsaid = replace(NAMES, axes=None)
    with pytest.raises(
        DataError, match=r"found no labels of axes, of \(4, 6, 5\) voxels; expected .* --axes, such as zyx"
    ):
        convert_hdf5(tmp_path / "a.h5", unsaid, tmp_path / "out")
    options = ["--images", "t1", "--labels", "label_a1", "--spacing", "voxel_spacing", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(data_app, ["hdf5", str(tmp_path / "a.h5"), *options])
    assert done.exit_code != 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("by", ["labels", "scales"])
def test_what_a_file_says_of_its_axes_counts(tmp_path, by):
    values = write(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as content:
        for place, axis in enumerate("xyz"):
            if by == "labels":
                content["t1"].dims[place].label = axis
                continue
            content[f"scale/{axis}"] = np.arange(values["t1"].shape[place])
            content[f"scale/{axis}"].make_scale(axis)
            content["t1"].dims[place].attach_scale(content[f"scale/{axis}"])
    convert_hdf5(tmp_path / "a.h5", replace(NAMES, axes=None), tmp_path / "out")
    image = nibabel.load(tmp_path / "out" / "images" / "a_0000.nii.gz")
    np.testing.assert_allclose(image.get_fdata(), values["t1"], rtol=1e-6)
    assert image.header.get_zooms() == pytest.approx(SPACING)
    # Who says otherwise is told so, and so is who has arrays of two orders.
    with pytest.raises(
        DataError, match=r"found xyz in 't1', of \(4, 6, 5\) voxels, and --axes zyx; expected one order"
    ):
        convert_hdf5(tmp_path / "a.h5", NAMES, tmp_path / "second")
    with h5py.File(tmp_path / "a.h5", "r+") as content:
        for place, axis in enumerate("zyx"):
            content["label_a1"].dims[place].label = axis
    with pytest.raises(DataError, match="found xyz in 't1', zyx in 'label_a1', of"):
        convert_hdf5(tmp_path / "a.h5", replace(NAMES, axes=None), tmp_path / "second")


def test_a_spacing_in_another_order_than_the_axes_is_no_wrong_spacing_without_a_word(tmp_path):
    """Four slices of 3 mm, whose spacing the file has with x first."""
    write(tmp_path / "a.h5", voxel_spacing=np.array(SPACING[::-1]))
    with pytest.raises(
        DataError,
        match=r"found the spacing \[0\.75, 0\.5, 3\.0\] and \(4, 6, 5\) voxels along z, y, x: the thickest voxels "
        r"would lie along x, .* --spacing-axes, such as zyx or xyz\.",
    ):
        convert_hdf5(tmp_path / "a.h5", NAMES, tmp_path / "out")
    convert_hdf5(tmp_path / "a.h5", replace(NAMES, spacing_axes="xyz"), tmp_path / "out")
    image = sitk.ReadImage(str(tmp_path / "out" / "images" / "a_0000.nii.gz"))
    assert image.GetSpacing() == pytest.approx(SPACING[::-1])
    assert image.GetSize() == (5, 6, 4)
    # Thick voxels along a long axis are taken from who says so.
    convert_hdf5(tmp_path / "a.h5", replace(NAMES, spacing_axes="zyx"), tmp_path / "said")
    said = sitk.ReadImage(str(tmp_path / "said" / "images" / "a_0000.nii.gz"))
    assert said.GetSpacing() == pytest.approx(SPACING)


def test_the_printed_command_imports_all_channels_and_annotators(tmp_path):
    for number in range(6):
        write(tmp_path / "in" / f"case_{number}.h5", **({"label_a2": None} if number == 5 else {}))
    runner = CliRunner()
    options = ["--images", "t1,t2", "--labels", "label_a1,label_a2", "--spacing", "voxel_spacing", "--axes", "zyx"]
    done = runner.invoke(data_app, ["hdf5", str(tmp_path / "in"), *options, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    line = next(one for one in " ".join(done.output.split()).split("fedannot data ") if one.startswith("import"))
    words = line.replace("NAME,…", "tumour").split()
    arguments = [*words, "--label-map", "1:1", "--sites", "2", "--test", "0", "--out", str(tmp_path / "federation")]
    imported = runner.invoke(data_app, arguments)
    assert imported.exit_code == 0, imported.output
    cases = [
        case
        for site in ("site-1", "site-2")
        for case in read_datalist(tmp_path / "federation" / site / "datalist.json").section("training")
    ]
    assert sorted(len(case.annotations) for case in cases) == [0, 2, 2, 2, 2, 2]
    assert all(len(case.channels) == 2 for case in cases)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"t2": None}, "found no 't2' among"),
        ({"t2": np.zeros((4, 6, 4))}, r"found 't2' of \(4, 6, 4\)"),
        ({"t1": np.zeros((4, 6))}, "expected numbers along 3 axes"),
        ({"t1": h5py.Empty("f4")}, "expected numbers along 3 axes"),
        ({"t1": np.array([b"x"])}, "expected numbers along 3 axes"),
        ({"voxel_spacing": np.array([1.0, 0.0, 1.0])}, "expected three lengths"),
        ({"voxel_spacing": np.array([1.0, np.nan, 1.0])}, "expected three lengths"),
        ({"label_a1": None, "label_a2": None}, "found none of the masks"),
        ({"label_a1": np.full((4, 6, 5), 0.5)}, "expected classes"),
        ({"label_a1": np.full((4, 6, 5), -1)}, "expected classes"),
        ({"label_a1": np.full((4, 6, 5), 2**40)}, "expected classes"),
        ({"t1": h5py.SoftLink("/t2")}, "found a link as 't1'"),
        ({"t1": h5py.ExternalLink("secret.h5", "/t1")}, "found a link as 't1'"),
    ],
)
def test_a_file_that_cannot_be_used_is_left_out_by_name_and_the_others_are_written(tmp_path, changes, message):
    write(tmp_path / "in" / "secret.h5")
    write(tmp_path / "in" / "wrong.h5", **changes)
    converted = convert_hdf5(tmp_path / "in", NAMES, tmp_path / "out")
    assert converted.count == 1
    (text,) = converted.left_out
    assert re.search(message, text)
    assert text.startswith(f"{tmp_path / 'in' / 'wrong.h5'}: ")
    assert not [file for file in (tmp_path / "out").rglob("*") if "wrong" in file.name]


def test_what_lies_in_other_files_is_never_read(tmp_path):
    write(tmp_path / "secret" / "s.h5")
    with h5py.File(tmp_path / "in.h5", "w") as content:
        content["group"] = h5py.ExternalLink(str(tmp_path / "secret" / "s.h5"), "/")
        layout = h5py.VirtualLayout((4, 6, 5), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret" / "s.h5"), "t1", (4, 6, 5))
        content.create_virtual_dataset("virtual", layout)
        outside = [(str(tmp_path / "secret" / "s.h5"), 0, 960)]
        content.create_dataset("external", (4, 6, 5), "f8", external=outside)
        content["label_a1"] = np.zeros((4, 6, 5), np.uint8)
    for name in ("group/t1", "virtual", "external"):
        names = Hdf5Names((name,), ("label_a1",), (1.0, 1.0, 1.0), "zyx")
        with pytest.raises(DataError, match=r"found a link as 'group'|outside of the file"):
            convert_hdf5(tmp_path / "in.h5", names, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_small_file_of_a_huge_volume_is_refused_unread(tmp_path):
    with h5py.File(tmp_path / "bomb.h5", "w") as content:
        content.create_dataset("t1", (2**12, 2**10, 2**10), "u1", chunks=(64, 64, 64), compression="gzip")
        content["label_a1"] = np.zeros((4, 6, 5), np.uint8)
    with pytest.raises(DataError, match="expected numbers along 3 axes, at most 2147483648 bytes"):
        convert_hdf5(tmp_path / "bomb.h5", Hdf5Names(("t1",), ("label_a1",), (1.0, 1.0, 1.0), "zyx"), tmp_path / "out")


def test_no_hdf5_is_an_error(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"x" * 100)
    with pytest.raises(DataError, match=r"no usable case in 1 HDF5 files\. First reason: .*a\.h5: cannot be read"):
        convert_hdf5(tmp_path, NAMES, tmp_path / "out")
    with pytest.raises(DataError, match=r"expected HDF5 files"):
        convert_hdf5(tmp_path / "absent", NAMES, tmp_path / "out")
