import json
from math import cos, sin

import nibabel
import numpy as np
import pytest
import torch
from nibabel.affines import apply_affine

from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.volume_pipeline import VolumePipeline

LABELS = {0: 0, 1: 1, 2: 2}
SHAPE = (14, 11, 9)


def rotation(a, b, c):
    first = np.array([[1, 0, 0], [0, cos(a), -sin(a)], [0, sin(a), cos(a)]])
    second = np.array([[cos(b), 0, sin(b)], [0, 1, 0], [-sin(b), 0, cos(b)]])
    third = np.array([[cos(c), -sin(c), 0], [sin(c), cos(c), 0], [0, 0, 1]])
    return first @ second @ third


def affine_of(directions, spacing):
    affine = np.eye(4)
    affine[:3, :3] = np.asarray(directions) @ np.diag(spacing)
    affine[:3, 3] = 5, -7, 11
    return affine


PERMUTED = np.array([[0, 0, -1], [1, 0, 0], [0, -1, 0]])
AFFINES = {
    "isotropic": affine_of(np.eye(3), (1, 1, 1)),
    "anisotropic": affine_of(np.eye(3), (0.7, 0.9, 5)),
    "flipped": affine_of(np.diag([-1, -1, 1]), (1, 1.5, 3)),
    "permuted": affine_of(PERMUTED, (1, 2, 3)),
    "oblique": affine_of(rotation(0.3, -0.2, 0.15), (0.8, 1.1, 2.5)),
    "oblique and permuted": affine_of(PERMUTED @ rotation(0.3, 0.2, -0.4), (1, 2, 3)),
    # Halfway between two directions, where it is not clear which axis goes where.
    "at 45 degrees": affine_of(rotation(np.pi / 4, 0, 0), (1, 1, 1)),
}


def write(file, voxels, affine, unit="unknown"):
    image = nibabel.Nifti1Image(voxels, affine)
    image.header.set_xyzt_units(unit)
    nibabel.save(image, file)
    return file


def write_case(folder, affine, *, shape=SHAPE, seed=0):
    """An image with a bright box in the middle of nothing, and a mask of noise in which any shift would show."""
    generator = np.random.default_rng(seed)
    image = np.zeros(shape, "f4")
    image[3:12, 2:9, 1:8] = generator.uniform(1, 9, (9, 7, 7))
    label = generator.integers(0, 3, shape).astype("u1")
    return {
        "image": write(folder / "image.nii.gz", image, affine),
        "label": write(folder / "label.nii.gz", label, affine),
    }, label


@pytest.mark.parametrize("orientation", ["RAS", "LPS", "SAR", "ILP"])
@pytest.mark.parametrize("slice_axis", [None, 0, 1, 2])
@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_reassembled_labels_are_the_file_s_voxel_for_voxel(tmp_path, affine, slice_axis, orientation):
    case, label = write_case(tmp_path, affine)
    # Padded on every axis: nothing is cut off.
    size = (15, 16, 17) if slice_axis is None else (15, 16)
    pipeline = VolumePipeline(labels=LABELS, orientation=orientation, size=size, slice_axis=slice_axis)
    samples = pipeline(case)
    assert samples.label.shape[1:] == size
    restored = pipeline.reassemble(case["image"], samples.label)
    np.testing.assert_array_equal(restored.voxels, label)
    assert restored.voxels.dtype == np.uint8
    np.testing.assert_array_equal(restored.affine, nibabel.load(case["image"]).affine)


