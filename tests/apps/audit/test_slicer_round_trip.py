"""What 3D Slicer saves of an exported segmentation comes back voxel by voxel, read by its own library."""

import nibabel
import numpy as np
import pytest
import SimpleITK

from fedannot.apps.audit.edited_masks import EditedFile
from fedannot.apps.audit.exporting import write_slicer_segmentation
from fedannot.custom.data.description import VolumeDescription
from fedannot.transforms.errors import DataError

# Of pixels that are ignored, the value 9.
DESCRIPTION = VolumeDescription(classes=("lesion", "cyst"), labels={0: 0, 1: 1, 2: 1, 7: 2}, ignore=(9,))
SIZE = (7, 6, 5)
NAMES = {"lesion": 1, "cyst": 2, "ignored": 255}


@pytest.fixture
def given(tmp_path):
    """A mask with every value, whose axes are turned, oblique and of three lengths."""
    values = np.zeros(SIZE, np.uint8)
    values[2:5, 1:4, 1:3], values[2, 2, 2], values[4, 4, 3], values[5, 1, 2] = 1, 2, 7, 9
    turn = np.array([[0, -0.8, 0.6], [-1, 0, 0], [0, 0.6, 0.8]])
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * (1.5, 0.75, 3.0), (12.0, -30.0, 7.5)
    image = nibabel.Nifti1Image(values, affine)
    image.set_qform(affine, 1)
    nibabel.save(image, tmp_path / "given.nii.gz")
    return tmp_path / "given.nii.gz"


def export(given, tmp_path):
    file = tmp_path / "exported.seg.nrrd"
    write_slicer_segmentation(file, np.asarray(nibabel.load(given).dataobj), given, DESCRIPTION)
    return SimpleITK.ReadImage(str(file))


def tags_of(image):
    """ID and name of each segment, by its value."""
    numbers = range(len([key for key in image.GetMetaDataKeys() if key.endswith("_LabelValue")]))
    tag = {n: {key: image.GetMetaData(f"Segment{n}_{key}") for key in ("ID", "Name", "LabelValue")} for n in numbers}
    return {int(one["LabelValue"]): (one["ID"], one["Name"]) for one in tag.values()}


def saved_by_slicer(file, image, segments, *, layers=False, crop=True, values=(5, 3, 8, 11)):
    """Save as 3D Slicer does: cut to what is annotated, segments in another order with other values, or in layers.

    `segments` has ID, name and voxels ``(K, J, I)`` of each.
    """
    anything = np.any([where for _, _, where in segments], axis=0)
    low, high = (
        ([0] * 3, anything.shape) if not crop else (np.argwhere(anything).min(0), np.argwhere(anything).max(0) + 1)
    )
    box = tuple(slice(*ends) for ends in zip(low, high, strict=True))
    parts = [where[box] for _, _, where in segments]
    numbers = [1] * len(parts) if layers else values
    stored = [part * number for part, number in zip(parts, numbers, strict=False)]
    stack = np.stack(stored, axis=-1) if layers else np.sum(stored, axis=0)
    result = SimpleITK.GetImageFromArray(stack.astype(np.uint8), isVector=layers)
    offset = [int(start) for start in low[::-1]]
    result.SetSpacing(image.GetSpacing())
    result.SetDirection(image.GetDirection())
    result.SetOrigin(image.TransformIndexToPhysicalPoint(offset))
    result.SetMetaData("Segmentation_ReferenceImageExtentOffset", " ".join(map(str, offset)))
    for number, (identity, name, _) in enumerate(segments):
        tags = {"ID": identity, "Name": name, "LabelValue": numbers[number], "Layer": number if layers else 0}
        for key, value in tags.items():
            result.SetMetaData(f"Segment{number}_{key}", str(value))
    SimpleITK.WriteImage(result, str(file), useCompression=True)
    return file


def by_brute_force(given, segments, image):
    """The class of every voxel of the given file, asked at its place in the patient."""
    place_of, result = SimpleITK.ReadImage(str(given)), np.zeros(SIZE, np.uint8)
    for index in np.ndindex(SIZE):
        there = image.TransformPhysicalPointToIndex(place_of.TransformIndexToPhysicalPoint(index))
        for _, name, where in segments:
            if where[there[::-1]]:
                result[index] = NAMES[name]
    return result


