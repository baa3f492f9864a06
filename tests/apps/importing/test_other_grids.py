"""Masks with other voxels than their images are resampled by world coordinates, or refused by name."""

import itertools

import nibabel
import numpy as np
import pytest
import SimpleITK
from scipy.ndimage import map_coordinates
from scipy.spatial.transform import Rotation

from fedannot.apps.importing.checked import checked_case
from fedannot.apps.importing.mask_notes import kept_offsets, resampled_masks
from fedannot.apps.importing.reading import Reading
from fedannot.apps.importing.source import SourceCase, SourceDataset
from fedannot.custom.data.description import VolumeDescription
from fedannot.transforms.errors import DataError

CENTRE = np.array([3.0, -7.0, 12.0])
IMAGE_SHAPE = (24, 20, 16)


def affine_of(spacing, angles=(0, 0, 0), centre=CENTRE, shape=IMAGE_SHAPE):
    """An affine around a centre of the volume, in millimetres."""
    affine = np.eye(4)
    affine[:3, :3] = Rotation.from_euler("xyz", angles, degrees=True).as_matrix() * spacing
    affine[:3, 3] = centre - affine[:3, :3] @ ((np.array(shape) - 1) / 2)
    return affine


def labels_at(places):
    """The annotation as a function of places ``(…, 3)`` in millimetres: two bodies, of the values 1 and 2."""
    first = np.linalg.norm((places - CENTRE - (1, 2, 0)) / (6, 4, 5), axis=-1) < 1
    second = np.linalg.norm((places - CENTRE + (5, 0, 2)) / (2.5, 3, 3), axis=-1) < 1
    return np.where(second, 2, first).astype(np.uint8)


def places_of(shape, affine):
    return np.moveaxis(np.indices(shape), 0, -1) @ affine[:3, :3].T + affine[:3, 3]


def write(file, voxels, affine):
    nibabel.save(nibabel.Nifti1Image(voxels, affine), file)
    return file


IMAGE = affine_of((1.0, 1.2, 1.5))


def checked(tmp_path, mask, mask_affine, *, trusted=False, suffix=".nii.gz"):
    random = np.random.default_rng(0).normal(size=IMAGE_SHAPE).astype(np.float32)
    label = write(tmp_path / "mask.nii.gz", mask, mask_affine)
    if suffix != ".nii.gz":
        given, label = SimpleITK.ReadImage(str(label)), tmp_path / f"mask{suffix}"
        SimpleITK.WriteImage(given, str(label))
    case = SourceCase(write(tmp_path / "image.nii.gz", random, IMAGE), label, name="a")
    description = VolumeDescription(classes=("a", "b"), labels={0: 0, 1: 1, 2: 2})
    dataset = SourceDataset("d", "segmentation", True, (case,))
    return checked_case(case, dataset, tmp_path / "staging", Reading(description, trust_voxels=trusted))


GRIDS = {
    "finer": ((44, 46, 40), (0.563, 0.617, 0.709), (0, 0, 0)),
    "coarser": ((20, 17, 15), (1.61, 1.9, 2.2), (0, 0, 0)),
    "turned": ((40, 40, 40), (0.9, 0.8, 1.0), (20, -15, 30)),
    "stored the other way": ((44, 46, 40), (0.563, 0.617, 0.709), (90, 0, 180)),
    "a part of the image": ((17, 14, 13), (1.0, 1.0, 1.0), (0, 0, 0)),
}


@pytest.mark.parametrize("name", GRIDS)
def test_labels_are_those_of_the_nearest_voxel_for_two_other_readers(tmp_path, name):
    shape, spacing, angles = GRIDS[name]
    affine = affine_of(spacing, angles, shape=shape)
    mask = labels_at(places_of(shape, affine))
    case = checked(tmp_path, mask, affine)
    written = nibabel.load(case.label)
    result = np.asarray(written.dataobj)
    np.testing.assert_allclose(written.affine, IMAGE, atol=1e-5)
    places = places_of(IMAGE_SHAPE, IMAGE)
    # Brute force in numbers of voxels; SciPy takes nothing beyond the outermost centres, where all is background.
    in_mask = np.moveaxis((places - affine[:3, 3]) @ np.linalg.inv(affine[:3, :3]).T, -1, 0)
    assert np.array_equal(result, map_coordinates(mask, in_mask, order=0, mode="constant"))
    image, given = (SimpleITK.ReadImage(str(tmp_path / f"{kind}.nii.gz")) for kind in ("image", "mask"))
    by_itk = SimpleITK.Resample(given, image, SimpleITK.Transform(), SimpleITK.sitkNearestNeighbor, 0)
    assert np.array_equal(result, SimpleITK.GetArrayFromImage(by_itk).T)
    segments = checked(tmp_path, mask, affine, suffix=".seg.nrrd")
    assert np.array_equal(result, np.asarray(nibabel.load(segments.label).dataobj))
    # What the annotation says in the image's own voxels, but for the surface.
    assert np.mean(result != labels_at(places)) < 0.03
    farthest = np.linalg.norm(np.array(spacing)) / 2
    assert 0.3 * farthest < case.resampled_from <= farthest
    assert resampled_masks([case]).startswith("Resampled masks: in 1 of 1 cases (mask.nii.gz for one) masks have other")


