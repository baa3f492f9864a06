"""The fraction of an annotation that a crop keeps, against what the pipeline itself keeps."""

import nibabel
import numpy as np
import pytest

from fedannot.apps.checking.crop import share_kept
from fedannot.custom.data.description import check_site_description
from fedannot.custom.data.preparation import build_volume_pipeline
from fedannot.transforms.loading.volume_files import Volume

TURNED = np.array([[0, 0, -1.5, 3], [-1, 0, 0, 7], [0, 2, 0, -4], [0, 0, 0, 1.0]])
COMMON = {"labels": {0: 0, 1: 1}, "classes": ("lesion",)}


def site_description(pipeline, **keys):
    return check_site_description({"pipeline": pipeline, **COMMON, **keys}, source="test")


def random_volume(seed):
    """An image with a bright box somewhere in it, and an annotation of random voxels all over it."""
    generator = np.random.default_rng(seed)
    image = np.zeros((13, 10, 15), np.float32)
    image[3:12, 1:8, 2:9] = generator.uniform(1, 2, (9, 7, 7))
    return image, (generator.random(image.shape) < 0.3).astype(np.uint8)


def kept_by_pipeline(folder, image, mask, affine, description):
    files = {"image": folder / "image.nii.gz", "label": folder / "label.nii.gz"}
    for file, array in zip(files.values(), (image, mask), strict=True):
        nibabel.save(nibabel.Nifti1Image(array, affine), file)
    return int(build_volume_pipeline(description)(files).label.sum())


@pytest.mark.parametrize(
    "description",
    [
        site_description("volume", size=[6, 7, 5]),
        site_description("volume", size=[7, 20, 4], orientation="PSR"),
        site_description("volume", size=[4, 4, 4], crop="foreground"),
        site_description("volume", crop="foreground", orientation="LAI"),
        site_description("volume_slices", size=[5, 8]),
        site_description("volume_slices", size=[5, 8], slice_axis=0, orientation="SAL", crop="foreground"),
    ],
    ids=lambda description: f"{description.pipeline}-{description.orientation}-{description.crop}",
)
@pytest.mark.parametrize("affine", [np.eye(4), TURNED], ids=["straight", "turned"])
def test_without_resampling_the_share_is_exactly_the_pipelines(tmp_path, description, affine):
    image, mask = random_volume(0)
    share = share_kept(mask, Volume(image, affine), description)
    assert share == pytest.approx(kept_by_pipeline(tmp_path, image, mask, affine, description) / mask.sum(), abs=1e-12)
    assert 0 < share < 1


@pytest.mark.parametrize("crop", ["centre", "foreground"])
def test_with_resampling_the_share_is_nearly_the_pipelines(tmp_path, crop):
    description = site_description("volume", size=[9, 8, 9], spacing=[0.75, 0.8, 1.2], crop=crop)
    uncropped = site_description("volume", spacing=[0.75, 0.8, 1.2])
    image, _ = random_volume(0)
    mask = np.zeros(image.shape, np.uint8)
    mask[2:8, 3:9, 4:12] = 1
    all_voxels = kept_by_pipeline(tmp_path, image, mask, TURNED, uncropped)
    expected = kept_by_pipeline(tmp_path, image, mask, TURNED, description) / all_voxels
    assert 0.1 < expected < 0.9
    assert share_kept(mask, Volume(image, TURNED), description) == pytest.approx(expected, abs=0.12)


def test_nothing_is_lost_without_a_crop_or_an_annotation():
    image, mask = random_volume(1)
    volume = Volume(image, np.eye(4))
    assert share_kept(mask, volume, site_description("volume")) == 1
    assert share_kept(np.zeros_like(mask), volume, site_description("volume", size=[2, 2, 2])) == 1


def test_a_constant_image_is_all_foreground():
    _, mask = random_volume(2)
    volume = Volume(np.full(mask.shape, -5, np.float32), np.eye(4))
    assert share_kept(mask, volume, site_description("volume", crop="foreground")) == 1
