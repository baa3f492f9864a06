"""Two sites in a run: one does not annotate a class, the other has ignored pixels."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import JOBS
from PIL import Image
from plain_records import simulate

from fedannot.apps.runs.job import Job
from fedannot.custom.compatibility import AnnotationGapError
from fedannot.custom.networks.described import described_network

SIDE = 32
DESCRIPTION = f"pipeline: image2d\nchannels: 1\nsize: [{SIDE}, {SIDE}]\nclasses: [bright, dark]\n"
ALL = "labels: {0: 0, 1: 1, 2: 2}\n"
SMALL = {
    "rounds": 1,
    "seed": 1,
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.num_classes": 2,
    "training.local_epochs": 1,
    "training.batch_size": 4,
    "training.loss": "ce",
}
IGNORED_VALUE, IGNORED_COLUMNS = 200, 8


def write_site(folder: Path, seed: int, description: str, drawn: Callable[[np.ndarray], np.ndarray]) -> None:
    """Four cases to train on and three to validate on: a bright and a dark square each, as a site draws them."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    lists: dict[str, list[dict[str, str]]] = {"training": [], "validation": []}
    for number in range(7):
        pixels, mask = generator.normal(128, 8, (SIDE, SIDE)), np.zeros((SIDE, SIDE), np.uint8)
        for label, brightness, top in ((1, 80, 4), (2, -80, 18)):
            left = int(generator.integers(8, 18))
            mask[top : top + 10, left : left + 12] = label
            pixels[mask == label] += brightness
        for name, array in (("image", pixels.clip(0, 255).astype(np.uint8)), ("mask", drawn(mask))):
            Image.fromarray(array).save(folder / f"{name}_{number}.png")
        item = {"image": f"image_{number}.png", "label": f"mask_{number}.png"}
        lists["training" if number < 4 else "validation"].append(item)
    (folder / "datalist.json").write_text(json.dumps(lists))
    (folder / "data.yaml").write_text(DESCRIPTION + description)


def without_dark(mask: np.ndarray) -> np.ndarray:
    return np.where(mask == 2, 0, mask).astype(np.uint8)


def ignored_at_the_left(mask: np.ndarray) -> np.ndarray:
    mask = mask.copy()
    mask[:, :IGNORED_COLUMNS] = IGNORED_VALUE
    return mask


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    folder = tmp_path / "federation"
    write_site(folder / "site-1", 0, "labels: {0: 0, 1: 1}\nannotated_classes: [bright]\n", without_dark)
    write_site(folder / "site-2", 1, ALL + f"ignore: [{IGNORED_VALUE}]\n", ignored_at_the_left)
    (folder / "federation.yaml").write_text("name: partial\nsites: [site-1, site-2]\n")
    return folder


def run(federation: Path, out: Path, name: str = "fedavg", **changes: object) -> dict[str, object]:
    job = Job.open(JOBS / name).copy_with(SMALL | changes, out.with_name(f"{out.name}-job")).folder
    return simulate(job, out, data=federation)


def expected_loss(out: Path, site: Path) -> float:
    """The mean cross entropy of the start weights, from the files: of a mask's value 0 − log(p_0 + p_2) at site 1."""
    settings = Job.open(out.with_name(f"{out.name}-job")).settings_with({"network.num_classes": 2})
    network = described_network(settings.network, settings.seed)
    items = json.loads((site / "datalist.json").read_text())["training"]
    pixels, masks = (
        np.stack([np.asarray(Image.open(site / item[kind])) for item in items]) for kind in ("image", "label")
    )
    means, deviations = (getattr(pixels, of)(axis=(1, 2), keepdims=True) for of in ("mean", "std"))
    with torch.inference_mode():
        # The four cases are one batch, over which the network normalises.
        logits = network(torch.from_numpy((pixels - means) / deviations).float()[:, None])
    p = logits.double().softmax(1).numpy()
    background = p[:, 0] + p[:, 2] if site.name == "site-1" else p[:, 0]
    entropies = -np.log(np.choose(np.minimum(masks, 2), [background, p[:, 1], p[:, 2]]))
    return float(entropies[masks != IGNORED_VALUE].mean())


def test_what_a_site_does_not_annotate_or_ignores_counts_nowhere(federation: Path, tmp_path: Path) -> None:
    summary = run(federation, tmp_path / "out")
    assert not summary["refusals"]
    (record,) = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    for site in ("site-1", "site-2"):
        loss = record["sites"][site]["train_loss"]
        assert loss == pytest.approx(expected_loss(tmp_path / "out", federation / site), rel=1e-4)
    # Of class 1 the validation cases of both sites count, of class 2 those of the second site.
    assert record["evaluated_on"] == "sites"
    assert record["num_annotated_per_class"] == [6, 3]
    assert all(0 <= score <= 1 for score in record["dice_per_class"])


def test_a_method_that_cannot_use_such_data_refuses_before_anything_is_trained(
    federation: Path, tmp_path: Path
) -> None:
    with pytest.raises(AnnotationGapError, match=r"site-1/data\.yaml has the key 'annotated_classes'.*'feda3i'"):
        run(federation, tmp_path / "out", "fedaaai", rounds=2, warmup_rounds=1)
    assert not (tmp_path / "out" / "model.pt").exists()
