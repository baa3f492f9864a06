"""Corrections in the geometry of the files: distances of training, whatever the size or the axes of a file."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from support.corrected_runs import made_corrections

from fedannot.custom.corrections.in_files import (
    CorrectedFile,
    IgnoredObject,
    corrected_in_file,
    named_moves,
    segmentation_description,
    unit_of,
)
from fedannot.custom.corrections.kinds import Purpose
from fedannot.custom.corrections.pixels import CasePixels, OtherClasses, relabelled_objects
from fedannot.custom.corrections.targets import corrected_label
from fedannot.custom.data.description import (
    ClassificationDescription,
    ImageDescription,
    SegmentationDescription,
    SliceDescription,
    VolumeDescription,
    write_site_description,
)
from fedannot.custom.data.masks import Mask
from fedannot.custom.data.site_data import LoadedCase
from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.errors import DataError
from fedannot.transforms.move_contour import MoveContour

LABELS = {0: 0, 1: 1}
IMAGE = ImageDescription(channels=1, size=(12, 12), labels=LABELS, classes=("lesion",))
SLICES = SliceDescription(size=(12, 12), labels=LABELS, classes=("lesion",))
VOLUME = VolumeDescription(labels=LABELS, classes=("lesion",))
# Axes of the file: to the top (3 mm), to the left (2 mm), to the front (1 mm).
TOP_LEFT_FRONT = np.array([[0, -2, 0, 0], [0, 0, 1, 0], [3, 0, 0, 0], [0, 0, 0, 1.0]])


def box(shape: tuple[int, ...], *ends: tuple[int, int]) -> NDArray[np.uint8]:
    classes = np.zeros(shape, dtype=np.uint8)
    classes[tuple(slice(*pair) for pair in ends)] = 1
    return classes


NO_FILE = Path("none")


def moved_in_file(mask: Mask, moves: dict[int, float], description: SegmentationDescription) -> NDArray[np.uint8]:
    corrections = made_corrections("/d", (), bias={label: -move for label, move in moves.items()})
    return corrected_in_file(corrections, CasePixels(), mask, NO_FILE, NO_FILE, description).classes


def ignored_in_file(
    pixels: NDArray[np.bool_], image: Path, label: Path, mask: Mask, description: SegmentationDescription
) -> tuple[IgnoredObject, ...]:
    corrections = made_corrections("/d", (), bias={}, missed={1: 0.5})
    result = corrected_in_file(corrections, CasePixels(pixels), mask, image, label, description)
    np.testing.assert_array_equal(result.classes, mask.classes)
    return result.ignored


def relabelled_in_file(
    mask: Mask, other: OtherClasses, image: Path, label: Path, description: SegmentationDescription
) -> tuple[NDArray[np.uint8], int]:
    result = relabelled(mask, other, image, label, description)
    return result.classes, result.relabelled


def relabelled(
    mask: Mask, other: OtherClasses, image: Path, label: Path, description: SegmentationDescription
) -> CorrectedFile:
    corrections = made_corrections("/d", (), bias={}, relabelled=0.5)
    return corrected_in_file(corrections, CasePixels(relabelled=other), mask, image, label, description)


@pytest.mark.parametrize("distance", [-1.7, 1.2])
def test_pictures_of_the_network_s_size_move_as_in_training(distance: float) -> None:
    rows, columns = np.indices((12, 12))
    classes = (((rows - 5) / 4) ** 2 + ((columns - 6) / 3) ** 2 <= 1).astype(np.uint8)
    moved = moved_in_file(Mask(classes), {1: distance}, IMAGE)
    assert not np.array_equal(moved, classes)
    np.testing.assert_array_equal(moved, MoveContour(distance)(classes))


def test_a_larger_picture_moves_by_as_many_more_pixels_along_each_axis() -> None:
    """Rows of the file are half, columns a third of a pixel of the network's: 1 of these is 2 rows or 3 columns."""
    moved = moved_in_file(Mask(box((24, 36), (4, 20), (6, 30))), {1: -1.0}, IMAGE)
    np.testing.assert_array_equal(moved, box((24, 36), (6, 18), (9, 27)))