@pytest.mark.parametrize("slice_axis", [None, 0, 1, 2])
@pytest.mark.parametrize("crop", ["centre", "foreground"])
@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_what_a_crop_cuts_off_is_background_and_all_else_comes_back(tmp_path, affine, crop, slice_axis):
    case, label = write_case(tmp_path, affine)
    size = (6, 5, 4) if slice_axis is None else (6, 5)
    pipeline = VolumePipeline(labels=LABELS, crop=crop, size=size, slice_axis=slice_axis)
    samples = pipeline(case)
    restored = pipeline.reassemble(case["image"], samples.label).voxels
    assert restored.shape == label.shape
    cut = restored != label
    assert not restored[cut].any()
    # As many voxels of each class as the samples have came back, and they fill a box.
    assert [int((restored == index).sum()) for index in (1, 2)] == [int((samples.label == i).sum()) for i in (1, 2)]
    places = np.argwhere(restored > 0)
    box = tuple(slice(low, high + 1) for low, high in zip(places.min(0), places.max(0), strict=True))
    np.testing.assert_array_equal(restored[box], label[box])
    expected = label.size if slice_axis is None else label[box].size
    assert np.prod(label[box].shape) == min(expected, samples.label.numel())


def test_crop_to_the_foreground_is_around_the_box_of_everything_bright(tmp_path):
    image, label = np.zeros((20, 16, 12), "f4"), np.zeros((20, 16, 12), "u1")
    image[11, 2, 5], image[17, 7, 9] = 3, 4
    image[0, 0, 0] = -5
    affine = np.eye(4)
    case = {"image": write(tmp_path / "i.nii", image, affine), "label": write(tmp_path / "l.nii", label, affine)}
    # Brute force: the box of the voxels above 0 is 11..17 × 2..7 × 5..9.
    samples = VolumePipeline(labels={0: 0}, crop="foreground", window=(0, 4))(case)
    np.testing.assert_allclose(samples.image[0, 0].numpy(), image[11:18, 2:8, 5:10] / 4)
    assert samples.label.shape == (1, 7, 6, 5)
    # With a size: its middle, 3 × 2 × 3 voxels of it around the box's centre (14, 5, 7).
    smaller = VolumePipeline(labels={0: 0}, crop="foreground", window=(0, 4), size=(3, 6, 5))(case)
    np.testing.assert_allclose(smaller.image[0, 0].numpy(), image[13:16, 2:8, 5:10] / 4)


def test_an_image_without_anything_bright_is_kept_whole(tmp_path):
    image = -np.arange(2 * 3 * 4, dtype="f4").reshape(2, 3, 4)
    case = {"image": write(tmp_path / "i.nii", image, np.eye(4))}
    assert VolumePipeline(labels={0: 0}, crop="foreground")(case).image.shape == (1, 1, 2, 3, 4)


@pytest.mark.parametrize("orientation", ["RAS", "LPS", "SAR", "ILP", "PIR"])
@pytest.mark.parametrize("name", ["anisotropic", "flipped", "permuted", "oblique", "oblique and permuted"])
def test_a_landmark_lies_where_its_millimetres_say(tmp_path, name, orientation):
    affine = AFFINES[name]
    image = np.zeros(SHAPE, "f4")
    landmark = (10, 3, 6)
    image[landmark] = 1
    position = apply_affine(affine, landmark)
    pipeline = VolumePipeline(labels={0: 0}, orientation=orientation, window=(0, 1))
    samples = pipeline({"image": write(tmp_path / "i.nii.gz", image, affine)})
    (result,) = np.argwhere(samples.image[0, 0].numpy() == 1)
    # Letter by letter: its world axis, the file's axis along it, and the number of steps from the end where it starts.
    expected = []
    for letter in orientation:
        world = next(index for index, pair in enumerate(("LR", "PA", "IS")) if letter in pair)
        sign = 1 if letter in "RAS" else -1
        axis = int(np.abs(affine[world, :3] / np.linalg.norm(affine[:3, :3], axis=0)).argmax())
        grows = np.sign(affine[world, axis]) == sign
        expected.append(landmark[axis] if grows else SHAPE[axis] - 1 - landmark[axis])
    np.testing.assert_array_equal(result, expected)
    if name in ("anisotropic", "flipped", "permuted"):
        # And from the millimetres alone: the distance from the volume's lowest or highest corner.
        corners = apply_affine(affine, np.array(np.meshgrid(*[(0, n - 1) for n in SHAPE])).reshape(3, -1).T)
        for axis, letter in enumerate(orientation):
            world = next(i for i, pair in enumerate(("LR", "PA", "IS")) if letter in pair)
            end = corners[:, world].min() if letter in "RAS" else corners[:, world].max()
            steps = abs(position[world] - end) / samples.spacing[axis]
            assert steps == pytest.approx(result[axis], abs=1e-4)


