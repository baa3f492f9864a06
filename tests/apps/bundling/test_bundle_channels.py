"""A bundle of images with several channels: prepared as training does, from a file of four axes, numbers or lists."""

import json
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from monai.bundle import ConfigParser
from PIL import Image
from support.four_channels import NAMES, write_site

from fedannot.apps.bundling.inference_config import inference_config
from fedannot.apps.bundling.metadata import _channel_names, _image_classes
from fedannot.apps.bundling.reading_code import write_reading_code
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.description import AnyDescription, ImageDescription, SliceDescription, VolumeDescription
from fedannot.custom.data.preparation import build_preparation
from fedannot.custom.evaluation.inference import Inference
from fedannot.transforms.loading.folder_images import NAME, result_name, shared_names

FOUR: dict[str, Any] = {"classes": ("a",), "labels": {0: 0, 1: 1}, "channels": NAMES}
WINDOWS = ((10.0, 60.0), (0.0, 90.0), (30.0, 80.0), (40.0, 90.0))
DESCRIPTIONS: dict[str, AnyDescription] = {
    "whole": VolumeDescription(**FOUR, size=(16, 16, 16)),
    "foreground": VolumeDescription(**FOUR, crop="foreground", spacing=(1.0, 1.0, 2.0), size=(16, 16, 16), fit="pad"),
    "windows": SliceDescription(**FOUR, size=(16, 16), intensity="window", channel_windows=WINDOWS),
    "one window": SliceDescription(**FOUR, size=(20, 12), fit="resize", intensity="window", window=(0, 100)),
    "zeros": VolumeDescription(**FOUR, size=(16, 16, 16), missing_channels="zeros"),
}


def parser_for(description: AnyDescription, folder: Path, bundle: Path) -> ConfigParser:
    write_reading_code(bundle)
    config = inference_config(description, Inference(4, None))
    parser = ConfigParser(config | {"dataset_dir": str(folder), "bundle_root": str(bundle)})
    parser.parse()
    return parser


def prepared_by_bundle(description: AnyDescription, folder: Path, bundle: Path) -> list[torch.Tensor]:
    """The images of a folder as the bundle finds and prepares them."""
    parser = parser_for(description, folder, bundle)
    names = parser.get_parsed_content("datalist")
    preprocessing = parser.get_parsed_content("preprocessing")
    images = [preprocessing({"image": name})["image"].as_tensor() for name in names]
    if isinstance(description, SliceDescription):
        return [torch.movedim(image, description.slice_axis + 1, 0) for image in images]
    return [image[None] for image in images]


@pytest.mark.parametrize(("name", "stacked"), [*((name, False) for name in DESCRIPTIONS), ("foreground", True)])
def test_channels_are_prepared_alike(name: str, stacked: bool, tmp_path: Path) -> None:
    missing = (1,) if name == "zeros" else ()
    site = write_site(tmp_path / "site", stacked=stacked, missing=missing)
    preparation = build_preparation(DESCRIPTIONS[name])
    cases = read_datalist(site / "datalist.json").section("training")
    result = prepared_by_bundle(DESCRIPTIONS[name], site / "images", tmp_path / "bundle")
    assert len(result) == len(cases) == 2
    for image, case in zip(result, cases, strict=True):
        assert torch.equal(image, preparation(case).tensors["image"])


def test_a_list_of_files_is_an_image_and_a_missing_channel_is_refused(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site")
    description = DESCRIPTIONS["whole"]
    preprocessing = parser_for(description, site, tmp_path / "bundle").get_parsed_content("preprocessing")
    [case, other] = read_datalist(site / "datalist.json").section("training")
    image = preprocessing({"image": [str(file) for file in case.channels]})["image"].as_tensor()
    assert torch.equal(image[None], build_preparation(description)(case).tensors["image"])
    (site / "images" / "case_1_0003.nii.gz").unlink()
    with pytest.raises(RuntimeError) as refused:
        preprocessing({"image": str(other.image)})
    assert "found no file for channel 'FLAIR' (4 of 4)" in str(refused.value.__cause__)


@pytest.mark.parametrize("fit", ["resize", "pad"])
def test_grey_pictures_of_named_channels_are_prepared_alike(fit: Any, tmp_path: Path) -> None:
    description = ImageDescription(
        channels=("DAPI", "GFP"), size=(16, 24), fit=fit, labels={0: 0, 255: 1}, classes=("cell",)
    )
    images = tmp_path / "images"
    images.mkdir()
    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 99 * (number + 1), (20, 14), dtype=np.uint8)
        Image.fromarray(pixels).save(images / f"cell_{number:04d}.png")
    Image.fromarray(np.zeros((20, 14), np.uint8)).save(tmp_path / "mask.png")
    items = [{"image": ["images/cell_0000.png", "images/cell_0001.png"], "label": "mask.png"}]
    (tmp_path / "datalist.json").write_text(json.dumps({"training": items}))
    [case] = read_datalist(tmp_path / "datalist.json").section("training")
    [result] = prepared_by_bundle(description, images, tmp_path / "bundle")
    assert torch.equal(result, build_preparation(description)(case).tensors["image"])