def test_slices_move_by_themselves_in_millimetres() -> None:
    """One slice along the file's first axis: in three dimensions it would be no thicker than one voxel of its depth."""
    given = box((5, 12, 16), (2, 3), (3, 9), (4, 12))
    moved = moved_in_file(Mask(given, TOP_LEFT_FRONT), {1: -2.0}, SLICES)
    np.testing.assert_array_equal(moved, box((5, 12, 16), (2, 3), (4, 8), (6, 10)))


def test_whole_volumes_move_along_all_axes_in_millimetres() -> None:
    given = box((9, 12, 16), (2, 7), (3, 9), (4, 12))
    moved = moved_in_file(Mask(given, TOP_LEFT_FRONT), {1: -2.8}, VOLUME)
    # A voxel stays whose centre is 2.8 mm deep: the second of 3 mm (4.5), the second of 2 mm (3), the fourth of 1 mm.
    assert [(int(found.min()), int(found.max())) for found in np.nonzero(moved)] == [(3, 5), (4, 7), (7, 8)]


def test_classes_move_by_their_own_distances() -> None:
    description = IMAGE.model_copy(update={"labels": {0: 0, 1: 1, 2: 2}, "classes": ("a", "b")})
    given = box((12, 24), (2, 9), (2, 9)) + 2 * box((12, 24), (2, 9), (14, 20))
    description = description.model_copy(update={"size": (12, 24)})
    moved = moved_in_file(Mask(given), {2: -1.0}, description)
    np.testing.assert_array_equal(moved, box((12, 24), (2, 9), (2, 9)) + 2 * box((12, 24), (3, 8), (15, 19)))


def write_volume(file: Path, voxels: NDArray[np.generic], affine: NDArray[np.float64]) -> Path:
    nibabel.save(nibabel.Nifti1Image(voxels, affine), file)
    return file


def test_ignored_objects_of_slices_lie_where_they_do_in_the_file(tmp_path: Path) -> None:
    """Samples are slices from bottom to top, their rows to the right and their columns to the front (RAS)."""
    shape = (5, 12, 12)
    image = write_volume(tmp_path / "image.nii.gz", np.zeros(shape, np.int16), TOP_LEFT_FRONT)
    label = write_volume(tmp_path / "label.nii.gz", np.zeros(shape, np.uint8), TOP_LEFT_FRONT)
    pixels = np.zeros((5, 12, 12), dtype=bool)
    pixels[3, 0:2, 4:7] = True
    pixels[4, 0:2, 4:7] = True
    result = ignored_in_file(pixels, image, label, Mask(np.zeros(shape, np.uint8), TOP_LEFT_FRONT), SLICES)
    # Rows 0 and 1, furthest to the left, are the last two of the file's second axis, which grows to the left.
    assert result == tuple(IgnoredObject(pixels=6, centre=(height, 10.5, 5.0)) for height in (3.0, 4.0))
    whole = VOLUME.model_copy(update={"size": (12, 12, 5)})
    result = ignored_in_file(
        np.moveaxis(pixels, 0, -1)[None], image, label, Mask(np.zeros(shape, np.uint8), TOP_LEFT_FRONT), whole
    )
    assert result == (IgnoredObject(pixels=12, centre=(3.5, 10.5, 5.0)),)


