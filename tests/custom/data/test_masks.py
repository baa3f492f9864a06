import gzip

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image

from fedannot.custom.data.description import ImageDescription, SliceDescription, VolumeDescription
from fedannot.custom.data.masks import (
    Mask,
    annotated_axis,
    plain_name,
    read_classes,
    turned_to,
    write_changed,
    write_classes,
    write_with_additions,
)
from fedannot.transforms.errors import DataError

LABELS = {0: 0, 85: 1, 170: 2, 9: 0, 200: 2}
CLASSES = np.array([[0, 1, 2], [2, 0, 1]], np.uint8)
IMAGE = ImageDescription(channels=1, size=(8, 8), labels=LABELS, classes=("a", "b"))
VOLUME = VolumeDescription(labels=LABELS, classes=("a", "b"))
OBLIQUE = np.array([[1.9, -0.3, 0.2, 7], [0.4, 0.9, -0.5, -3], [-0.1, 0.2, 4, 11], [0, 0, 0, 1]])


def slices(orientation="RAS", axis=2):
    return SliceDescription(labels={0: 0, 1: 1}, classes=("a",), size=(8, 8), orientation=orientation, slice_axis=axis)


def test_several_values_of_a_class_are_read_and_the_first_is_written(tmp_path):
    values = np.array([[0, 85, 170], [200, 9, 85]], np.uint8)
    Image.fromarray(values).save(tmp_path / "a.png")
    mask = read_classes(tmp_path / "a.png", IMAGE)
    np.testing.assert_array_equal(mask.classes, CLASSES)
    assert mask.affine is None
    file = write_classes(tmp_path / "b.c", mask, tmp_path / "a.png", IMAGE)
    assert file == tmp_path / "b.c.png"
    np.testing.assert_array_equal(np.asarray(Image.open(file)), [[0, 85, 170], [170, 0, 85]])


def test_volumes_keep_values_and_affine(tmp_path):
    values = np.resize([0, 85, 170, 200, 9], (2, 3, 4)).astype("i2")
    nibabel.save(nibabel.Nifti1Image(values, OBLIQUE), tmp_path / "a.nii")
    mask = read_classes(tmp_path / "a.nii", VOLUME)
    np.testing.assert_array_equal(mask.classes, np.resize([0, 1, 2, 2, 0], (2, 3, 4)))
    file = write_classes(tmp_path / "b", mask, tmp_path / "a.nii", VOLUME)
    assert file == tmp_path / "b.nii.gz"
    written = nibabel.load(file)
    np.testing.assert_array_equal(np.asarray(written.dataobj), np.resize([0, 85, 170, 170, 0], (2, 3, 4)))
    np.testing.assert_array_equal(written.affine, nibabel.load(tmp_path / "a.nii").affine)


def test_values_above_255_make_16_bit_files(tmp_path):
    description = IMAGE.model_copy(update={"labels": {0: 0, 300: 1, 65535: 2}})
    file = write_classes(tmp_path / "a", Mask(CLASSES), tmp_path / "given.png", description)
    np.testing.assert_array_equal(np.asarray(Image.open(file)), np.choose(CLASSES, [0, 300, 65535]))
    np.testing.assert_array_equal(read_classes(file, description).classes, CLASSES)


@pytest.mark.parametrize("value", [-1, 65536])
def test_values_that_a_png_cannot_hold_are_refused_but_not_of_volumes(tmp_path, value):
    labels = {0: 0, value: 1, 2: 2}
    with pytest.raises(DataError, match=rf"a\.png: the label values .*{value}.* cannot be written as PNG"):
        write_classes(
            tmp_path / "a", Mask(CLASSES), tmp_path / "given.png", IMAGE.model_copy(update={"labels": labels})
        )
    assert list(tmp_path.iterdir()) == []
    description = VOLUME.model_copy(update={"labels": labels})
    nibabel.save(nibabel.Nifti1Image(CLASSES[None], OBLIQUE), tmp_path / "given.nii")
    file = write_classes(tmp_path / "a", Mask(CLASSES[None], OBLIQUE), tmp_path / "given.nii", description)
    np.testing.assert_array_equal(read_classes(file, description).classes, CLASSES[None])


