"""Values that `ignore` names become 255 in memory, whatever moves or resizes pixels, and stay as they are in files."""

import json

import nibabel
import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import interpolate

from fedannot.custom.data.case_preparation import _pipeline
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.masks import read_classes, write_changed, write_with_additions
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.noise.noisy_copy import add_contour_noise, leave_lesions_out
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.ignored_label import IGNORED_LABEL
from fedannot.transforms.loading.fitting import resize_mask

PICTURES = "channels: 1\nsize: [{size}]\nclasses: [a, b]\nlabels: {{0: 0, 1: 1, 2: 2}}\nignore: [200, 7]\n"
VOLUMES = "pipeline: volume\nclasses: [a]\nlabels: {0: 0, 1: 1}\nignore: [9]\n"


def picture_site(folder, mask, size="8, 8", fit="resize"):
    folder.mkdir(exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 255, mask.shape, dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "image.png")
    Image.fromarray(mask).save(folder / "mask.png")
    (folder / "datalist.json").write_text(json.dumps({"training": [{"image": "image.png", "label": "mask.png"}]}))
    (folder / "data.yaml").write_text(PICTURES.format(size=size) + f"fit: {fit}\n")
    return folder


def labels(folder, cache):
    return load_site_data(folder, cache, site="a").cases[0].label[0].numpy()


def test_ignored_values_of_pictures_become_one_label(tmp_path):
    mask = np.resize(np.array([0, 1, 2, 200, 7], np.uint8), (8, 8))
    result = labels(picture_site(tmp_path / "a", mask), tmp_path / "cache")
    np.testing.assert_array_equal(result, np.where(mask >= 7, IGNORED_LABEL, mask))


def test_a_value_that_is_neither_class_nor_ignored_is_an_error(tmp_path):
    folder = picture_site(tmp_path / "a", np.resize(np.array([0, 1, 8], np.uint8), (8, 8)))
    with pytest.raises(DataError, match=r"found the label values 0, 1, 8, expected only 0, 1, 2, 7, 200\. .*'ignore'"):
        labels(folder, tmp_path / "cache")


def test_pixels_that_are_mostly_ignored_are_ignored_in_a_smaller_mask(tmp_path):
    mask = np.zeros((16, 16), np.uint8)
    mask[:, :5] = 200  # of the pixel of columns 4 and 5 half
    mask[8:, 10:] = 2
    result = labels(picture_site(tmp_path / "a", mask), tmp_path / "cache")
    expected = np.zeros((8, 8), np.uint8)
    expected[:, :3], expected[4:, 5:] = IGNORED_LABEL, 2
    np.testing.assert_array_equal(result, expected)


def test_padding_is_background_also_beside_ignored_pixels(tmp_path):
    mask = np.full((4, 8), 200, np.uint8)
    result = labels(picture_site(tmp_path / "a", mask, fit="pad"), tmp_path / "cache")
    np.testing.assert_array_equal(result, np.pad(np.full((4, 8), IGNORED_LABEL), [(2, 2), (0, 0)]))


def test_masks_without_ignored_pixels_are_resized_as_before():
    mask = torch.from_numpy(np.random.default_rng(3).integers(0, 3, (1, 13, 17)).astype(np.uint8))
    shares = [(mask == label).float()[None] for label in range(3)]
    area = np.stack([interpolate(share, (5, 6), mode="area")[0, 0].numpy() for share in shares])
    expected = 2 - area[::-1].argmax(axis=0)
    np.testing.assert_array_equal(resize_mask(mask, (5, 6), 3)[0].numpy(), expected)


def test_ignored_voxels_survive_orientation_resampling_and_crop(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    mask = np.zeros((10, 8, 6), np.uint8)
    mask[:4], mask[6:, 2:5] = 9, 1
    affine = np.diag([-2.0, 2.0, 2.0, 1.0])
    image = np.random.default_rng(0).normal(size=mask.shape).astype("f4")
    nibabel.save(nibabel.Nifti1Image(image, affine), folder / "image.nii.gz")
    nibabel.save(nibabel.Nifti1Image(mask, affine), folder / "mask.nii.gz")
    items = {"training": [{"image": "image.nii.gz", "label": "mask.nii.gz"}]}
    (folder / "datalist.json").write_text(json.dumps(items))
    (folder / "data.yaml").write_text(VOLUMES + "spacing: [1, 1, 1]\nsize: [24, 12, 12]\n")
    result = labels(folder, tmp_path / "cache")
    assert result.shape == (24, 12, 12)
    assert set(np.unique(result)) == {0, 1, IGNORED_LABEL}
    # The first axis grows to the right: the ignored part is at its end, the padding beyond it is background.
    across = (result == IGNORED_LABEL).any(axis=(1, 2))
    assert across.sum() in (7, 8)
    assert not result[np.flatnonzero(across)[-1] + 1 :].any()


def test_ignored_pixels_keep_their_value_in_files_that_are_written(tmp_path):
    mask = np.resize(np.array([0, 1, 2, 200, 7], np.uint8), (8, 8))
    folder = picture_site(tmp_path / "a", mask)
    description = read_site_description(folder)
    classes = read_classes(folder / "mask.png", description)
    np.testing.assert_array_equal(classes.foreground, (mask == 1) | (mask == 2))
    changed = np.where(classes.classes == 1, 2, classes.classes)
    file = write_changed(tmp_path / "changed", folder / "mask.png", changed, description)
    np.testing.assert_array_equal(np.asarray(Image.open(file)), np.where(mask == 1, 2, mask))
    ones = np.ones((8, 8), np.uint8)
    file, _, added = write_with_additions(tmp_path / "added", folder / "mask.png", ones, description)
    np.testing.assert_array_equal(added != 0, mask == 0)
    np.testing.assert_array_equal(np.asarray(Image.open(file)), np.where(mask == 0, 1, mask))


def test_ignored_values_decide_what_is_prepared_and_nothing_else_does(tmp_path):
    description = read_site_description(picture_site(tmp_path / "a", np.zeros((8, 8), np.uint8)))
    without = description.model_copy(update={"ignore": ()})
    assert _pipeline(description) != _pipeline(without)
    assert "ignore" not in _pipeline(without)
    partial = without.model_copy(update={"annotated_classes": ("a",), "labels": {0: 0, 1: 1}})
    same = without.model_copy(update={"labels": {0: 0, 1: 1}})
    assert _pipeline(partial) == _pipeline(same)


@pytest.mark.parametrize(
    "add",
    [
        lambda source, out: add_contour_noise(source, out, NoiseChoice("M(25,-25,5,0.5)")),
        lambda source, out: leave_lesions_out(source, out, [0.5]),
    ],
)
def test_noise_beside_ignored_pixels_is_refused(tmp_path, add):
    picture_site(tmp_path / "a", np.zeros((8, 8), np.uint8))
    (tmp_path / "federation.yaml").write_text("name: one\nsites: [a]\n")
    with pytest.raises(DataError, match=r"Site a: .*data\.yaml has the key 'ignore'; expected masks without ignored"):
        add(tmp_path, tmp_path / "noisy")
    assert not (tmp_path / "noisy").exists()
