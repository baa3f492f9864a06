import nibabel
import numpy as np
import pytest
from nibabel.orientations import axcodes2ornt, inv_ornt_aff

from fedannot.apps.audit.file_grid import (
    AXIAL,
    CORONAL,
    SAGITTAL,
    boxes_on_planes,
    picture_grid,
    plane_of,
    volume_grid,
)
from fedannot.transforms.loading.volume_geometry import placement_of

# Of the axes to the right, front and top.
STEPS = (2.0, 3.0, 5.0)


def volume(orientation, extents=(4, 5, 6)):
    """A volume in an orientation, and the place of each of its voxels in the patient."""
    to_file = nibabel.orientations.ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(orientation))
    canonical = np.diag([*STEPS, 1.0])
    values = nibabel.orientations.apply_orientation(np.arange(np.prod(extents)).reshape(extents), to_file)
    affine = canonical @ inv_ornt_aff(to_file, extents)
    places = np.moveaxis(np.indices(values.shape), 0, -1) @ affine[:3, :3].T + affine[:3, 3]
    image = nibabel.Nifti1Image(values.astype(np.int16), affine)
    return values, places, placement_of("volume.nii", image.header)


@pytest.mark.parametrize("orientation", ["RAS", "LPS", "PIR", "SAL"])
def test_planes_are_seen_from_the_feet_and_stand_upright_whatever_the_file_is(orientation):
    values, places, placement = volume(orientation)
    grid = volume_grid(values.shape, placement)
    shown, place = grid.from_file(values), [grid.from_file(places[..., axis]) for axis in range(3)]
    np.testing.assert_array_equal(grid.to_file(shown), values)
    # Towards the right, and down: which coordinate changes by how much.
    for axis, along_columns, along_rows in (
        (AXIAL, (0, -2), (1, -3)),
        (CORONAL, (0, -2), (2, -5)),
        (SAGITTAL, (1, -3), (2, -5)),
    ):
        plane = grid.planes_across(axis)
        for (own, step), direction in ((along_columns, 1), (along_rows, 0)):
            result = plane_of(place[own], axis, 1)
            assert result.shape == (plane.height, plane.width)
            np.testing.assert_allclose(np.diff(result, axis=direction), step)
        assert plane.spacing == (abs(along_rows[1]), abs(along_columns[1]), STEPS[axis])
        assert grid.extents[axis] == plane.planes


def test_letters_and_millimetres_are_those_of_a_file_that_says_them():
    values, _, placement = volume("RAS")
    assert volume_grid(values.shape, placement).planes_across(AXIAL).letters == "RLAP"
    unknown = nibabel.Nifti1Image(values.astype(np.int16), None)
    nothing = volume_grid(values.shape, placement_of("volume.nii", unknown.header)).planes_across(AXIAL)
    assert (nothing.letters, nothing.spacing) == ("", None)
    unknown.header["pixdim"][1:4] = (0.5, 0.5, 2.0)
    sizes = volume_grid(values.shape, placement_of("volume.nii", unknown.header)).planes_across(AXIAL)
    assert (sizes.letters, sizes.spacing) == ("", (0.5, 0.5, 2.0))
    assert picture_grid(3, 4).planes_across(AXIAL).spacing is None


@pytest.mark.parametrize("axis", [SAGITTAL, CORONAL, AXIAL])
def test_a_box_is_around_what_is_marked_on_its_middle_plane(axis):
    marked = np.zeros((7, 8, 9), np.uint8)
    marked[2:5, 3:7, 1:4] = 1
    marked[6, 7, 8] = 3
    (number, (top, left, bottom, right)), nothing, _ = boxes_on_planes(marked, axis)
    rows, columns = np.nonzero(plane_of(marked, axis, number))
    assert (top, left, bottom, right) == (rows.min(), columns.min(), rows.max() + 1, columns.max() + 1)
    assert number == {SAGITTAL: 3, CORONAL: 5, AXIAL: 2}[axis]
    assert nothing is None


def test_a_picture_is_its_rows_and_columns_and_what_is_written_into_a_plane_is_in_the_file():
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    shown = picture_grid(3, 4).from_file(values)
    np.testing.assert_array_equal(plane_of(shown, AXIAL, 0), values)
    plane_of(shown, AXIAL, 0)[1, 2] = 99
    assert values[1, 2] == 99
    np.testing.assert_array_equal(picture_grid(3, 4).to_file(shown), values)
