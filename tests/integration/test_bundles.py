"""Bundles of small runs, run by MONAI without fedannot: the evaluation's masks, back in the files' geometry."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from conftest import JOBS
from PIL import Image
from plain_records import simulate

from fedannot.apps.bundling.export import export_bundle
from fedannot.apps.bundling.source import BundleSource, read_source
from fedannot.apps.runs.in_process import RunError
from fedannot.custom.data.datalist import Case, write_datalist
from fedannot.custom.data.description import (
    AnyDescription,
    ImageDescription,
    SegmentationDescription,
    SliceDescription,
    VolumeDescription,
    read_site_description,
    write_site_description,
)
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.data.preparation import build_restoration
from fedannot.custom.data.site_data import LoadedCase, load_site_data
from fedannot.custom.evaluation.inference import Inference, evaluating
from fedannot.custom.methods.decoupled.adaptation import LocalModel
from fedannot.custom.networks.devices import ready_to_compute

SMALL = {"rounds": 1, "network.features": [4, 4, 8, 8, 8, 4], "training.learning_rate": 0.01}
CLASSES, LABELS = ("organ", "lesion"), {0: 0, 1: 1, 2: 2}
WHOLE = VolumeDescription(classes=CLASSES, labels=LABELS, orientation="LPS", spacing=(1.5, 2.0, 2.5), crop="foreground")
SLICED = SliceDescription(
    classes=("organ",), labels={0: 0, 1: 1, 2: 1}, orientation="ASL", crop="foreground", size=(32, 48), slice_axis=1
)
# Axes of the volumes: steps in millimetres, angles of the rotation about each axis, order of the axes, mirrored ones.
GEOMETRIES = {
    "upright": ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (0, 1, 2), (1, 1, 1)),
    "anisotropic": ((0.8, 1.2, 4.0), (0.0, 0.0, 0.0), (0, 1, 2), (-1, 1, -1)),
    "rotated": ((1.3, 1.0, 2.2), (0.3, -0.2, 0.25), (2, 0, 1), (1, -1, 1)),
    "oblique": ((1.1, 0.9, 3.0), (np.pi / 4, 0.0, 0.0), (1, 2, 0), (-1, -1, 1)),
}
SIZES = {"upright": (36, 34, 20), "anisotropic": (40, 36, 12), "rotated": (22, 38, 34), "oblique": (30, 20, 36)}


@dataclass(frozen=True)
class Exported:
    """A bundle with what it was run on."""

    source: BundleSource
    folder: Path
    cases: tuple[LoadedCase, ...]
    results: Path

    def seen(self) -> dict[str, dict[str, torch.Tensor]]:
        loaded: dict[str, dict[str, torch.Tensor]] = torch.load(self.results / "seen.pt", weights_only=True)
        return loaded

    def evaluated(self) -> Iterator[tuple[LoadedCase, torch.Tensor]]:
        """The evaluation's masks at the resolution of the network.

        Of one volume at a time: an evaluation of many fills a batch with slices of the next volume, and the number of
        slices in a batch decides bits.
        """
        network, inference = ready_to_compute(self.source.network), Inference.of(self.source.settings)
        groups = [[case] for case in self.cases] if self.cases[0].spacing else [list(self.cases)]
        for cases in groups:
            yield from zip(cases, inference.predictions(network, cases), strict=True)


def affine_of(name: str) -> np.ndarray:
    steps, (a, b, c), order, mirrored = GEOMETRIES[name]
    about_z = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    about_y = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    about_x = np.array([[1, 0, 0], [0, np.cos(c), -np.sin(c)], [0, np.sin(c), np.cos(c)]])
    affine = np.eye(4)
    affine[:3, :3] = about_z @ about_y @ about_x @ (np.eye(3)[:, order] * mirrored) @ np.diag(steps)
    affine[:3, 3] = (-31.5, 12.25, 100.0)
    return affine


def write_volumes(folder: Path, section: str, description: AnyDescription) -> None:
    """An organ brighter than its surroundings with a brighter lesion, in volumes of every geometry."""
    (folder / "images").mkdir(parents=True)
    cases, generator = [], np.random.default_rng(3)
    for name, shape in SIZES.items():
        axes = np.meshgrid(*(np.linspace(-1, 1, length) for length in shape), indexing="ij")
        distance = np.sqrt(sum((axis - 0.15) ** 2 for axis in axes))
        mask = (distance < 0.65).astype(np.uint8) + (distance < 0.3)
        image = (100.0 * mask + generator.normal(0, 10, shape)).astype(np.float32)
        case = Case(folder / "images" / f"{name}.nii.gz", folder / f"{name}_label.nii.gz", group=name)
        for file, voxels in ((case.image, image), (case.label, mask)):
            nibabel.save(nibabel.Nifti1Image(voxels, affine_of(name)), file)
        cases.append(case)
    write_datalist(folder / description.datalist, {section: cases})
    write_site_description(folder, description)


def find_something(source: BundleSource, cases: Sequence[LoadedCase]) -> None:
    """Move the last bias so that a model of a few steps, which may find nothing, finds every class in some places."""
    if source.settings.task == "classification":
        return
    *_, bias = (
        value for name, value in source.network.named_parameters() if "posterior" not in name and "adapt" not in name
    )
    inference = Inference.of(source.settings)
    batches = [batch.images for batch in inference.batches(cases)]
    with evaluating(source.network), torch.no_grad():
        if isinstance(source.network, LocalModel):
            # A long warm-up brings W near the identity.
            source.network.adaptation.layers[-1].bias += 4 * torch.eye(2).flatten()
        for _ in range(3):
            logits = [inference.logits(source.network, images).movedim(1, -1).flatten(0, -2) for images in batches]
            bias -= torch.cat(logits).median(dim=0).values


def fitted(source: BundleSource, data: Path, folder: Path, fit: str, like: BundleSource) -> BundleSource:
    """The model of a run for data that are brought to their size in another way, which are written."""
    changes = {"fit": fit}
    if isinstance(like.description, VolumeDescription):
        changes |= {"crop": "centre", "size": (36, 32, 18)}
    description = like.description.model_copy(update=changes)
    shutil.copytree(data, folder)
    write_site_description(folder, description)
    return replace(source, description=description)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exported]:
    """Bundles of five runs, some with images fitted in another way, all run by one process without fedannot."""
    folder = tmp_path_factory.mktemp("bundles")
    sources, data, sections = {}, {}, {}

    pictures = folder / "pictures"
    embedded = {"embedded.sites": 2, "embedded.images_per_site": 6, "embedded.test_images": 5}
    simulate(JOBS / "fedavg", pictures, overrides=SMALL | embedded | {"training.batch_size": 4})
    # Rows and columns that are not the pictures' own.
    data["pictures"] = pictures / "data" / "test"
    resized = read_site_description(data["pictures"]).model_copy(update={"size": (48, 80)})
    write_site_description(data["pictures"], resized)
    sources["pictures"] = replace(read_source(pictures), description=resized)

    chambers = folder / "chambers"
    decoupled = SMALL | {"rounds": 2, "training.batch_size": 16, "training.local_epochs": 2, "warmup_rounds": 1}
    decoupled |= {"network.latent": 3, "network.encoder_features": [4, 8]}
    decoupled |= {"embedded.sites": 2, "embedded.protocols": "0-C(20,8)", "embedded.images_per_site": 1}
    simulate(JOBS / "decoupled_server", chambers, overrides=decoupled | {"embedded.test_images": 1})
    for name, site in (("global", None), ("personal", "site-2")):
        sources[name], data[name] = read_source(chambers, site=site), chambers / "data" / "site-2"
        sections[name] = "validation"

    write_volumes(folder / "sliced", "testing", SLICED)
    sources["sliced"], data["sliced"] = replace(read_source(chambers), description=SLICED), folder / "sliced"

    federation = folder / "volumes"
    for name, section in (("site-1", "training"), ("test", "testing")):
        write_volumes(federation / name, section, WHOLE)
    write_federation(federation, FederationDescription(name="blobs", sites=("site-1",)))
    whole = SMALL | {"training.patch": [32, 32, 16], "training.batch_size": 3, "training.loss": "ce_dice"}
    simulate(JOBS / "fedavg", folder / "whole", data=federation, overrides=whole)
    sources["whole"], data["whole"] = read_source(folder / "whole"), federation / "test"

    cells = {"network.depth": 10, "network.widths": [4, 8, 8, 8], "rounds": 1, "training.batch_size": 8}
    embedded = {"embedded.sites": 2, "embedded.images_per_site": 16, "embedded.test_images": 70}
    embedded |= {"embedded.label_noise": "0"}
    simulate(JOBS / "fedavg_classification", folder / "cells", overrides=cells | embedded)
    sources["cells"], data["cells"] = read_source(folder / "cells"), folder / "cells" / "data" / "test"

    runs = {"pictures": pictures, "sliced": chambers, "whole": folder / "whole"}
    for name, fit in (("pictures", "pad"), ("sliced", "resize"), ("sliced", "pad"), ("whole", "resize")):
        other = f"{name}, {fit}"
        data[other] = folder / other
        sources[other] = fitted(read_source(runs[name]), data[name], data[other], fit, sources[name])

    exported, arguments = {}, []
    for name, source in sources.items():
        section = sections.get(name, "testing")
        cases = load_site_data(data[name], folder / "cache" / name, section=section, site=name).cases
        bundle, images, results = (folder / "exported" / name / part for part in ("bundle", "images", "results"))
        images.mkdir(parents=True)
        for case in cases:
            assert case.files is not None
            (images / case.name).symlink_to(case.files.image)
        find_something(source, cases)
        export_bundle(source, bundle)
        exported[name] = Exported(source, bundle, tuple(sorted(cases, key=lambda case: case.name)), results)
        arguments.append([str(path) for path in (bundle, images, results)])
    command = [sys.executable, "-I", str(Path(__file__).with_name("run_bundles.py")), json.dumps(arguments)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert finished.stdout.splitlines()[-1] == "ran without fedannot"
    return exported


FITTED = ("pictures, pad", "sliced, resize", "sliced, pad", "whole, resize")
SEGMENTING = ("pictures", "global", "personal", "sliced", "whole", *FITTED)


def slices_first(exported: Exported, tensor: torch.Tensor) -> torch.Tensor:
    """``(C, H, W[, D])`` of a bundle as samples ``(S, C, H, W[, D])``."""
    description = exported.source.description
    if isinstance(description, SliceDescription):
        return torch.movedim(tensor, description.slice_axis + 1, 0)
    return tensor[None]


@pytest.mark.parametrize("name", [*SEGMENTING, "cells"])
def test_images_reach_the_network_with_the_same_bits(bundles: dict[str, Exported], name: str) -> None:
    exported = bundles[name]
    seen = exported.seen()
    assert len(seen) == len(exported.cases) >= 4 or name in ("global", "personal")
    for case in exported.cases:
        image = slices_first(exported, seen[case.name]["image"])
        assert image.dtype == torch.float32
        assert torch.equal(image, case.image), case.name


@pytest.mark.parametrize("name", SEGMENTING)
def test_masks_are_those_of_the_evaluation(bundles: dict[str, Exported], name: str) -> None:
    """At the resolution of the network, bit for bit, with the same size of batches and number of threads."""
    exported = bundles[name]
    seen = exported.seen()
    classes = set()
    for case, expected in exported.evaluated():
        result = slices_first(exported, seen[case.name]["logits"]).argmax(dim=1).to(torch.uint8)
        assert torch.equal(result, expected), case.name
        classes |= set(expected.unique().tolist())
    wanted = set(range(len(exported.source.description.classes) + 1))
    assert classes == wanted, "a mask without a class would equal many others"


@pytest.mark.parametrize("name", SEGMENTING)
def test_written_masks_lie_in_their_images_files(bundles: dict[str, Exported], name: str) -> None:
    exported = bundles[name]
    description = exported.source.description
    assert isinstance(description, SegmentationDescription)
    restore = build_restoration(description)
    for case, prediction in exported.evaluated():
        assert case.files is not None
        assert isinstance(case.files.label, Path)
        expected = restore(case.files.image, case.files.label, prediction)
        if isinstance(description, ImageDescription):
            with Image.open(exported.results / f"{Path(case.name).stem}_seg.png") as picture:
                assert (picture.mode, picture.size) == ("L", Image.open(case.files.image).size)
                assert np.array_equal(np.asarray(picture), expected), case.name
            continue
        source, written = (
            nibabel.load(file)
            for file in (case.files.image, exported.results / case.name.replace(".nii.gz", "_seg.nii.gz"))
        )
        assert written.shape == source.shape
        assert written.get_data_dtype() == np.uint8
        assert np.array_equal(written.affine, source.affine), case.name
        assert np.array_equal(np.asarray(written.dataobj), expected), case.name


@pytest.mark.parametrize("name", SEGMENTING)
def test_the_largest_probability_that_is_written_is_that_of_the_label(bundles: dict[str, Exported], name: str) -> None:
    exported = bundles[name]
    classes = range(len(exported.source.description.classes) + 1)
    for case in exported.cases:
        if isinstance(exported.source.description, ImageDescription):
            base = exported.results / Path(case.name).stem
            mask = np.asarray(Image.open(f"{base}_seg.png"))
            written = [np.asarray(Image.open(f"{base}_prob_{label}.tif")) for label in classes]
        else:
            base = exported.results / case.name.removesuffix(".nii.gz")
            source = nibabel.load(f"{base}_seg.nii.gz")
            files = [nibabel.load(f"{base}_prob_{label}.nii.gz") for label in classes]
            assert all(np.array_equal(file.affine, source.affine) for file in files)
            mask, written = np.asarray(source.dataobj), [np.asarray(file.dataobj) for file in files]
        probabilities = np.stack(written)
        assert (probabilities.dtype, len(probabilities)) == (np.float32, len(exported.source.description.classes) + 1)
        np.testing.assert_array_equal(probabilities.argmax(axis=0), mask)
        np.testing.assert_allclose(probabilities.sum(axis=0), 1, atol=1e-6)


def test_the_personal_model_is_another_than_the_global(bundles: dict[str, Exported]) -> None:
    one, other = (bundles[name].seen() for name in ("global", "personal"))
    assert all(not torch.equal(one[name]["logits"].softmax(0), other[name]["logits"].softmax(0)) for name in one)


def test_classes_are_written_with_the_probabilities_of_the_evaluation(bundles: dict[str, Exported]) -> None:
    exported = bundles["cells"]
    written = json.loads((exported.results / "predictions.json").read_text(encoding="utf-8"))
    classes = exported.source.description.classes
    expected = Inference.of(exported.source.settings).class_probabilities(
        ready_to_compute(exported.source.network), exported.cases
    )
    assert list(written) == [case.name for case in exported.cases]
    assert [list(row) for row in written.values()] == [list(classes)] * len(exported.cases)
    assert torch.equal(torch.tensor([list(row.values()) for row in written.values()], dtype=torch.float64), expected)


def test_weights_are_those_of_the_run(bundles: dict[str, Exported]) -> None:
    for exported in bundles.values():
        weights = torch.load(exported.folder / "models" / "model.pt", weights_only=True)
        expected = exported.source.network.state_dict()
        assert set(weights) == set(expected)
        assert all(torch.equal(weights[name], expected[name]) for name in expected)


@pytest.mark.parametrize("part", ["", "models/model.pt"], ids=["folder", "file"])
def test_a_run_begins_with_the_weights_of_a_bundle(bundles: dict[str, Exported], part: str, tmp_path: Path) -> None:
    """With steps too small for single precision the weights stay what they were; only statistics of batches move."""
    start = bundles["pictures"].folder / part
    settings = SMALL | {"embedded.sites": 2, "embedded.images_per_site": 2, "embedded.test_images": 1}
    settings |= {"training.learning_rate": 1e-30, "start_model": str(start)}
    simulate(JOBS / "fedavg", tmp_path / "out", overrides=settings)
    result = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"]
    expected = dict(bundles["pictures"].source.network.named_parameters())
    # The mean over sites is computed in fixed point.
    assert all(torch.allclose(result[name], tensor, rtol=0, atol=1e-7) for name, tensor in expected.items())


def test_a_start_model_that_does_not_fit_ends_the_run(bundles: dict[str, Exported], tmp_path: Path) -> None:
    settings = SMALL | {"embedded.sites": 1, "embedded.images_per_site": 2, "embedded.test_images": 1}
    with pytest.raises(RunError, match=r"models/model\.pt: does not fit the network; missing \["):
        simulate(JOBS / "fedavg", tmp_path / "out", overrides=settings | {"start_model": str(bundles["cells"].folder)})
