"""A bundle's preprocessing against the project's own, bit for bit, and what ends a run with a sentence."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from monai.bundle import ConfigParser
from monai.data import MetaTensor
from PIL import Image

from fedannot.apps.bundling.inference_config import inference_config
from fedannot.apps.bundling.reading_code import write_reading_code
from fedannot.custom.data.datalist import Case
from fedannot.custom.data.description import (
    AnyDescription,
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
)
from fedannot.custom.data.preparation import build_preparation
from fedannot.custom.evaluation.inference import Inference
from fedannot.transforms.errors import DataError

SEGMENTING: dict[str, Any] = {"classes": ("lesion",), "labels": {0: 0, 1: 1}}
GENERATOR_SEED = 7


def parser_for(description: AnyDescription, folder: Path, window: tuple[int, ...] | None = None) -> ConfigParser:
    bundle = folder.with_name(f"{folder.name} bundle")
    write_reading_code(bundle)
    config = inference_config(description, Inference(4, window))
    config |= {"dataset_dir": str(folder), "bundle_root": str(bundle)}
    parser = ConfigParser(config)
    parser.parse()
    return parser


def prepared_by_bundle(description: AnyDescription, file: Path) -> torch.Tensor:
    preprocessing = parser_for(description, file.parent, (16, 16, 16)).get_parsed_content("preprocessing")
    image: torch.Tensor = preprocessing({"image": str(file)})["image"].as_tensor()
    return image


def write_picture(file: Path, mode: str, size: tuple[int, int] = (37, 52)) -> Path:
    generator = np.random.default_rng(GENERATOR_SEED)
    rows, columns = size
    if mode == "constant":
        picture = Image.fromarray(np.full(size, 93, dtype=np.uint8))
    elif mode == "I;16":
        picture = Image.fromarray(generator.integers(0, 40000, size).astype(np.uint16))
    else:
        pixels = generator.integers(0, 256, (rows, columns, 4), dtype=np.uint8)
        pixels[..., 3] = 255
        picture = Image.fromarray(pixels, "RGBA").convert("RGB" if mode in ("P", "L") else mode).convert(mode)
    picture.save(file)
    return file


PICTURES = [("L", ".png"), ("RGB", ".png"), ("RGB", ".jpg"), ("RGBA", ".png"), ("P", ".png"), ("I;16", ".png")]
PICTURES += [("constant", ".png"), ("I;16", ".tif"), ("L", ".bmp")]


@pytest.mark.parametrize(("mode", "suffix"), PICTURES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(37, 52), (24, 32), (64, 40)], ids=["same size", "smaller", "larger and smaller"])
def test_pictures_are_prepared_alike(
    mode: str, suffix: str, channels: int, size: tuple[int, int], tmp_path: Path
) -> None:
    file = write_picture(tmp_path / f"picture{suffix}", mode)
    description = ClassificationDescription(classes=("one", "two"), channels=channels, size=size)
    expected = build_preparation(description)(Case(file, 0)).tensors["image"][0]
    result = prepared_by_bundle(description, file)
    assert result.shape == expected.shape == (channels, *size)
    assert torch.equal(result, expected)
    assert bool(expected.any()) == (mode != "constant")


@pytest.mark.parametrize(("mode", "suffix"), [("RGB", ".jpg"), ("L", ".tif"), ("I;16", ".png"), ("LA", ".png")])
@pytest.mark.parametrize("orientation", [3, 6])
def test_turned_pictures_are_prepared_upright(mode: str, suffix: str, orientation: int, tmp_path: Path) -> None:
    file, exif = write_picture(tmp_path / f"picture{suffix}", mode), Image.Exif()
    exif[0x0112] = orientation
    with Image.open(file) as stored:
        pixels = np.asarray(stored)
        stored.save(file, exif=exif)
    description = ClassificationDescription(classes=("one", "two"), channels=1, size=(52, 37))
    expected = build_preparation(description)(Case(file, 0)).tensors["image"][0]
    result = prepared_by_bundle(description, file)
    assert torch.equal(result, expected)
    if mode == "I;16":
        turned = np.rot90(pixels, -1) if orientation == 6 else None
        assert turned is None or np.corrcoef(turned.ravel(), result[0].ravel())[0, 1] > 0.999


@pytest.mark.parametrize(
    ("mode", "reason"), [("pages", "found 2 pictures"), ("clear", "transparent pixels"), ("nan", "not finite")]
)
def test_pictures_that_import_refuses_are_refused_by_a_bundle(mode: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "picture.tif"
    if mode == "nan":
        Image.fromarray(np.full((8, 8), np.nan, np.float32)).save(file)
    elif mode == "pages":
        Image.new("L", (8, 8)).save(file, save_all=True, append_images=[Image.new("L", (8, 8))])
    else:
        Image.fromarray(np.arange(256, dtype=np.uint8).reshape(8, 8, 4), "RGBA").save(file)
    description = ClassificationDescription(classes=("one", "two"), channels=1, size=(8, 8))
    with pytest.raises(DataError, match=reason):
        build_preparation(description)(Case(file, 0))
    with pytest.raises(RuntimeError) as refused:
        prepared_by_bundle(description, file)
    assert str(refused.value.__cause__).startswith(f"{file}: ")
    assert reason in str(refused.value.__cause__)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(37, 52), (24, 32), (64, 40), (30, 90)])
@pytest.mark.parametrize(("mode", "suffix"), [("L", ".png"), ("RGB", ".jpg"), ("constant", ".png")])
def test_padded_pictures_are_prepared_alike(
    mode: str, suffix: str, channels: int, size: tuple[int, int], tmp_path: Path
) -> None:
    file = write_picture(tmp_path / f"picture{suffix}", mode)
    description = ClassificationDescription(classes=("one", "two"), channels=channels, size=size, fit="pad")
    expected = build_preparation(description)(Case(file, 0)).tensors["image"][0]
    result = prepared_by_bundle(description, file)
    assert result.shape == expected.shape == (channels, *size)
    assert torch.equal(result, expected)


VOLUMES: dict[str, AnyDescription] = {
    "whole": VolumeDescription(**SEGMENTING),
    "resampled": VolumeDescription(**SEGMENTING, orientation="PIR", spacing=(1.5, 1.0, 2.0)),
    "window": VolumeDescription(**SEGMENTING, intensity="window", window=(-50, 120), size=(20, 28, 9)),
    "foreground": VolumeDescription(**SEGMENTING, crop="foreground", size=(16, 16, 16)),
    "slices": SliceDescription(**SEGMENTING, size=(24, 20), spacing=(1.0, 1.0, 3.0)),
    "resized": VolumeDescription(**SEGMENTING, size=(16, 40, 9), fit="resize", orientation="LPI"),
    "padded": VolumeDescription(**SEGMENTING, size=(16, 24, 12), fit="pad", crop="foreground"),
    "resized slices": SliceDescription(
        **SEGMENTING, size=(16, 33), fit="resize", intensity="window", window=(-50, 120)
    ),
    "padded slices": SliceDescription(**SEGMENTING, size=(32, 16), fit="pad", slice_axis=1, spacing=(1.0, 1.5, 2.0)),
    "slices across the first axis": SliceDescription(**SEGMENTING, size=(18, 30), slice_axis=0, orientation="LAS"),
}


def write_volume(file: Path, kind: str) -> Path:
    generator = np.random.default_rng(GENERATOR_SEED)
    affine = np.array([[0, -1.3, 0.2, 4], [0.9, 0.1, 0, -7], [0.1, 0.2, 2.5, 30], [0, 0, 0, 1.0]])
    shape = (21, 26, 11)
    voxels = generator.normal(20, 60, shape)
    if kind == "constant":
        voxels[:] = 12.3
    if kind == "scaled integers":
        image = nibabel.Nifti1Image(voxels.astype(np.int16), affine)
        image.header.set_slope_inter(0.37, -5)
    elif kind == "fourth axis":
        image = nibabel.Nifti1Image(voxels.astype(np.float64)[..., None], affine)
    else:
        image = nibabel.Nifti1Image(voxels.astype(np.float32), affine)
    nibabel.save(image, file)
    return file


@pytest.mark.parametrize("kind", ["floats", "scaled integers", "fourth axis", "constant"])
@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_are_prepared_alike(name: str, kind: str, tmp_path: Path) -> None:
    description, file = VOLUMES[name], write_volume(tmp_path / "volume.nii.gz", kind)
    mask = tmp_path / "mask.nii.gz"
    source = nibabel.load(file)
    nibabel.save(nibabel.Nifti1Image(np.zeros(source.shape[:3], dtype=np.uint8), source.affine), mask)
    expected = build_preparation(description)(Case(file, mask)).tensors["image"]
    result = prepared_by_bundle(description, file)
    if isinstance(description, SliceDescription):
        result = torch.movedim(result, description.slice_axis + 1, 0)
    assert torch.equal(result if isinstance(description, SliceDescription) else result[None], expected)
    assert bool(expected.any()) == (kind != "constant" or getattr(description, "window", None) is not None)


@pytest.mark.parametrize(
    ("names", "description", "reason"),
    [
        ([], ImageDescription(**SEGMENTING, channels=1, size=(16, 16)), r"found no image in it; .* \.png, \.jpg"),
        (
            ["a.txt"],
            VolumeDescription(**SEGMENTING),
            r"found no image in it; .* \.nii, \.nii\.gz, \.nrrd, .*, or folders with a DICOM series\.",
        ),
        (["a.png", "a.JPG"], ImageDescription(**SEGMENTING, channels=1, size=(16, 16)), "differ in their ending alone"),
        (["a.nii", "a.nii.gz"], VolumeDescription(**SEGMENTING), "differ in their ending alone"),
    ],
)
def test_a_folder_that_cannot_be_segmented_ends_the_run(
    names: list[str], description: AnyDescription, reason: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).touch()
    parser = parser_for(description, tmp_path, (16, 16, 16))
    with pytest.raises(SystemExit, match=f"{tmp_path}: .*{reason}"):
        [parser.get_parsed_content(f"run::{number}") for number in range(3)]


def test_a_missing_folder_ends_the_run(tmp_path: Path) -> None:
    parser = parser_for(VOLUMES["whole"], tmp_path / "nowhere", (16, 16, 16))
    with pytest.raises(SystemExit, match="nowhere: found no such folder; name the folder of images with --dataset_dir"):
        parser.get_parsed_content("run::0")


def test_files_whose_masks_would_have_the_same_name_are_named(tmp_path: Path) -> None:
    for name in ("a.png", "a.JPG", "b.png"):
        (tmp_path / name).touch()
    parser = parser_for(ImageDescription(**SEGMENTING, channels=1, size=(16, 16)), tmp_path)
    with pytest.raises(SystemExit) as ended:
        [parser.get_parsed_content(f"run::{number}") for number in range(3)]
    assert sorted(str(ended.value).splitlines()[1:]) == [str(tmp_path / "a.JPG"), str(tmp_path / "a.png")]


@pytest.mark.parametrize("results", [".", "sub/.."])
def test_results_are_not_written_among_the_images(results: str, tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png", "L")
    (tmp_path / "sub").mkdir()
    parser = parser_for(ImageDescription(**SEGMENTING, channels=1, size=(37, 52)), tmp_path)
    parser["output_dir"] = str(tmp_path / results)
    parser.parse()
    with pytest.raises(SystemExit, match="found one folder for images and results; expected two"):
        [parser.get_parsed_content(f"run::{number}") for number in range(3)]


def test_names_of_bad_files_cannot_command_a_terminal(tmp_path: Path, capsys: Any) -> None:
    write_picture(tmp_path / "a.png", "L")
    (tmp_path / "b\x1b[2J.png").write_bytes(b"no image")
    (tmp_path / "c\x1b[2J.webp").touch()
    text = run_with_threshold(ImageDescription(**SEGMENTING, channels=1, size=(37, 52)), tmp_path)
    said = capsys.readouterr().err
    assert "\x1b" not in text + said
    assert all(r"b\x1b[2J.png" in part for part in (text, said))
    assert r"c\x1b[2J.webp: left out" in said


def test_names_with_full_stops_are_distinguished(tmp_path: Path) -> None:
    for name in ("scan.1.nii.gz", "scan.2.nii.gz", "scan.nii"):
        (tmp_path / name).touch()
    parser = parser_for(VOLUMES["whole"], tmp_path, (16, 16, 16))
    assert all(parser.get_parsed_content(f"run::{number}") for number in range(3))


def run_with_threshold(description: AnyDescription, folder: Path) -> str:
    """Run a bundle with a network that finds what is bright; returns what ends it."""
    parser = parser_for(description, folder)
    parser["output_dir"] = str(folder / "out")
    parser["network_def"] = "$lambda images: torch.cat([-images, images], dim=1)"
    parser.parse()
    with pytest.raises(SystemExit) as ended:
        parser.get_parsed_content("run")
    return str(ended.value)


def test_bad_volumes_are_named_and_the_others_are_segmented(tmp_path: Path, capsys: Any) -> None:
    description = VolumeDescription(**SEGMENTING)
    for name in ("a.nii.gz", "z.nii.gz"):
        write_volume(tmp_path / name, "floats")
    nibabel.save(nibabel.Nifti1Image(np.full((4, 4, 4), np.nan), np.eye(4)), tmp_path / "nan.nii.gz")
    (tmp_path / "cut.nii.gz").write_bytes((tmp_path / "a.nii.gz").read_bytes()[:3000])
    (tmp_path / "._a.nii.gz").write_bytes(b"of another system")
    text = run_with_threshold(description, tmp_path)
    assert "2 of 4 images were refused, 2 used." in text
    assert f"{tmp_path / 'nan.nii.gz'}: found 64 intensities that are not finite" in text
    assert f"{tmp_path / 'cut.nii.gz'}: cannot be read as a NIfTI volume" in text
    assert "._a.nii.gz: left out, it is a hidden file." in capsys.readouterr().err
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["a_seg.nii.gz", "z_seg.nii.gz"]
    result = nibabel.load(tmp_path / "out" / "a_seg.nii.gz")
    assert 0 < np.asarray(result.dataobj).mean() < 1


@pytest.mark.parametrize("task", ["segmentation", "classification"])
def test_bad_pictures_are_named_and_the_others_are_done(task: str, tmp_path: Path) -> None:
    for name in ("a", "z"):
        write_picture(tmp_path / f"{name}.png", "L")
    pixels = np.ones((37, 52), np.float32)
    pixels[0, 0] = np.inf
    Image.fromarray(pixels).save(tmp_path / "inf.tif")
    (tmp_path / "cut.png").write_bytes((tmp_path / "a.png").read_bytes()[:500])
    description: AnyDescription = ImageDescription(**SEGMENTING, channels=1, size=(37, 52))
    if task == "classification":
        description = ClassificationDescription(classes=("one", "two"), channels=1, size=(37, 52))
    text = run_with_threshold(description, tmp_path)
    assert "2 of 4 images were refused, 2 used." in text
    assert "cut.png" in text
    assert "inf.tif" in text
    if task == "segmentation":
        assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["a_seg.png", "z_seg.png"]


class _Uneven(torch.nn.Module):
    """Logits that depend on where a pixel is."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Two classes for each pixel."""
        ramp = torch.arange(images.shape[-1], device=images.device) * 0.1
        return torch.cat([images[:, :1] * ramp, self.bias - images[:, :1]], dim=1)