def test_a_landmark_in_ras_and_lps_by_hand(tmp_path):
    # Axes to the left, back and top, 2 × 3 × 4 mm; of 10 × 8 × 6 voxels (1, 2, 3) is 1 from the right end.
    affine = np.diag([-2.0, -3, 4, 1])
    image = np.zeros((10, 8, 6), "f4")
    image[1, 2, 3] = 1
    file = write(tmp_path / "i.nii", image, affine)
    np.testing.assert_array_equal(apply_affine(affine, (1, 2, 3)), (-2, -6, 12))
    for orientation, expected in (("RAS", (8, 5, 3)), ("LPS", (1, 2, 3)), ("SRA", (3, 8, 5))):
        samples = VolumePipeline(labels={0: 0}, orientation=orientation, window=(0, 1))({"image": file})
        np.testing.assert_array_equal(np.argwhere(samples.image[0, 0].numpy() == 1), [expected])


@pytest.mark.parametrize(
    ("orientation", "slice_axis", "expected"),
    [("RAS", None, (2, 3, 1)), ("SAR", None, (1, 3, 2)), ("RAS", 0, (3, 1)), ("RAS", 1, (2, 1)), ("SAR", 2, (1, 3))],
)
def test_spacing_is_that_of_the_sample_s_axes(tmp_path, orientation, slice_axis, expected):
    # The file's axes lead to the front (3 mm), the bottom (1 mm) and the left (2 mm).
    affine = affine_of(PERMUTED, (3, 1, 2))
    file = write(tmp_path / "i.nii", np.zeros((4, 5, 6), "f4"), affine)
    pipeline = VolumePipeline(labels={0: 0}, orientation=orientation, slice_axis=slice_axis)
    samples = pipeline({"image": file})
    assert samples.spacing == pytest.approx(expected)
    extents = {3: 4, 1: 5, 2: 6}
    shape = samples.image.shape[2:]
    assert shape == tuple(extents[step] for step in expected)


@pytest.mark.parametrize("slice_axis", [None, 2])
@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_resampled_spacing_and_extent_by_closed_form(tmp_path, affine, slice_axis):
    # n voxels of a mm have their outer centres (n − 1) a apart, room for one more than that over b.
    steps, shape = np.linalg.norm(affine[:3, :3], axis=0), (30, 22, 18)
    wanted = (1.3, 1.7, 2.1)
    pipeline = VolumePipeline(labels={0: 0}, spacing=wanted, slice_axis=slice_axis)
    samples = pipeline({"image": write(tmp_path / "i.nii", np.zeros(shape, "f4"), affine)})
    assert samples.spacing == pytest.approx(wanted[: 3 if slice_axis is None else 2], rel=1e-4)
    axes = nibabel.io_orientation(affine)[:, 0].argsort()
    extents = [(shape[axis] - 1) * steps[axis] / step + 1 for axis, step in zip(axes, wanted, strict=True)]
    result = samples.image.shape[2:] if slice_axis is None else (*samples.image.shape[2:], len(samples.image))
    np.testing.assert_allclose(result, extents, atol=1)


def test_a_ramp_stays_a_ramp_when_it_is_resampled(tmp_path):
    # Intensities are millimetres along the second axis: halving the step gives twice as many, half as far apart.
    image = np.broadcast_to(np.arange(12.0)[None, :, None] * 2, (6, 12, 5)).astype("f4")
    file = write(tmp_path / "i.nii", image, np.diag([1.0, 2, 3, 1]))
    samples = VolumePipeline(labels={0: 0}, spacing=(1, 1, 3), window=(0, 1000))({"image": file})
    assert samples.image.shape == (1, 1, 6, 23, 5)
    expected = np.broadcast_to(np.arange(23.0)[None, :, None], (6, 23, 5))
    np.testing.assert_allclose(samples.image[0, 0].numpy() * 1000, expected, atol=1e-3)


