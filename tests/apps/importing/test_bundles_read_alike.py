"""A bundle reads DICOM, NRRD, MHA and X-rays as an import does, and writes its results where the images lie."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import SimpleITK
import torch
from dicom_files import AFFINE, SHAPE, X_RAY, write, write_frames, write_slices
from monai.bundle import ConfigParser
from PIL import Image

from fedannot.apps.bundling.inference_config import inference_config
from fedannot.apps.bundling.reading_code import write_reading_code
from fedannot.apps.importing.dicom_pictures import as_picture
from fedannot.apps.importing.volumes import as_nifti
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

STORED = np.random.default_rng(4).integers(0, 3000, SHAPE).astype(np.int16)
SLOPES, INTERCEPTS = (1.0, 0.5, 2.0, 0.25), (-5.0, 0.0, 7.0, -100.0)
TRUE = STORED * np.reshape(SLOPES, (-1, 1, 1)) + np.reshape(INTERCEPTS, (-1, 1, 1))
CLASSES: dict[str, Any] = {"classes": ("lesion",), "labels": {0: 0, 1: 1}}
VOLUMES = {
    "as they are": VolumeDescription(**CLASSES),
    "resampled": VolumeDescription(**CLASSES, orientation="PIR", spacing=(0.8, 1.1, 2.0), size=(6, 8, 4)),
    "slices": SliceDescription(**CLASSES, size=(7, 4), crop="foreground"),
}


def write_any(folder: Path, kind: str) -> Path:
    """The same voxels at the same place in one format."""
    if kind == "series":
        return write_slices(folder / "patient 1" / "study" / "CT.1", STORED, SLOPES, INTERCEPTS)
    if kind == "frames":
        return write_frames(folder / "patient 2" / "enhanced.dcm", STORED, SLOPES, INTERCEPTS, order=(2, 0, 3, 1))
    image = SimpleITK.GetImageFromArray(TRUE)
    image.SetSpacing(np.abs(np.diag(AFFINE)[:3]).tolist())
    image.SetOrigin((AFFINE[:3, 3] * (-1, -1, 1)).tolist())
    file = folder / f"volume.{kind}"
    SimpleITK.WriteImage(image, str(file))
    return file


def parser_for(description: AnyDescription, images: Path, **changes: Any) -> ConfigParser:
    """A bundle's configuration, whose network finds what is brighter than the mean."""
    bundle = images.with_name(f"{images.name} bundle")
    write_reading_code(bundle)
    network = "$lambda images: torch.cat([-images[:, :1], images[:, :1]], dim=1)"
    places = {"dataset_dir": str(images), "output_dir": str(bundle / "results"), "bundle_root": str(bundle)}
    parser = ConfigParser(inference_config(description, Inference(2, None)) | places | {"network_def": network})
    for key, value in changes.items():
        parser[key] = value
    parser.parse()
    return parser


def ended(parser: ConfigParser) -> str:
    with pytest.raises(SystemExit) as error:
        parser.get_parsed_content("run")
    return str(error.value.code)


def corners(image: SimpleITK.Image) -> np.ndarray:
    last = [length - 1 for length in image.GetSize()]
    places = [(0, 0, 0), tuple(last), (last[0], 0, 0), (0, last[1], 0), (0, 0, last[2])]
    return np.array([image.TransformIndexToPhysicalPoint(place) for place in places])


def upright(image: Any) -> np.ndarray:
    """The voxels in their order, at their place; frames of one file may be counted from either end."""
    backwards = image.affine[2, 2] < 0
    flip = np.eye(4)
    if backwards:
        flip[2, 2:] = -1, SHAPE[0] - 1
    np.testing.assert_allclose(image.affine @ flip, AFFINE, atol=1e-5)
    voxels = np.asarray(image.dataobj)
    return voxels[..., ::-1] if backwards else voxels