def test_a_cropped_mask_on_the_voxels_of_its_image_moves_by_nothing(tmp_path):
    full = labels_at(places_of(IMAGE_SHAPE, IMAGE))
    low, high = np.argwhere(full).min(axis=0) - 1, np.argwhere(full).max(axis=0) + 2
    affine = IMAGE.copy()
    affine[:3, 3] = IMAGE[:3] @ (*low, 1)
    cut = full[tuple(itertools.starmap(slice, zip(low, high, strict=True)))]
    case = checked(tmp_path, cut, affine)
    assert np.array_equal(np.asarray(nibabel.load(case.label).dataobj), full)
    assert case.resampled_from == pytest.approx(0, abs=1e-5)


def test_a_mask_less_than_half_a_voxel_off_keeps_its_voxels_and_the_distance_is_said(tmp_path):
    mask = labels_at(places_of(IMAGE_SHAPE, IMAGE))
    for shift, said in ((0.4, True), (0.001, False)):
        affine = IMAGE.copy()
        affine[0, 3] += shift
        case = checked(tmp_path, mask, affine)
        assert np.array_equal(np.asarray(nibabel.load(case.label).dataobj), mask)
        assert case.resampled_from is None
        assert case.kept_offset == pytest.approx(shift if said else 0, abs=1e-5)
        assert (kept_offsets([case]) is not None) == said
    affine[0, 3] = IMAGE[0, 3] + 0.4
    assert "less than half a voxel off their images, up to 0.4 mm" in kept_offsets([checked(tmp_path, mask, affine)])


def shifted(shift):
    return affine_of((0.563, 0.617, 0.709), centre=CENTRE + shift, shape=(44, 46, 40))


REFUSED = {
    "thick slices": ((24, 20, 6), affine_of((1.0, 1.2, 4.0), shape=(24, 20, 6)), r"span up to 2\.67 voxels of its"),
    "apart": ((44, 46, 40), shifted((200, 0, 0)), r"a mask at another place than its image"),
    "header says nothing": ((44, 46, 40), np.eye(4), r"found a mask of 44 × 46 × 40 voxels, expected the size of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_masks_that_cannot_be_resampled_are_refused(tmp_path, name):
    shape, affine, message = REFUSED[name]
    mask = np.zeros(shape, np.uint8)
    mask[tuple(length // 2 for length in shape)] = 1
    with pytest.raises(DataError, match=r"mask\.nii\.gz: .*" + message):
        checked(tmp_path, mask, affine)


def test_annotation_that_would_be_lost_is_refused(tmp_path):
    shape = (44, 46, 40)
    # Beyond the image's end along the first axis.
    mask = labels_at(places_of(shape, shifted((0, 0, 0))))
    with pytest.raises(DataError, match=r"mask\.nii\.gz: found \d+ of \d+ annotated voxels outside of its image"):
        checked(tmp_path, mask, shifted((10, 0, 0)))
    cut = mask[:22]
    with pytest.raises(DataError, match=r"a mask that ends inside of its image, annotated up to its end"):
        checked(tmp_path, cut, shifted((0, 0, 0)))
    dot = np.zeros((72, 60, 48), np.uint8)
    affine = affine_of((1 / 3, 0.4, 0.5), shape=dot.shape)
    dot[30:40, 30:40, 20:30], dot[4, 5, 6] = 1, 2
    # Every third voxel alone is the nearest of one in the image.
    with pytest.raises(DataError, match=r"found the label values 2 between the voxels of the image alone"):
        checked(tmp_path, np.roll(dot, 1, axis=0), affine)


def test_trusted_voxels_are_not_resampled_and_neither_are_masks_of_the_size_of_their_image(tmp_path):
    shape, spacing, angles = GRIDS["finer"]
    affine = affine_of(spacing, angles, shape=shape)
    with pytest.raises(DataError, match=r"found a mask of 44 × 46 × 40 voxels, expected the size of its image"):
        checked(tmp_path, labels_at(places_of(shape, affine)), affine, trusted=True)
    with pytest.raises(DataError, match=r"lies up to .* mm off its image .* --trust-voxels"):
        checked(tmp_path, labels_at(places_of(IMAGE_SHAPE, IMAGE)), affine_of((1.0, 1.2, 1.9)))
