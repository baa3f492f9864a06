import gzip
import os
import struct

import nibabel
import numpy as np
import pytest

from fedannot.transforms.data_error import DataError, NearlyWholeError
from fedannot.transforms.loading import volume_files
from fedannot.transforms.loading.volume_files import (
    Volume,
    check_same_geometry,
    is_volume,
    read_label_volume,
    read_placement,
    read_volume,
    voxel_spacing,
    write_label_volume,
)

OBLIQUE = np.array([[1.9, -0.3, 0.2, 7], [0.4, 0.9, -0.5, -3], [-0.1, 0.2, 4.0, 11], [0, 0, 0, 1]])
RAMP = np.arange(2 * 3 * 4).reshape(2, 3, 4)


def write(file, voxels, affine=OBLIQUE, *, kind=nibabel.Nifti1Image, change=lambda header: None):
    image = kind(voxels, affine)
    change(image.header)
    nibabel.save(image, file)
    return file


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz", ".NII.GZ"])
@pytest.mark.parametrize("dtype", ["u1", "i1", ">i2", "u2", "i4", "u4", "f4", ">f4", "f8"])
def test_intensities_of_every_type_become_float32_and_the_affine_stays(tmp_path, suffix, dtype):
    volume = read_volume(write(tmp_path / f"a{suffix}", RAMP.astype(dtype)))
    np.testing.assert_array_equal(volume.voxels, RAMP)
    assert volume.voxels.dtype == np.float32
    np.testing.assert_allclose(volume.affine, OBLIQUE, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_64_bit_integers_are_read(tmp_path, dtype):
    file = tmp_path / "a.nii.gz"
    nibabel.save(nibabel.Nifti1Image(RAMP.astype(dtype), OBLIQUE, dtype=dtype), file)
    np.testing.assert_array_equal(read_label_volume(file).voxels, RAMP)


def test_nifti_2_is_read(tmp_path):
    file = write(tmp_path / "a.nii", RAMP.astype("i2"), kind=nibabel.Nifti2Image)
    np.testing.assert_array_equal(read_volume(file).voxels, RAMP)


def test_the_file_s_scaling_is_applied(tmp_path):
    image = nibabel.Nifti1Image(RAMP.astype("i2"), OBLIQUE)
    image.header.set_slope_inter(0.5, -1024)
    nibabel.save(image, tmp_path / "a.nii")
    # nibabel stores what gives the array after scaling; put the raw numbers there by hand.
    content = bytearray((tmp_path / "a.nii").read_bytes())
    content[352:] = RAMP.astype("<i2").tobytes(order="F")
    content[112:120] = np.array([0.5, -1024], "<f4").tobytes()
    (tmp_path / "a.nii").write_bytes(content)
    np.testing.assert_array_equal(read_volume(tmp_path / "a.nii").voxels, RAMP * 0.5 - 1024)


def test_trailing_axes_of_length_one_are_dropped(tmp_path):
    file = write(tmp_path / "a.nii", RAMP.astype("f4").reshape(2, 3, 4, 1, 1))
    assert read_volume(file).voxels.shape == (2, 3, 4)


def test_labels_stored_as_floating_point_are_whole_numbers(tmp_path):
    volume = read_label_volume(write(tmp_path / "a.nii", RAMP.astype("f8")))
    assert volume.voxels.dtype == np.int64
    np.testing.assert_array_equal(volume.voxels, RAMP)
    with pytest.raises(DataError, match=r"b\.nii: found a mask with fractions"):
        read_label_volume(write(tmp_path / "b.nii", RAMP + 0.5))
    with pytest.raises(DataError, match=r"c\.nii: found 8 of 8 values of a mask that are NaN or infinite"):
        read_label_volume(write(tmp_path / "c.nii", np.full((2, 2, 2), np.nan)))


def test_nearly_whole_labels_are_rounded_on_request_alone(tmp_path):
    file = write(tmp_path / "a.nii", (RAMP - 1e-4).astype("f4"))
    with pytest.raises(NearlyWholeError, match=r"a\.nii: found 24 label values that are not quite whole, such as"):
        read_label_volume(file)
    np.testing.assert_array_equal(read_label_volume(file, rounds=True).voxels, RAMP)
    with pytest.raises(DataError, match=r"b\.nii: found a mask with fractions"):
        read_label_volume(write(tmp_path / "b.nii", (RAMP + 0.02).astype("f4")), rounds=True)


def test_spacing_is_the_length_of_the_axes():
    # Columns (3, 4, 0), (0, 0, 2), (2, 3, 6): lengths 5, 2 and 7.
    affine = np.array([[3, 0, 2, 9], [4, 0, 3, 9], [0, 2, 6, 9], [0, 0, 0, 1.0]])
    assert voxel_spacing(affine) == (5, 2, 7)
    assert Volume(RAMP, affine).spacing == (5, 2, 7)


def test_a_volume_is_known_by_its_name(tmp_path):
    assert [is_volume(tmp_path / name) for name in ("a.nii", "a.NII.gz", "a.gz", "a.hdr", "nii")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def set_code_and_affine(value):
    def change(header):
        header["sform_code"], header["qform_code"] = 1, 0
        for row in ("srow_x", "srow_y", "srow_z"):
            header[row] = value

    return change


def rewritten(file, change):
    """Change the header in the file's bytes: nibabel would mend it."""
    raw = bytearray(file.read_bytes())
    header = nibabel.Nifti1Header(bytes(raw[:348]))
    change(header)
    raw[:348] = header.binaryblock
    file.write_bytes(raw)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_code_and_affine(0), "found an affine that cannot be inverted"),
        (set_code_and_affine(np.nan), "found an affine that cannot be inverted"),
        (set_code_and_affine(np.inf), "found an affine that cannot be inverted"),
        (set_code_and_affine(1), "found an affine that cannot be inverted"),
        (
            lambda h: h["dim"].__setitem__(slice(None), [3, 2000, 2000, 268, 1, 1, 1, 1]),
            "its header claims 2000 × 2000",
        ),
        (
            lambda h: h["dim"].__setitem__(slice(None), [3, 32000, 32000, 32000, 1, 1, 1, 1]),
            "found 32000 × 32000 × 32000 voxels; expected at least one and at most 1073741824",
        ),
        (lambda h: h["dim"].__setitem__(slice(None), [3, -2, -3, 4, 1, 1, 1, 1]), "found -2 × -3 × 4 voxels; expected"),
        (
            lambda h: h["dim"].__setitem__(slice(None), [3, 0, 3, 4, 1, 1, 1, 1]),
            "found 0 × 3 × 4 voxels; expected at least",
        ),
        (lambda h: h["dim"].__setitem__(slice(None), [2, 6, 4, 1, 1, 1, 1, 1]), "found a volume with 2 axes, 6 × 4"),
        (
            lambda h: h["dim"].__setitem__(slice(None), [4, 2, 3, 2, 2, 1, 1, 1]),
            "found a volume with 4 axes, 2 × 3 × 2 × 2; .*three",
        ),
        (lambda h: h.__setitem__("vox_offset", np.inf), "cannot be read as a NIfTI volume"),
        (lambda h: h.__setitem__("vox_offset", np.nan), "cannot be read as a NIfTI volume"),
        (lambda h: h.__setitem__("datatype", 7), "cannot be read as a NIfTI volume"),
        (lambda h: h.__setitem__("magic", b"abc"), "cannot be read as a NIfTI volume"),
        (lambda h: h.__setitem__("scl_inter", np.nan), "cannot be read as a NIfTI volume"),
    ],
)
def test_headers_that_cannot_be_right_are_refused_with_what_they_say(tmp_path, change, message):
    file = write(tmp_path / "a.nii", RAMP.astype("f4"))
    rewritten(file, change)
    with pytest.raises(DataError, match=rf"^{file}: {message}"):
        read_volume(file)