@pytest.mark.parametrize("name", VOLUMES)
@pytest.mark.parametrize("kind", ["series", "frames", "nrrd", "mha"])
def test_volumes_reach_the_network_as_after_an_import(kind: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip("highdicom")
    description, source = VOLUMES[name], write_any(tmp_path / "images", kind) if kind in ("series", "frames") else None
    (tmp_path / "images").mkdir(exist_ok=True)
    source = source or write_any(tmp_path / "images", kind)
    imported = as_nifti(source, tmp_path / "imported.nii.gz")
    nibabel.save(nibabel.Nifti1Image(np.zeros(SHAPE[::-1], np.uint8), AFFINE), tmp_path / "mask.nii.gz")
    expected = build_preparation(description)(Case(imported, tmp_path / "mask.nii.gz")).tensors["image"]
    preprocessing = parser_for(description, tmp_path / "images").get_parsed_content("preprocessing")
    seen = preprocessing({"image": str(source)})["image"].as_tensor()
    slices = isinstance(description, SliceDescription)
    assert torch.equal(torch.movedim(seen, description.slice_axis + 1, 0) if slices else seen[None], expected)
    assert expected.std() > 0.1


def test_a_folder_of_every_format_is_segmented_in_place(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("highdicom")
    images = tmp_path / "images"
    images.mkdir()
    sources = {kind: write_any(images, kind) for kind in ("series", "frames", "nrrd")}
    write_any(images / "patient 1", "mha")
    (images / "damaged.dcm").write_bytes(b"not DICOM")
    gap = write_slices(images / "gap", STORED, SLOPES, INTERCEPTS)
    (gap / "1.dcm").unlink()
    (images / "scan.webp").touch()
    (images / "photo.png").touch()
    (images / "readme.txt").touch()
    parser = parser_for(VOLUMES["as they are"], images, write_probabilities=True, output_dir=str(images / "out"))
    text = ended(parser)
    assert "2 of 6 images were refused, 4 used." in text
    assert f"{images / 'damaged.dcm'}: " in text
    assert f"{images / 'gap'}: found 5 mm between the slices 1 and 2" in text
    said = capsys.readouterr().err
    for name, reason in {
        "scan.webp": "an image format that is not read",
        "photo.png": "a picture, not a volume",
    }.items():
        assert f"{images / name}: left out, it is {reason}." in said
    names = ("patient 1/study/CT.1", "patient 2", "volume", "patient 1/volume")
    ends = ("seg", "prob_0", "prob_1")
    out = images / "out"
    written = {file.relative_to(out).as_posix() for file in out.rglob("*.*") if file.is_file()}
    assert written == {f"{name}_{end}.nii.gz" for name in names for end in ends}
    expected = (TRUE.mean() < TRUE).transpose(2, 1, 0)
    for name in names:
        mask, *probabilities = (upright(nibabel.load(out / f"{name}_{end}.nii.gz")) for end in ends)
        np.testing.assert_array_equal(mask, expected, err_msg=name)
        np.testing.assert_array_equal(np.stack(probabilities).argmax(axis=0), expected, err_msg=name)
    series = SimpleITK.ReadImage([str(sources["series"] / f"{index}.dcm") for index in range(SHAPE[0])])
    for source, name in ((series, names[0]), (SimpleITK.ReadImage(str(sources["nrrd"])), names[2])):
        written_mask = SimpleITK.ReadImage(str(out / f"{name}_seg.nii.gz"))
        np.testing.assert_allclose(corners(written_mask), corners(source), atol=1e-4)
    # What was written below the images is no image of a second run.
    assert ended(parser_for(VOLUMES["as they are"], images, output_dir=str(out))) == text


@pytest.mark.parametrize(
    ("stored", "values"),
    [
        (STORED[0].astype(np.uint16), {}),
        (STORED[0].astype(np.uint16), {"PhotometricInterpretation": "MONOCHROME1"}),
        (STORED[0].astype(np.uint16), {"RescaleSlope": 0.5, "RescaleIntercept": -3, "RescaleType": "US"}),
        (np.random.default_rng(2).integers(0, 256, (6, 9, 3), dtype=np.uint8), {"PhotometricInterpretation": "RGB"}),
    ],
    ids=["grey", "white is 0", "with a slope", "colours"],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_x_rays_reach_the_network_as_after_an_import(
    stored: np.ndarray, values: dict[str, Any], channels: int, tmp_path: Path
) -> None:
    if stored.ndim == 3:
        values = {**values, "PlanarConfiguration": 0}
    source = write(tmp_path / "images" / "x.dcm", stored, X_RAY, "1.2.3.5.1", **values)
    description = ClassificationDescription(classes=("one", "two"), channels=channels, size=(12, 8))
    imported = as_picture(source, tmp_path / "imported")
    assert imported != source
    expected = build_preparation(description)(Case(imported, 0)).tensors["image"][0]
    preprocessing = parser_for(description, source.parent).get_parsed_content("preprocessing")
    seen = preprocessing({"image": str(source)})["image"].as_tensor()
    assert torch.equal(seen, expected)
    assert expected.std() > 0.1


@pytest.mark.parametrize("fit", ["resize", "pad"])
def test_x_rays_and_photos_are_segmented_below_their_folders(fit: str, tmp_path: Path) -> None:
    pixels = np.full((20, 30), 200, np.uint16)
    pixels[4:12, 6:18] = 3000
    images = tmp_path / "images"
    write(images / "ward.1" / "x.dcm", pixels, X_RAY, "1.2.3.5.1")
    write(images / "stack.dcm", np.stack([pixels, pixels]), X_RAY, "1.2.3.6.1", NumberOfFrames=2)
    Image.fromarray((pixels // 16).astype(np.uint8)).convert("RGB").save(images / "photo.png")
    (images / "cut.png").write_bytes(b"\x89PNG")
    description = ImageDescription(**CLASSES, channels=1, size=(20, 40), fit=fit)
    parser = parser_for(description, images, write_probabilities=True)
    text = ended(parser)
    assert "1 of 3 images were refused, 2 used." in text
    assert f"{images / 'cut.png'}: cannot be read" in text
    out = Path(parser["output_dir"])
    ends = ("seg.png", "prob_0.tif", "prob_1.tif")
    names = ("photo", "ward.1/x")
    written = sorted(file.relative_to(out).as_posix() for file in out.rglob("*.*") if file.is_file())
    assert written == sorted(f"{name}_{end}" for name in names for end in ends)
    for name in names:
        mask, background, lesion = (np.asarray(Image.open(out / f"{name}_{end}")) for end in ends)
        assert (mask.dtype, lesion.dtype) == (np.uint8, np.float32)
        # Bilinear resizing decides pixels at the edge.
        np.testing.assert_array_equal(mask[5:11, 7:17], 1)
        assert mask.shape == pixels.shape
        assert mask.sum() <= 10 * 14
        np.testing.assert_array_equal(np.stack([background, lesion]).argmax(axis=0), mask)
        np.testing.assert_allclose(background + lesion, 1, atol=1e-6)