@pytest.mark.parametrize("layers", [False, True], ids=["one layer", "layers"])
@pytest.mark.parametrize("orientation", ["", "RAS", "LPS"])
def test_what_slicer_saves_comes_back_at_the_same_places(given, tmp_path, layers, orientation):
    image = export(given, tmp_path)
    values, tags = SimpleITK.GetArrayFromImage(image), tags_of(image)
    values[2, 1, 2:4], values[1, 4, 5] = 0, 7
    image_of_values = SimpleITK.GetImageFromArray(values)
    image_of_values.CopyInformation(image)
    if orientation:
        image_of_values = SimpleITK.DICOMOrient(image_of_values, orientation)
    voxels = SimpleITK.GetArrayFromImage(image_of_values)
    segments = [(*tags[value], voxels == value) for value in (9, 7, 2, 1)]
    file = saved_by_slicer(tmp_path / "given.seg.nrrd", image_of_values, segments, layers=layers)
    before, after = EditedFile(file).read(given, DESCRIPTION)
    np.testing.assert_array_equal(after.classes, by_brute_force(given, segments, image_of_values))
    np.testing.assert_array_equal(after.affine, before.affine)
    assert {*np.unique(after.classes)} == {0, 1, 2, 255}
    assert np.count_nonzero(after.classes != before.classes) == 3


def test_an_export_that_nobody_has_changed_comes_back_as_it_is(given, tmp_path):
    export(given, tmp_path)
    before, after = EditedFile(tmp_path / "exported.seg.nrrd").read(given, DESCRIPTION)
    np.testing.assert_array_equal(after.classes, before.classes)


def renamed(**names):
    return lambda segments: [(identity, names.get(name, name), where) for identity, name, where in segments]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda some: [*some, ("Segment_1", "spleen", some[0][2] & False)], "found a segment 'spleen'; expected only"),
        (renamed(cyst="lesion"), "found a segment 'lesion' that was exported as 'cyst'"),
        (lambda some: [one for one in some if one[1] != "cyst"], "found no segment 'cyst', of which the given mask"),
        (
            lambda some: [*some, ("Segment_9", "cyst", some[-1][2])],
            r"found \d+ voxels in the segments 'cyst' and 'lesion'",
        ),
    ],
    ids=["unknown", "renamed to another class", "left out", "overlap"],
)
def test_segments_that_say_no_single_class_are_refused_by_name(given, tmp_path, change, reason):
    image = export(given, tmp_path)
    values, tags = SimpleITK.GetArrayFromImage(image), tags_of(image)
    segments = change([(*tags[value], values == value) for value in (9, 7, 2, 1)])
    file = saved_by_slicer(tmp_path / "given.seg.nrrd", image, segments, layers=True)
    with pytest.raises(DataError, match=rf"given\.seg\.nrrd: {reason}"):
        EditedFile(file).read(given, DESCRIPTION)


def test_an_id_counts_where_no_class_has_the_name(given, tmp_path):
    image = export(given, tmp_path)
    values, tags = SimpleITK.GetArrayFromImage(image), tags_of(image)
    segments = renamed(cyst="Cyst, second look")([(*tags[value], values == value) for value in (9, 7, 2, 1)])
    _, after = EditedFile(saved_by_slicer(tmp_path / "a.seg.nrrd", image, segments)).read(given, DESCRIPTION)
    np.testing.assert_array_equal(after.classes == 2, np.asarray(nibabel.load(given).dataobj) == 7)


def test_other_places_are_refused(given, tmp_path):
    image = export(given, tmp_path)
    values, tags = SimpleITK.GetArrayFromImage(image), tags_of(image)
    segments = [(*tags[value], values == value) for value in (9, 7, 2, 1)]
    whole = image.GetOrigin()
    for move, reason in ((0.4, "do not lie on those of the given mask"), (20.0, "annotated voxels outside")):
        direction = np.reshape(image.GetDirection(), (3, 3))[:, 0] * image.GetSpacing()[0]
        image.SetOrigin(np.array(whole) + move * direction)
        file = saved_by_slicer(tmp_path / "given.seg.nrrd", image, segments)
        with pytest.raises(DataError, match=reason):
            EditedFile(file).read(given, DESCRIPTION)


def test_empty_segments_are_one_voxel_whose_place_says_nothing(given, tmp_path):
    image = export(given, tmp_path)
    segments = [(identity, name, np.zeros((1, 1, 1), bool)) for identity, name in tags_of(image).values()]
    image.SetOrigin((999.0, 0.0, 0.0))
    file = saved_by_slicer(tmp_path / "given.seg.nrrd", image, segments, crop=False)
    assert not EditedFile(file).read(given, DESCRIPTION)[1].classes.any()