@pytest.mark.parametrize("slice_axis", [None, 1])
@pytest.mark.parametrize("spacing", [(1, 1, 1), (0.8, 1.3, 1.9)])
@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_a_resampled_blob_comes_back_in_the_file_s_geometry(tmp_path, affine, spacing, slice_axis):
    shape, steps = np.array((40, 36, 20)), np.linalg.norm(affine[:3, :3], axis=0)
    index = np.stack(np.meshgrid(*[np.arange(n) for n in shape], indexing="ij"), axis=-1)
    blob = (((index - (shape - 1) / 2) / (0.4 * shape)) ** 2).sum(-1) < 1
    assert steps.max() / steps.min() < 10
    case = {
        "image": write(tmp_path / "i.nii", blob.astype("f4"), affine),
        "label": write(tmp_path / "l.nii", 2 * blob.astype("u1"), affine),
    }
    pipeline = VolumePipeline(labels=LABELS, spacing=spacing, slice_axis=slice_axis)
    restored = pipeline.reassemble(case["image"], pipeline(case).label)
    assert restored.voxels.shape == tuple(shape)
    np.testing.assert_array_equal(restored.affine, nibabel.load(case["image"]).affine)
    # Nothing between background and class 2.
    assert np.unique(restored.voxels).tolist() == [0, 2]
    result = restored.voxels == 2
    dice = 2 * (result & blob).sum() / (result.sum() + blob.sum())
    assert dice > 0.93


def test_padding_of_resampled_labels_is_background_and_of_images_their_border(tmp_path):
    image = np.full((2, 2, 2), 7, "f4")
    image[1] = 3
    case = {
        "image": write(tmp_path / "i.nii", image, np.eye(4)),
        "label": write(tmp_path / "l.nii", np.ones((2, 2, 2), "u1"), np.eye(4)),
    }
    samples = VolumePipeline(labels=LABELS, size=(4, 2, 2), window=(0, 10))(case)
    np.testing.assert_allclose(samples.image[0, 0, :, 0, 0].numpy(), [0.7, 0.7, 0.3, 0.3])
    assert samples.label[0, :, 0, 0].tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("offset", [0, 1e5])
def test_z_scores_have_mean_0_and_deviation_1(tmp_path, offset):
    voxels = (np.random.default_rng(0).normal(offset, 30, (12, 13, 14))).astype("f4")
    samples = VolumePipeline(labels={0: 0})({"image": write(tmp_path / "i.nii", voxels, AFFINES["oblique"])})
    image = samples.image.double()
    assert image.mean().item() == pytest.approx(0, abs=1e-3)
    assert image.std(correction=0).item() == pytest.approx(1, abs=1e-4)
    assert samples.image.dtype == torch.float32
    assert samples.image.is_contiguous()


def test_z_scores_are_of_the_volume_and_not_of_its_slices(tmp_path):
    voxels = np.arange(4 * 4 * 3, dtype="f4").reshape(4, 4, 3, order="F")
    samples = VolumePipeline(labels={0: 0}, slice_axis=2)({"image": write(tmp_path / "i.nii", voxels, np.eye(4))})
    expected = (voxels - voxels.mean()) / voxels.std()
    for index in range(3):
        np.testing.assert_allclose(samples.image[index, 0].numpy(), expected[..., index], atol=1e-5)


def test_a_window_by_hand(tmp_path):
    voxels = np.array([-2000, -1000, -300, 400, 3000, 50], "f4").reshape(1, 2, 3)
    samples = VolumePipeline(labels={0: 0}, window=(-1000, 400))(
        {"image": write(tmp_path / "i.nii", voxels, np.eye(4))}
    )
    np.testing.assert_allclose(samples.image.flatten().numpy(), [0, 0, 0.5, 1, 1, 0.75], atol=1e-6)