def test_a_picture_of_one_named_channel_is_prepared_as_without_the_name(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    pixels = np.random.default_rng(0).integers(0, 255, (20, 14), dtype=np.uint8)
    Image.fromarray(pixels).save(images / "cell.png")
    values: dict[str, Any] = {"size": (16, 24), "labels": {0: 0, 255: 1}, "classes": ("cell",)}
    named, plain = (
        prepared_by_bundle(ImageDescription(channels=channels, **values), images, tmp_path / f"bundle {channels}")
        for channels in (("DAPI",), 1)
    )
    assert len(named) == len(plain) == 1
    assert torch.equal(named[0], plain[0])


def test_results_of_numbered_files_are_called_as_their_case(tmp_path: Path) -> None:
    """A case of one file with four axes keeps its name, whatever it ends in."""
    site = write_site(tmp_path / "site", missing=(0,))
    parser = parser_for(DESCRIPTIONS["zeros"], site / "images", tmp_path / "bundle")
    names = [item[NAME] for item in parser.get_parsed_content("dataset")]
    assert names == ["case_0", "case_1"]
    files = ["a/one_0000.nii.gz", None, "a/one_0002.nii.gz"]
    assert result_name(files, "a", 3) == "one"
    assert result_name(["a/one_0000.nii.gz", "a/two_0001.nii.gz"], "a", 2) == "one_0000"
    assert result_name("a/b/one_0000.nii.gz", "a", 3) == "b/one_0000"
    assert shared_names(["a/one.nii.gz", files], "a", 3) == ("a/one.nii.gz", "a/one_0000.nii.gz")


@pytest.mark.parametrize("numbers", [(1, 2, 3, 4), (2021, 2022), (0, 1, 4), (0, 1), (0, 1, 9)])
def test_patients_that_are_numbered_are_no_channels_of_one_another(numbers: tuple[int, ...], tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    generator = np.random.default_rng(0)
    voxels = {f"patient_{number:04d}": generator.random((16, 16, 16, 4)).astype(np.float32) for number in numbers}
    for name, volume in voxels.items():
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), folder / f"{name}.nii.gz")
    images = parser_for(DESCRIPTIONS["whole"], folder, tmp_path / "bundle").get_parsed_content("dataset")
    read = {item[NAME]: item["image"].as_tensor().numpy() for item in images}
    assert sorted(read) == sorted(voxels)
    assert not images.refused
    for name, volume in voxels.items():
        # Each channel is normalised on its own.
        expected = (volume - volume.mean((0, 1, 2))) / volume.std((0, 1, 2))
        np.testing.assert_allclose(np.moveaxis(read[name], 0, -1), expected, atol=1e-4)


def test_metadata_name_the_channels() -> None:
    assert _channel_names(DESCRIPTIONS["whole"]) == NAMES
    assert _image_classes(DESCRIPTIONS["whole"]) == "4 channels of intensities: T1, T1c, T2, FLAIR"
    three = VolumeDescription(classes=("a",), labels={0: 0, 1: 1}, channels=3)
    assert _image_classes(three) == "3 channels of intensities"
    assert _channel_names(three)[0] == "intensity of channel 1"
    rgb = ImageDescription(channels=3, size=(16, 16), labels={0: 0, 1: 1}, classes=("a",))
    assert (_channel_names(rgb), _image_classes(rgb)) == (("red", "green", "blue"), "RGB channels")