def test_a_header_that_claims_more_than_gzip_can_hold_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    file = write(tmp_path / "a.nii", np.zeros((8, 8, 8), "f4"))
    rewritten(file, lambda header: header["dim"].__setitem__(slice(None), [3, 128, 128, 16, 1, 1, 1, 1]))
    compressed = tmp_path / "a.nii.gz"
    compressed.write_bytes(gzip.compress(file.read_bytes()))
    monkeypatch.setattr(volume_files.np, "asarray", pytest.fail)
    with pytest.raises(DataError, match=r"a\.nii\.gz: its header claims 128 × 128 × 16 voxels, 1048576 bytes"):
        read_volume(compressed)


def test_well_compressed_volumes_are_not_taken_for_damaged(tmp_path):
    # The best that gzip can do: nothing but zeros.
    content = write(tmp_path / "a.nii", np.zeros((128, 128, 64), "f4")).read_bytes()
    file = tmp_path / "a.nii.gz"
    file.write_bytes(gzip.compress(content, 9))
    assert file.stat().st_size * 980 < len(content)
    assert read_volume(file).voxels.shape == (128, 128, 64)


def test_voxels_of_a_microscope_are_no_singular_affine(tmp_path):
    def in_microns(header):
        header.set_xyzt_units("micron")

    file = write(tmp_path / "a.nii", RAMP.astype("f4"), np.diag([0.02, 0.02, 0.02, 1]), change=in_microns)
    np.testing.assert_allclose(read_volume(file).spacing, 2e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "voxels",
    [
        np.zeros((2, 3, 4), "c8"),
        np.zeros((2, 3, 4), [("R", "u1"), ("G", "u1"), ("B", "u1")]),
        np.zeros((2, 3, 4), [("R", "u1"), ("G", "u1"), ("B", "u1"), ("A", "u1")]),
    ],
)
def test_complex_and_coloured_voxels_are_refused(tmp_path, voxels):
    file = write(tmp_path / "a.nii.gz", voxels)
    for read in (read_volume, read_label_volume):
        with pytest.raises(DataError, match=r"a\.nii\.gz: found voxels of type .*; expected real numbers"):
            read(file)