@pytest.mark.parametrize("spacing", [None, (0.7, 0.9, 1.1)])
@pytest.mark.parametrize("crop", ["centre", "foreground"])
@pytest.mark.parametrize("value", [0, 77.7, -3.3])
def test_a_constant_volume_becomes_zeros(tmp_path, value, crop, spacing):
    file = write(tmp_path / "i.nii", np.full((5, 6, 7), value, "f4"), AFFINES["oblique"])
    samples = VolumePipeline(labels={0: 0}, crop=crop, spacing=spacing, size=(8, 8, 8))({"image": file})
    assert samples.image.shape == (1, 1, 8, 8, 8)
    assert not samples.image.any()


def test_a_constant_volume_keeps_its_place_in_a_window(tmp_path):
    file = write(tmp_path / "i.nii", np.full((2, 2, 2), -1000, "f4"), np.eye(4))
    assert not VolumePipeline(labels={0: 0}, window=(-1000, 400))({"image": file}).image.any()


def test_slices_come_in_the_order_of_the_axis(tmp_path):
    voxels = np.random.default_rng(0).uniform(0, 1, (4, 5, 6)).astype("f4")
    case = {
        "image": write(tmp_path / "i.nii", voxels, np.eye(4)),
        "label": write(tmp_path / "l.nii", (voxels > 0.5).astype("u1"), np.eye(4)),
        "clean_label": write(tmp_path / "c.nii", (voxels > 0.7).astype("u1"), np.eye(4)),
    }
    for axis in range(3):
        samples = VolumePipeline(labels=LABELS, window=(0, 1), slice_axis=axis)(case)
        for index, part in enumerate(np.moveaxis(voxels, axis, 0)):
            np.testing.assert_allclose(samples.image[index, 0].numpy(), part, atol=1e-6)
            np.testing.assert_array_equal(samples.label[index].numpy(), part > 0.5)
            np.testing.assert_array_equal(samples.clean_label[index].numpy(), part > 0.7)
        assert samples.label.dtype == samples.clean_label.dtype == torch.uint8
        assert type(samples.image) is type(samples.label) is torch.Tensor


def test_masks_are_asked_for_only_where_the_case_has_them(tmp_path):
    case, _ = write_case(tmp_path, np.eye(4))
    samples = VolumePipeline(labels=LABELS)({"image": case["image"]})
    assert samples.label is samples.clean_label is None


