"""Masks that come back from another tool lie where the given ones do, whatever part of a header the tool takes."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
import SimpleITK

from fedannot.apps.audit.edited_masks import read_edited
from fedannot.custom.data.description import VolumeDescription
from fedannot.transforms.errors import DataError

DESCRIPTION = VolumeDescription(classes=("lesion",), labels={0: 0, 1: 1})
VALUES = (np.arange(4 * 5 * 3).reshape(4, 5, 3) % 4 == 0).astype(np.uint8)


def given_mask(file: Path, *, identity: bool) -> Path:
    affine = np.diag([-1.25, -1.25, 10, 1.0])
    affine[:3, 3] = 50, 60, -20
    image = nibabel.Nifti1Image(VALUES, affine)
    image.set_qform(affine, 1)
    if identity:
        image.set_sform(np.eye(4), 1)
    nibabel.save(image, file)
    return file


@pytest.mark.parametrize("identity", [False, True])
def test_a_mask_saved_by_simpleitk_is_taken_as_it_is(tmp_path: Path, identity: bool) -> None:
    given = given_mask(tmp_path / "given.nii.gz", identity=identity)
    SimpleITK.WriteImage(1 - SimpleITK.ReadImage(str(given)), str(tmp_path / "edited.nii.gz"))
    before, edited = read_edited(tmp_path / "edited.nii.gz", given, DESCRIPTION)
    np.testing.assert_array_equal(before.classes, VALUES)
    np.testing.assert_array_equal(edited.classes, 1 - VALUES)
    np.testing.assert_array_equal(edited.affine, before.affine)


def test_a_mask_saved_in_another_orientation_is_turned_and_one_elsewhere_is_refused(tmp_path: Path) -> None:
    given = given_mask(tmp_path / "given.nii.gz", identity=False)
    nibabel.save(nibabel.as_closest_canonical(nibabel.load(given)), tmp_path / "turned.nii.gz")
    _, edited = read_edited(tmp_path / "turned.nii.gz", given, DESCRIPTION)
    np.testing.assert_array_equal(edited.classes, VALUES)
    image = SimpleITK.ReadImage(str(given))
    image.SetOrigin((0, 0, 0))
    SimpleITK.WriteImage(image, str(tmp_path / "moved.nii.gz"))
    with pytest.raises(DataError, match=r"moved\.nii\.gz: found a mask that lies up to"):
        read_edited(tmp_path / "moved.nii.gz", given, DESCRIPTION)
