"""A bundle on a folder of pictures: masks lie as viewers show the images, bad files are named, the others go on."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from monai.bundle import ConfigParser
from PIL import Image

from fedannot.apps.bundling.inference_config import inference_config
from fedannot.apps.bundling.reading_code import write_reading_code
from fedannot.custom.data.description import AnyDescription, ClassificationDescription, ImageDescription
from fedannot.custom.evaluation.inference import Inference

# Brighter in the upper left corner as a viewer shows it.
SHOWN = np.full((20, 30), 20, np.uint8)
SHOWN[2:8, 3:12] = 220


class Bright(torch.nn.Module):
    """Finds what is brighter than usual: in every pixel, or in the picture as a whole."""

    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = torch.cat([-images[:, :1] + 0.5, images[:, :1] - 0.5], dim=1)
        return logits.mean(dim=(2, 3)) if self.whole else logits


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.fromarray(SHOWN).save(folder / "plain.png")
    for tag, stored in ((3, SHOWN[::-1, ::-1]), (6, np.rot90(SHOWN))):
        exif = Image.Exif()
        exif[0x0112] = tag
        Image.fromarray(np.ascontiguousarray(stored)).save(folder / f"turned{tag}.jpg", exif=exif, quality=95)
    (folder / "cut.png").write_bytes((folder / "plain.png").read_bytes()[:70])
    (folder / "._plain.png").write_bytes(b"\0\5\x16\7 of another system")
    Image.fromarray(SHOWN).save(folder / "pages.tif", save_all=True, append_images=[Image.fromarray(SHOWN)])
    Image.fromarray(np.where(SHOWN > 100, np.nan, 1).astype(np.float32)).save(folder / "nan.tif")
    return folder


def run(description: AnyDescription, images: Path, bundle: Path) -> tuple[Path, str]:
    """What the bundle writes into its folder of results, and what it ends with."""
    write_reading_code(bundle)
    (bundle / "models").mkdir()
    network = Bright(isinstance(description, ClassificationDescription))
    torch.jit.save(torch.jit.script(network), bundle / "models" / "model.ts")  # type: ignore[no-untyped-call]
    places = {"dataset_dir": str(images), "output_dir": str(bundle / "out"), "bundle_root": str(bundle)}
    parser = ConfigParser(inference_config(description, Inference(2, None)) | places)
    parser.parse()
    with pytest.raises(SystemExit) as ended:
        parser.get_parsed_content("run")
    return bundle / "out", str(ended.value.code)


REFUSED = (
    "cut.png: cannot be read",
    "pages.tif: found 2 pictures",
    "nan.tif: found 54 intensities that are not finite",
)


def test_masks_lie_as_viewers_show_the_images(images: Path, tmp_path: Path) -> None:
    description = ImageDescription(channels=1, size=(20, 30), classes=("a",), labels={0: 0, 1: 1})
    results, ended = run(description, images, tmp_path / "bundle")
    assert all(reason in ended for reason in REFUSED)
    assert "3 of 6 images were refused, 3 used." in ended
    assert sorted(file.name for file in results.iterdir()) == [
        "plain_seg.png",
        "turned3_seg.png",
        "turned6_seg.png",
    ]
    for file in results.iterdir():
        assert np.array_equal(np.asarray(Image.open(file)) > 0, SHOWN > 100), file.name


def test_classes_of_usable_pictures_are_valid_json(images: Path, tmp_path: Path) -> None:
    description = ClassificationDescription(channels=3, size=(20, 30), classes=("dark", "bright"))
    results, ended = run(description, images, tmp_path / "bundle")
    assert all(reason in ended for reason in REFUSED)
    text = (results / "predictions.json").read_text(encoding="utf-8")
    written = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert sorted(written) == ["plain.png", "turned3.jpg", "turned6.jpg"]
    assert all(abs(sum(row.values()) - 1) < 1e-9 for row in written.values())