@pytest.mark.parametrize("last_alone", [False, True])
@pytest.mark.parametrize("kind", ["image", "slices", "volume", "classes"])
def test_mirrored_images_are_predicted_as_in_validation(kind: str, last_alone: bool, tmp_path: Path) -> None:
    size, window = (16, 20), (16, 16, 16) if kind == "volume" else None
    shape = (1, 16, 20) if kind in ("image", "classes") else (1, 16, 18, 20)
    descriptions: dict[str, AnyDescription] = {
        "image": ImageDescription(channels=1, size=size, **SEGMENTING),
        "classes": ClassificationDescription(channels=1, size=size, classes=("a", "b")),
        "slices": SliceDescription(size=(16, 20), slice_axis=1, spacing=None, **SEGMENTING),
        "volume": VolumeDescription(spacing=None, **SEGMENTING),
    }
    axes = (2 if kind == "volume" else 1,) if last_alone else None
    inference = Inference(4, window, mirroring=True, mirror_axes=axes)
    config = inference_config(descriptions[kind], inference)
    network: torch.nn.Module = _Uneven()
    if kind == "classes":
        network = torch.nn.Sequential(network, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    parser = ConfigParser(config | {"network_def": network, "device": "cpu", "bundle_root": str(tmp_path)})
    image = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        result = parser.get_parsed_content("predict")([{"image": MetaTensor(image)}])[0]
    if kind == "slices":
        of_slices = inference.logits(network, image.movedim(2, 0))
        assert torch.equal(result, of_slices.movedim(0, 2))
    else:
        assert torch.equal(result, inference.logits(network, image[None])[0])
    assert not torch.allclose(result, Inference(4, window).logits(network, image[None])[0].log_softmax(dim=0))