def test_only_background_of_what_counts_is_ignored_and_pictures_have_their_own_size(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    Image.fromarray(np.zeros((24, 36), np.uint8)).save(file)
    pixels = np.zeros((1, 12, 12), dtype=bool)
    pixels[0, 2:4, 1:3] = True
    result = ignored_in_file(pixels, file, file, Mask(box((24, 36), (4, 5), (0, 36))), IMAGE)
    # Rows 4 to 7 and columns 3 to 8, without row 4.
    assert result == (IgnoredObject(pixels=18, centre=(6.0, 5.5)),)


def test_ignored_pixels_of_another_size_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    Image.fromarray(np.zeros((24, 36), np.uint8)).save(file)
    with pytest.raises(DataError, match=r"a\.png: the corrections are of an image of \(10, 12\); expected"):
        ignored_in_file(np.ones((1, 10, 12), bool), file, file, Mask(np.zeros((24, 36), np.uint8)), IMAGE)
    volume = write_volume(tmp_path / "b.nii.gz", np.zeros((12, 12, 5), np.uint8), np.eye(4))
    mask = Mask(np.zeros((12, 12, 5), np.uint8), np.eye(4))
    with pytest.raises(DataError, match=r"b\.nii\.gz: the corrections do not fit it: .*\(4, 12, 12\)"):
        ignored_in_file(np.ones((4, 12, 12), bool), volume, volume, mask, SLICES)


TWO = {"labels": {0: 0, 1: 1, 2: 2}, "classes": ("a", "b")}


def of_first_class(becomes: NDArray[np.uint8]) -> OtherClasses:
    return OtherClasses((becomes != 0).astype(np.uint8), becomes)


def test_an_object_of_a_larger_picture_gets_another_class_as_a_whole(tmp_path: Path) -> None:
    """Rows of the file are half, columns a third of a pixel; the second object is another, and stays."""
    file = tmp_path / "a.png"
    Image.fromarray(np.zeros((24, 36), np.uint8)).save(file)
    given = box((24, 36), (3, 12), (4, 17)) + box((24, 36), (3, 12), (25, 34))
    classes = np.zeros((1, 12, 12), dtype=np.uint8)
    classes[0, 2:6, 2:5] = 2
    description = IMAGE.model_copy(update=TWO)
    result, count = relabelled_in_file(Mask(given), of_first_class(classes), file, file, description)
    np.testing.assert_array_equal(result, given + box((24, 36), (3, 12), (4, 17)))
    assert count == 1
    # Less than half of an object is not enough.
    classes[0, 2:4] = 0
    result, count = relabelled_in_file(Mask(given), of_first_class(classes), file, file, description)
    np.testing.assert_array_equal(result, given)
    assert count == 0


def test_objects_of_slices_get_another_class_slice_by_slice(tmp_path: Path) -> None:
    given = box((5, 12, 12), (1, 4), (3, 9), (4, 8))
    image = write_volume(tmp_path / "image.nii.gz", np.zeros((5, 12, 12), np.int16), TOP_LEFT_FRONT)
    label = write_volume(tmp_path / "label.nii.gz", given, TOP_LEFT_FRONT)
    classes = np.zeros((5, 12, 12), dtype=np.uint8)
    classes[2, 3:9, 4:8] = 2
    description = SLICES.model_copy(update=TWO)
    result, count = relabelled_in_file(Mask(given, TOP_LEFT_FRONT), of_first_class(classes), image, label, description)
    np.testing.assert_array_equal(result, given + box((5, 12, 12), (2, 3), (3, 9), (4, 8)))
    assert count == 1


@pytest.mark.parametrize("seed", range(5))
def test_files_and_training_agree_before_and_after_a_class_was_corrected_by_hand(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    given = (generator.integers(0, 3, (12, 12)) * (generator.random((12, 12)) < 0.5)).astype(np.uint8)
    becomes = np.where(generator.random((12, 12)) < 0.6, 3 - given, 0).astype(np.uint8) * (given != 0)
    other = OtherClasses(np.where(becomes != 0, given, 0)[None], becomes[None])
    file = tmp_path / "a.png"
    Image.fromarray(given).save(file)
    corrected = given.copy()
    corrected[6:] = np.where(corrected[6:] == 1, 2, corrected[6:])
    changed, by_class = 0, made_corrections("/d", (), bias={}, relabelled=0.5)
    for now in (given, corrected):
        case = LoadedCase("a.png", "a", torch.zeros((1, 1, 12, 12)), torch.from_numpy(now)[None], None, None)
        in_training = corrected_label(by_class, CasePixels(relabelled=other), case, Purpose.TRAINING)[0].numpy()
        in_file, count = relabelled_in_file(Mask(now), other, file, file, IMAGE.model_copy(update=TWO))
        np.testing.assert_array_equal(in_file, in_training)
        expected, expected_count = object_by_object(now, other)
        np.testing.assert_array_equal(in_file, expected)
        assert count == expected_count
        changed += int((in_file != now).sum())
    assert changed > 0


def object_by_object(given: NDArray[np.uint8], other: OtherClasses) -> tuple[NDArray[np.uint8], int]:
    """Brute force, pixel by pixel of every object."""
    result, num_relabelled = given.copy(), 0
    for value in (1, 2):
        objects, count = label_lesions(given == value)
        for number in range(1, count + 1):
            places = np.argwhere(objects == number)
            votes = [int(other.becomes[0][*at]) for at in places if other.given[0][*at] == value]
            chosen = [vote for vote in votes if vote]
            if 2 * len(chosen) >= len(places):
                result[objects == number] = max(sorted(set(chosen)), key=chosen.count)
                num_relabelled += 1
    return result, num_relabelled


@pytest.mark.parametrize("description", [VOLUME, SLICES], ids=["whole", "slices"])
def test_ignored_objects_are_those_that_one_finds_one_by_one(tmp_path: Path, description: VolumeDescription) -> None:
    shape = (12, 12, 5)
    pixels = np.random.default_rng(0).random(shape) < 0.15
    given = box(shape, (0, 6), (0, 12), (1, 3))
    image = write_volume(tmp_path / "image.nii.gz", np.zeros(shape, np.int16), np.eye(4))
    label = write_volume(tmp_path / "label.nii.gz", given, np.eye(4))
    of_samples = pixels[None] if description is VOLUME else np.moveaxis(pixels, 2, 0)
    result = ignored_in_file(of_samples, image, label, Mask(given, np.eye(4)), description)
    expected = []
    left = pixels & (given == 0)
    for part in [left] if description is VOLUME else [left * (np.arange(5) == height) for height in range(5)]:
        objects, count = label_lesions(part)
        for number in range(1, count + 1):
            places = np.argwhere(objects == number)
            centre = tuple(round(float(mean), 1) for mean in places.mean(axis=0))
            expected.append(IgnoredObject(pixels=len(places), centre=centre))
    assert list(result) == expected
    assert len({item.pixels for item in result}) > 2


def test_what_the_network_does_not_see_of_an_object_has_no_say(tmp_path: Path) -> None:
    """Of an object of nine slices the crop shows four; another one lies wholly outside, and stays."""
    given = box((20, 20, 20), (1, 10), (8, 12), (8, 12)) + box((20, 20, 20), (15, 18), (0, 3), (0, 3))
    image = write_volume(tmp_path / "image.nii.gz", np.zeros((20, 20, 20), np.int16), np.eye(4))
    label = write_volume(tmp_path / "label.nii.gz", given, np.eye(4))
    shown = box((8, 8, 8), (0, 4), (2, 6), (2, 6))[None]
    description = VOLUME.model_copy(update=TWO | {"size": (8, 8, 8)})
    result, count = relabelled_in_file(
        Mask(given, np.eye(4)), OtherClasses(shown, 2 * shown), image, label, description
    )
    np.testing.assert_array_equal(result, given + box((20, 20, 20), (1, 10), (8, 12), (8, 12)))
    assert count == 1


def test_no_class_that_was_decided_for_less_than_half_of_an_object_counts() -> None:
    """Of ten pixels three were to be of class 2, two of class 3; of the next ten five and five."""
    given = np.ones((1, 10), np.uint8)
    decided = np.array([[2, 2, 2, 3, 3, 0, 0, 0, 0, 0]], np.uint8)
    result, count = relabelled_objects(given, OtherClasses(np.ones_like(given), decided))
    assert (result.tolist(), count) == (given.tolist(), 0)
    decided[0, 3:] = [2, 2, 3, 3, 3, 3, 3]
    result, count = relabelled_objects(given, OtherClasses(np.ones_like(given), decided))
    assert (result.tolist(), count) == ([[2] * 10], 1)


def test_classes_are_named_and_units_are_those_of_the_site() -> None:
    corrections = made_corrections("/d", (), bias={1: 2.1, 7: -1.0})
    assert named_moves(corrections, IMAGE) == {"lesion": -2.1, "class 7": 1.0}
    assert [unit_of(description) for description in (IMAGE, SLICES, VOLUME)] == ["px", "mm", "mm"]


def test_a_site_without_masks_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^Site site-3: .*data\.yaml"):
        segmentation_description(tmp_path, "site-3")
    write_site_description(tmp_path, ClassificationDescription(channels=1, size=(4, 4), classes=("a", "b")))
    with pytest.raises(DataError, match=r"^Site site-3: .*'classification'; expected one with masks"):
        segmentation_description(tmp_path, "site-3")
