"""The same job on whole volumes of differing sizes, and on their slices, with two classes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from plain_records import simulate

from fedannot.apps.reports.corrections import find_corrections
from fedannot.custom.corrections.kinds import PixelsReplaced
from fedannot.custom.data.datalist import Case, write_datalist
from fedannot.custom.data.description import SliceDescription, VolumeDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, write_federation

SITES = ("site-1", "site-2", "site-3")
SPACING = (1.0, 1.5, 3.0)
CLASSES = ("organ", "lesion")
LABELS = {0: 0, 1: 1, 2: 2}
# The last one is smaller than the patch.
SIZES = ((34, 30, 16), (36, 40, 14), (30, 34, 12))
PATCH = [32, 32, 16]
DESCRIPTIONS = {
    "volume": VolumeDescription(classes=CLASSES, labels=LABELS),
    "slices": SliceDescription(classes=CLASSES, labels=LABELS, size=(32, 32)),
}
SETTINGS = {
    "volume": {"network.spatial_dims": 3, "training.patch": PATCH},
    "slices": {},
}


def blobs(generator: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """An organ that is brighter than its surroundings, with a lesion in it that is brighter still, and their mask."""
    axes = np.meshgrid(*(np.linspace(-1, 1, length) for length in shape), indexing="ij")
    centre = generator.uniform(-0.2, 0.2, 3)
    distance = np.sqrt(sum((axis - middle) ** 2 for axis, middle in zip(axes, centre, strict=True)))
    mask = (distance < 0.65).astype(np.uint8) + (distance < 0.3)
    return 100.0 * mask + generator.normal(0, 10, shape), mask.astype(np.uint8)


def write_volumes(
    folder: Path, section: str, description: Any, generator: np.random.Generator, sizes: Any = SIZES
) -> None:
    folder.mkdir(parents=True)
    cases = []
    for number, size in enumerate(sizes):
        image, mask = blobs(generator, size)
        case = Case(folder / f"image_{number}.nii.gz", folder / f"label_{number}.nii.gz", group=f"patient-{number}")
        for file, voxels in ((case.image, image.astype(np.float32)), (case.label, mask)):
            nibabel.save(nibabel.Nifti1Image(voxels, np.diag([*SPACING, 1.0])), file)
        cases.append(case)
    write_datalist(folder / description.datalist, {section: cases})
    write_site_description(folder, description)


@pytest.fixture(params=DESCRIPTIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def federation(tmp_path: Path, kind: str) -> Path:
    folder = tmp_path / "federation"
    generator = np.random.default_rng(5)
    for site in SITES:
        write_volumes(folder / site, "training", DESCRIPTIONS[kind], generator)
    write_volumes(folder / "test", "testing", DESCRIPTIONS[kind], generator)
    write_federation(folder, FederationDescription(name="blobs", sites=SITES))
    return folder


def run(job: Path, out: Path, federation: Path, kind: str) -> dict[str, Any]:
    changes = {"network.num_classes": 2, "training.learning_rate": 0.01, "training.loss": "ce_dice"}
    return simulate(job, out, data=federation, overrides=changes | SETTINGS[kind])


def read_model(out: Path) -> dict[str, torch.Tensor]:
    model: dict[str, torch.Tensor] = torch.load(out / "model.pt", weights_only=True)["model"]
    return model


def test_feda3i_learns_two_classes_from_volumes(
    federation: Path, kind: str, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = small_job("fedaaai", rounds=2)
    summary = run(job, out, federation, kind)
    samples = len(SIZES) if kind == "volume" else sum(size[2] for size in SIZES)
    assert not summary["refusals"]
    assert [report["num_samples"] for report in summary["sites"].values()] == [samples] * 3
    assert all(np.isfinite(report["train_loss"]) for report in summary["sites"].values())

    for record in map(json.loads, (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()):
        assert record["num_cases"] == len(SIZES), "a volume is one case, whole or cut into slices"
        assert len(record["dice_per_class"]) == 2
        assert np.isfinite(record["dice_per_class"]).all()
    for predicted in summary["estimate"]["sites"].values():
        assert len(predicted["inner"]) == len(predicted["outer"]) == 2
        assert np.isfinite(predicted["inner"] + predicted["outer"]).all()

    model = read_model(out)
    assert model["conv_0.conv_0.conv.weight"].shape == (4, 1, *[3] * (3 if kind == "volume" else 2))
    assert model["final_conv.weight"].shape[0] == 3
    if kind == "volume":
        again = run(job, tmp_path / "again", federation, kind)
        assert again["estimate"] == summary["estimate"]
        same_bits = [torch.equal(model[name], tensor) for name, tensor in read_model(tmp_path / "again").items()]
        assert all(same_bits)


def test_adele_corrects_whole_volumes(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """As soon as the IoU has risen, any curve through a few numbers asks for a correction, which is trained on."""
    folder = tmp_path / "federation"
    description, generator = VolumeDescription(classes=("organ",), labels={0: 0, 1: 1, 2: 1}), np.random.default_rng(5)
    for part, section in (("site-1", "training"), ("test", "testing")):
        write_volumes(folder / part, section, description, generator, sizes=[(32, 32, 16)] * 3)
    write_federation(folder, FederationDescription(name="blobs", sites=SITES[:1]))
    masks = {file: file.read_bytes() for file in folder.glob("site-1/label_*")}
    settings = {"rounds": 3, "scales": [1], "consistency_weight": 0.0, "slope_change": 1e-6}
    settings |= {"correction_threshold": 0.5, "background_threshold": 0.5, "training.batch_size": 1}
    settings |= {"training.local_epochs": 4, "training.learning_rate": 0.02, "training.patches_per_volume": 1}
    settings |= {"network.features": [2, 2, 4, 4, 4, 2]}
    job = small_job("adele", **settings)
    simulate(job, tmp_path / "out", data=folder, overrides={"network.spatial_dims": 3, "training.patch": [32, 32, 16]})
    assert {file: file.read_bytes() for file in masks} == masks
    (stored,) = find_corrections(tmp_path / "out")
    replaced = stored.corrections.of(PixelsReplaced)
    assert replaced is not None
    assert list(replaced.rounds) == [1]
    assert stored.corrections.replaced_file
    lines = (tmp_path / "out" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    reports = [line["sites"]["site-1"] for line in map(json.loads, lines)]
    corrected = replaced.rounds[1]
    assert [report["has_corrected"] for report in reports] == [number >= corrected for number in range(1, 4)]