def test_a_mask_takes_the_classes_of_its_values_and_the_place_of_its_image(tmp_path):
    image = write(tmp_path / "i.nii", np.arange(24, dtype="f4").reshape(2, 3, 4), AFFINES["flipped"])
    values = np.resize([0, 10, 20, 30], (2, 3, 4)).astype("i2")
    nudged = AFFINES["flipped"].copy()
    nudged[0, 3] += 0.3
    mask = write(tmp_path / "l.nii", values, nudged)
    pipeline = VolumePipeline(labels={0: 0, 10: 2, 20: 1, 30: 2}, orientation="LPS")
    samples = pipeline({"image": image, "label": mask})
    expected = np.choose(values // 10, [0, 2, 1, 2])
    np.testing.assert_array_equal(samples.label[0].numpy(), expected)


def test_a_mask_whose_header_differs_a_little_is_resampled_with_its_image(tmp_path):
    # 3% longer voxels would make 24 of 12 where the image gets 23.
    case = {
        "image": write(tmp_path / "i.nii", np.arange(12, dtype="f4").reshape(12, 1, 1), np.eye(4)),
        "label": write(tmp_path / "l.nii", np.ones((12, 1, 1), "u1"), np.diag([1.03, 1, 1, 1])),
    }
    samples = VolumePipeline(labels=LABELS, spacing=(0.5, 1, 1))(case)
    assert samples.image.shape == (1, 1, 23, 1, 1)
    assert samples.label.shape == (1, 23, 1, 1)


@pytest.mark.parametrize(
    ("voxels", "affine", "message"),
    [
        (np.zeros((3, 3, 5), "u1"), np.eye(4), r"l\.nii: found a mask of 3 × 3 × 5 voxels, expected .* 3 × 3 × 4"),
        (np.zeros((3, 3, 4), "u1"), np.diag([-1.0, 1, 1, 1]), r"l\.nii: found a mask that lies up to 4\.0 mm off"),
        (np.full((3, 3, 4), 5, "u1"), np.eye(4), r"l\.nii: found the label values 5, expected only 0, 1, 2"),
        (np.full((3, 3, 4), 0.5, "f4"), np.eye(4), r"l\.nii: found a mask with fractions"),
    ],
)
def test_masks_that_do_not_fit_are_named(tmp_path, voxels, affine, message):
    case = {
        "image": write(tmp_path / "i.nii", np.zeros((3, 3, 4), "f4"), np.eye(4)),
        "label": write(tmp_path / "l.nii", voxels, affine),
    }
    with pytest.raises(DataError, match=message):
        VolumePipeline(labels=LABELS)(case)


@pytest.mark.parametrize("slice_axis", [None, 2])
def test_resampling_that_a_damaged_header_asks_for_is_refused(tmp_path, slice_axis):
    file = write(tmp_path / "i.nii", np.ones((8, 8, 8), "f4"), np.diag([1.0, 1, 9000, 1]), "mm")
    pipeline = VolumePipeline(labels={0: 0}, spacing=(1, 1, 1), slice_axis=slice_axis)
    for use in (pipeline, lambda case: pipeline.reassemble(case["image"], torch.zeros(1, 8, 8, 8))):
        with pytest.raises(DataError, match=r"i\.nii: found voxels of 1 × 1 × 9e\+03 mm, .* 'spacing' in data\.yaml"):
            use({"image": file})
    # Tiny voxels along another axis make up for it in number but not in memory.
    thin = write(tmp_path / "i.nii", np.ones((8, 8, 8), "f4"), np.diag([1e-4, 1e-4, 9e4, 1]), "mm")
    with pytest.raises(DataError, match=r"would make 7\.2e\+05 voxels"):
        pipeline({"image": thin})
    allowed = write(tmp_path / "i.nii", np.ones((8, 8, 8), "f4"), np.diag([1.0, 1, 9, 1]))
    assert pipeline({"image": allowed}).image.numel() == 8 * 8 * 64


def test_labels_of_another_shape_are_refused_with_both(tmp_path):
    case, _ = write_case(tmp_path, np.eye(4))
    pipeline = VolumePipeline(labels=LABELS, size=(6, 5), slice_axis=2)
    with pytest.raises(ValueError, match=r"expected labels that make up \(6, 5, 9\) voxels, but got \(8, 6, 5\)"):
        pipeline.reassemble(case["image"], torch.zeros(8, 6, 5))


@pytest.mark.parametrize(
    ("options", "step"), [({"slice_axis": 2, "size": (64, 64)}, 1), ({"size": (64, 64, 64), "orientation": "LPI"}, 8)]
)
def test_real_volumes_come_back_voxel_for_voxel(real_data, options, step):
    folder = real_data / "hippocampus-msd"
    items = json.loads((folder / "datalist.json").read_text(encoding="utf-8"))
    cases = [item for section in items.values() if isinstance(section, list) for item in section]
    pipeline = VolumePipeline(labels=LABELS, **options)
    assert len(cases) == 260
    for item in cases[::step]:
        case = {"image": folder / item["image"], "label": folder / item["label"]}
        samples = pipeline(case)
        restored = pipeline.reassemble(case["image"], samples.label)
        original = nibabel.load(case["label"])
        np.testing.assert_array_equal(restored.voxels, np.asarray(original.dataobj))
        np.testing.assert_array_equal(restored.affine, original.affine)
        assert samples.image.isfinite().all()


@pytest.mark.parametrize("fit", ["resize", "pad"])
@pytest.mark.parametrize("slice_axis", [None, 0, 1, 2])
@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_a_fitted_blob_comes_back_in_the_file_s_geometry(tmp_path, affine, slice_axis, fit):
    shape = np.array((40, 36, 20))
    index = np.stack(np.meshgrid(*[np.arange(n) for n in shape], indexing="ij"), axis=-1)
    blob = (((index - (0.55, 0.4, 0.5) * shape) / (0.3 * shape)) ** 2).sum(-1) < 1
    case = {
        "image": write(tmp_path / "i.nii", blob.astype("f4"), affine),
        "label": write(tmp_path / "l.nii", 2 * blob.astype("u1"), affine),
    }
    size = (30, 44, 24) if slice_axis is None else (30, 44)
    pipeline = VolumePipeline(labels=LABELS, size=size, fit=fit, slice_axis=slice_axis, orientation="LPS")
    samples = pipeline(case)
    assert samples.image.shape[2:] == size
    # What the image shows and what the mask says lie at the same place.
    bright = samples.image[:, 0] > samples.image.mean()
    assert float((bright == (samples.label == 2)).float().mean()) > 0.97
    restored = pipeline.reassemble(case["image"], samples.label)
    np.testing.assert_array_equal(restored.affine, nibabel.load(case["image"]).affine)
    assert np.unique(restored.voxels).tolist() == [0, 2]
    result = restored.voxels == 2
    assert 2 * (result & blob).sum() / (result.sum() + blob.sum()) > 0.9


@pytest.mark.parametrize("fit", ["resize", "pad"])
@pytest.mark.parametrize("crop", ["centre", "foreground"])
@pytest.mark.parametrize("spacing", [None, (1.2, 1.0, 2.0)])
def test_nothing_of_a_fitted_volume_is_cut_off(tmp_path, fit, crop, spacing):
    case, label = write_case(tmp_path, AFFINES["anisotropic"], shape=(60, 44, 9))
    pipeline = VolumePipeline(labels=LABELS, size=(120, 120), fit=fit, crop=crop, spacing=spacing, slice_axis=2)
    restored = pipeline.reassemble(case["image"], pipeline(case).label).voxels
    assert restored.shape == label.shape
    if crop == "centre" and spacing is None:
        np.testing.assert_array_equal(restored, label)


@pytest.mark.parametrize(
    ("fit", "expected"),
    # 40 × 30 mm of voxels of 1 × 1 mm in 20 × 20: half as many each way, or half as many along both axes.
    [("resize", (2.0, 1.5)), ("pad", (2.0, 2.0)), ("crop", (1.0, 1.0))],
)
def test_spacing_is_that_of_the_fitted_samples(tmp_path, fit, expected):
    file = write(tmp_path / "i.nii", np.zeros((40, 30, 3), "f4"), np.diag([1.0, 1.0, 5.0, 1.0]))
    samples = VolumePipeline(labels={0: 0}, size=(20, 20), fit=fit, slice_axis=2)({"image": file})
    assert samples.spacing == pytest.approx(expected)
    assert samples.slice_spacing == pytest.approx(5.0)


@pytest.mark.parametrize("fit", ["resize", "pad"])
@pytest.mark.parametrize("axis", [0, 1])
def test_millimetres_in_a_fitted_volume_are_those_of_its_spacing(tmp_path, fit, axis):
    steps = (0.7, 0.9, 5.0)
    millimetres = np.moveaxis(np.zeros((40, 30, 4)), axis, -1) + np.arange((40, 30)[axis]) * steps[axis]
    image = np.ascontiguousarray(np.moveaxis(millimetres, -1, axis)).astype("f4")
    file = write(tmp_path / "i.nii", image, np.diag([*steps, 1.0]))
    samples = VolumePipeline(labels={0: 0}, size=(20, 24), fit=fit, slice_axis=2, window=(0, 100))({"image": file})
    result = np.diff(samples.image[0, 0].numpy() * 100, axis=axis)
    # At the border, where the filter is cut off, and in the padding it is less.
    np.testing.assert_allclose(result[6:-6, 6:-6], samples.spacing[axis], rtol=0.1)
    assert result[6:-6, 6:-6].mean() == pytest.approx(samples.spacing[axis], rel=0.02)