def test_unknown_values_are_named(tmp_path):
    Image.fromarray(np.array([[0, 3]], np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: found the label values 0, 3, expected only"):
        read_classes(tmp_path / "a.png", IMAGE)


@pytest.mark.parametrize(
    ("name", "plain"), [("a.png", "a"), ("a.nii.gz", "a"), ("a.NII.GZ", "a"), ("a.nii", "a"), ("a.b.gz", "a.b")]
)
def test_plain_name_has_no_suffix(tmp_path, name, plain):
    assert plain_name(tmp_path / name) == plain


# Columns of the affine say where the file's axes go: here to the front, bottom and left; and so on.
FRONT_BOTTOM_LEFT = np.array([[0, 0, -1, 0], [1, 0, 0, 0], [0, -1, 0, 0], [0, 0, 0, 1.0]])
TOP_LEFT_FRONT = np.array([[0, -3, 0, 0], [0, 0, 2, 0], [1, 0, 0, 0], [0, 0, 0, 1.0]])


@pytest.mark.parametrize(
    ("affine", "description", "axis"),
    [
        (np.eye(4), VOLUME, 2),
        (OBLIQUE, VOLUME, 2),
        (FRONT_BOTTOM_LEFT, VOLUME, 1),
        (TOP_LEFT_FRONT, VOLUME, 0),
        (np.eye(4), slices("RAS", 0), 0),
        (np.eye(4), slices("SAR", 0), 2),
        (np.eye(4), slices("IPL", 1), 1),
        (FRONT_BOTTOM_LEFT, slices("RAS", 0), 2),
        (FRONT_BOTTOM_LEFT, slices("RAS", 1), 0),
        (FRONT_BOTTOM_LEFT, slices("RAS", 2), 1),
        (FRONT_BOTTOM_LEFT, slices("SLP", 2), 0),
        (TOP_LEFT_FRONT, slices("LPS", 0), 1),
        (TOP_LEFT_FRONT, slices("LPS", 1), 2),
    ],
)
def test_annotators_draw_on_the_slices_of_the_pipeline(affine, description, axis):
    assert annotated_axis(Mask(np.zeros((2, 3, 4), np.uint8), affine), description) == axis


def contradictory(file, values, unit="unknown", scale=1.0):
    """A header whose sform is the identity while pixdim and qform are right, in the unit."""
    affine = np.diag([-1.25 / scale, -1.25 / scale, 10 / scale, 1.0])
    affine[:3, 3] = np.array([50, 60, -20]) / scale
    image = nibabel.Nifti1Image(values, affine)
    image.set_qform(affine, 1)
    image.set_sform(np.eye(4), 1)
    image.header.set_xyzt_units(unit)
    nibabel.save(image, file)
    return file


def by_simpleitk(file):
    image = SimpleITK.ReadImage(str(file))
    return [*image.GetSpacing(), *image.GetOrigin(), *image.GetDirection()]


@pytest.mark.parametrize(("unit", "scale"), [("unknown", 1.0), ("meter", 1e3), ("micron", 1e-3)])
def test_written_masks_lie_where_the_given_one_lies_for_nibabel_and_simpleitk(tmp_path, unit, scale):
    given = contradictory(tmp_path / "given.nii.gz", np.resize([0, 85, 170], (4, 5, 3)).astype("i2"), unit, scale)
    mask = read_classes(given, VOLUME)
    np.testing.assert_allclose(mask.affine, [[-1.25, 0, 0, 50], [0, -1.25, 0, 60], [0, 0, 10, -20], [0, 0, 0, 1]])
    other = np.where(mask.classes == 0, 2, mask.classes).astype(np.uint8)
    written = [
        write_classes(tmp_path / "a", Mask(other, mask.affine), given, VOLUME),
        write_changed(tmp_path / "b", given, other, VOLUME),
        write_with_additions(tmp_path / "c", given, np.full_like(other, 2), VOLUME)[0],
    ]
    for file in written:
        np.testing.assert_array_equal(nibabel.load(file).affine, nibabel.load(given).affine)
        assert nibabel.load(file).header.get_xyzt_units() == nibabel.load(given).header.get_xyzt_units()
        assert by_simpleitk(file) == by_simpleitk(given)
        np.testing.assert_allclose(by_simpleitk(file)[:3], [1.25, 1.25, 10], rtol=1e-5)
        np.testing.assert_array_equal(read_classes(file, VOLUME).classes, other)
        np.testing.assert_array_equal(read_classes(file, VOLUME).affine, mask.affine)


def test_nothing_but_geometry_is_copied_into_a_written_mask(tmp_path):
    image = nibabel.Nifti1Image(np.zeros((2, 2, 2), np.int16), OBLIQUE)
    image.header["descrip"] = b"a name"
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"another name"))
    nibabel.save(image, tmp_path / "given.nii")
    write_changed(tmp_path / "b", tmp_path / "given.nii", np.ones((2, 2, 2), np.uint8), VOLUME)
    assert b"name" not in gzip.decompress((tmp_path / "b.nii.gz").read_bytes())


def test_a_mask_is_turned_to_the_order_of_another_and_stays_at_its_place():
    affine = np.diag([1.5, 1.5, 3, 1])
    image = nibabel.Nifti1Image(np.arange(24, dtype=np.uint8).reshape(2, 3, 4), affine)
    stored = image.as_reoriented([[2, -1], [0, 1], [1, -1]])
    turned = turned_to(Mask(np.asarray(stored.dataobj), stored.affine), affine)
    np.testing.assert_array_equal(turned.classes, np.asarray(image.dataobj))
    np.testing.assert_allclose(turned.affine, affine, atol=1e-9)
    picture = Mask(CLASSES)
    assert turned_to(picture, None) is picture