@pytest.mark.parametrize(("value", "count"), [(np.nan, 1), (np.inf, 1), (3e38, 1), (-1e13, 1)])
def test_intensities_that_cannot_be_computed_with_are_counted(tmp_path, value, count):
    voxels = RAMP.astype("f4")
    voxels[1, 1, 1] = value
    with pytest.raises(DataError, match=rf"a\.nii: found {count} intensities that are not finite or beyond ±1e\+12"):
        read_volume(write(tmp_path / "a.nii", voxels))


def test_other_formats_and_names_are_refused(tmp_path):
    nibabel.save(nibabel.Nifti1Pair(RAMP.astype("f4"), OBLIQUE), tmp_path / "a.hdr")
    for name in ("a.hdr", "a.img"):
        with pytest.raises(DataError, match=rf"{name}: found another name .*; expected \.nii or \.nii\.gz"):
            read_volume(tmp_path / name)
    nibabel.save(nibabel.MGHImage(RAMP.astype("f4"), OBLIQUE), tmp_path / "b.mgz")
    (tmp_path / "b.mgz").rename(tmp_path / "b.nii.gz")
    with pytest.raises(DataError, match=r"b\.nii\.gz: cannot be read as a NIfTI volume"):
        read_volume(tmp_path / "b.nii.gz")


def test_what_is_no_regular_file_is_not_opened(tmp_path):
    (tmp_path / "folder.nii").mkdir()
    # Reading from a pipe that nobody writes to would never end.
    os.mkfifo(tmp_path / "pipe.nii.gz")
    (tmp_path / "loop.nii").symlink_to(tmp_path / "loop.nii")
    for name in ("none.nii", "folder.nii", "pipe.nii.gz", "loop.nii", f"{'a' * 300}.nii"):
        with pytest.raises(DataError, match="found no such file; expected a NIfTI volume"):
            read_volume(tmp_path / name)


def test_a_file_cut_short_is_refused_wherever_it_was_cut(tmp_path):
    voxels = np.random.default_rng(0).normal(size=(4, 5, 6)).astype("f4")
    for suffix in (".nii", ".nii.gz"):
        content = write(tmp_path / f"whole{suffix}", voxels).read_bytes()
        file = tmp_path / f"cut{suffix}"
        for length in range(0, len(content), 7):
            file.write_bytes(content[:length])
            with pytest.raises(DataError, match=rf"cut{suffix}: "):
                read_volume(file)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 255], "u1"),
        ([0, 256], "u2"),
        ([0, 65535], "u2"),
        ([0, 70000], "u4"),
        ([-1, 0, 1], "i2"),
        ([-1, 255], "i2"),
        ([-40000, 0], "i4"),
    ],
)
def test_label_values_are_written_as_they_are_in_a_small_type(tmp_path, values, kind):
    labels = np.resize(values, (2, 3, 4))
    write_label_volume(tmp_path / "a.nii.gz", labels, OBLIQUE)
    volume = read_label_volume(tmp_path / "a.nii.gz")
    np.testing.assert_array_equal(volume.voxels, labels)
    np.testing.assert_allclose(volume.affine, OBLIQUE, rtol=1e-6)
    assert nibabel.load(tmp_path / "a.nii.gz").get_data_dtype() == np.dtype(kind)


@pytest.mark.parametrize(("shift", "fits"), [(0.0, True), (0.49, True), (0.51, False)])
def test_a_mask_may_lie_half_a_voxel_off_its_image(tmp_path, shift, fits):
    image = Volume(RAMP, np.diag([1.0, 2, 3, 1]))
    moved = image.affine.copy()
    moved[2, 3] = shift
    if fits:
        check_same_geometry(tmp_path / "m.nii", Volume(RAMP, moved), image)
    else:
        with pytest.raises(
            DataError, match=r"m\.nii: found a mask that lies up to 0\.5 mm off its image .*1 × 2 × 3 mm"
        ):
            check_same_geometry(tmp_path / "m.nii", Volume(RAMP, moved), image)


def test_a_flipped_mask_is_off_by_the_length_of_the_axis(tmp_path):
    image = Volume(RAMP, np.eye(4))
    # Both cover the same box; the last axis runs the other way. Its four voxels are 3 mm apart at the ends.
    flipped = np.diag([1.0, 1, -1, 1])
    flipped[2, 3] = 3
    with pytest.raises(DataError, match=r"lies up to 3\.0 mm off"):
        check_same_geometry(tmp_path / "m.nii", Volume(RAMP, flipped), image)


def test_a_mask_of_another_size_is_refused_with_both_sizes(tmp_path):
    with pytest.raises(DataError, match=r"m\.nii: found a mask of 2 × 3 × 5 voxels, .* 2 × 3 × 4"):
        check_same_geometry(tmp_path / "m.nii", Volume(np.zeros((2, 3, 5)), np.eye(4)), Volume(RAMP, np.eye(4)))


@pytest.mark.parametrize("codes", [(1, 0), (0, 0)], ids=["qform", "pixdim alone"])
def test_voxels_without_a_size_are_refused_where_nothing_else_says_it(tmp_path, codes):
    """nibabel makes 1 mm of them."""
    file = tmp_path / "volume.nii"
    nibabel.save(nibabel.Nifti1Image(np.zeros((4, 4, 2), np.int16), np.diag([1.5, 1.5, 4.0, 1.0])), file)
    content = bytearray(file.read_bytes())
    struct.pack_into("<2h", content, 252, *codes)
    struct.pack_into("<3f", content, 80, 0, 0, 0)
    file.write_bytes(content)
    for read in (read_volume, read_label_volume, read_placement):
        with pytest.raises(DataError, match=r"volume\.nii: found voxels of 0 × 0 × 0 by pixdim, and no sform"):
            read(file)
    struct.pack_into("<2h", content, 252, 0, 1)
    file.write_bytes(content)
    assert read_volume(file).spacing == (1.5, 1.5, 4.0)


def test_label_values_that_floating_point_cannot_tell_apart_are_refused(tmp_path):
    nibabel.save(nibabel.Nifti1Image(np.full((2, 2, 2), 1e30, np.float32), np.eye(4)), tmp_path / "mask.nii")
    with pytest.raises(DataError, match=r"mask\.nii: found label values from 1e\+30 to 1e\+30; expected small whole"):
        read_label_volume(tmp_path / "mask.nii")
