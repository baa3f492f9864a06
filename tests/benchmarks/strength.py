"""How good a planned run is, on real images: centralised, over sites, and beside a plain loop of MONAI.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/strength.py --hours 0.5 --out runs/bench/strength
    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/strength.py --rows busi-planned,busi-plain

Rows: `hippocampus-central` (one site with all cases), `hippocampus-sites` (five), `hippocampus-plain`, `busi-planned`
(six sites, 98 lesions, 256 x 256), `busi-central` (one site), `busi-defaults` (the job's own settings), `busi-plain`.
Finished rows are kept. Plans are those of a row's first seed. All rows of a data set score the model after the last
step on the same fixed fifth. The plain loop has the plan's network, batch, optimizer and number of steps of all sites
together, over the pooled cases, with augmentation by MONAI; it does not mirror its predictions, and needs the planned
row before it. All else is done by the commands of the documentation.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from monai.inferers.inferer import SimpleInferer, SlidingWindowInferer
from monai.losses.dice import DiceCELoss
from monai.networks.nets.dynunet import DynUNet
from monai.transforms.compose import Compose
from monai.transforms.croppad.dictionary import RandCropByPosNegLabeld, SpatialPadd
from monai.transforms.intensity.dictionary import NormalizeIntensityd, RandGaussianNoised, RandScaleIntensityd
from monai.transforms.io.dictionary import LoadImaged
from monai.transforms.spatial.dictionary import RandAffined, RandFlipd, Resized
from monai.transforms.utility.dictionary import EnsureChannelFirstd, MapLabelValued
from pyhocon import ConfigFactory

from fedannot.custom.data.description import DESCRIPTION_FILE

KEYS = ("image", "label")
TEST = "testing"
# The rate of a polynomial schedule falls to the power of this; nnU-Net's.
POWER = 0.9
SUPERVISION = 0.5
GRADIENT = 12.0


def main() -> None:
    """Run the rows that are not finished, one after the other, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help="names, separated by commas")
    parser.add_argument("--hours", type=float, default=0.5, help="that a planned run may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/strength"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for row in given.rows.split(","):
        result = given.out / f"{row}-{given.seed}.json"
        if not result.is_file():
            dataset, arm = row.split("-")
            result.write_text(json.dumps(ROWS[row](dataset, arm, given)))
        print(row, result.read_text(), flush=True)


def federation(dataset: str, sites: int, out: Path) -> Path:
    """Import a pack once."""
    folder, packs = out / f"{dataset}-{sites}", Path(os.environ["FEDANNOT_REAL_DATA"])
    busi = packs / "busi-breast-us" / "seg"
    lesions = ("--size", "256,256", "--include", "benign*", "--include", "malignant*")
    of: dict[str, tuple[str, ...]] = {
        "hippocampus": ("--datalist", str(packs / "hippocampus-msd" / "datalist.json"), "--pipeline", "volume"),
        "busi": ("--images", str(busi / "images"), "--labels", str(busi / "labels"), *lesions),
    }
    if not folder.is_dir():
        command("data", "import", *of[dataset], "--sites", str(sites), "--out", str(folder))
    return folder


def planned(run: Path) -> dict[str, Any]:
    """Settings that were planned for a run."""
    return ConfigFactory.parse_file(str(run / "planned.conf")).get_config("settings").as_plain_ordered_dict()


def command(*arguments: str) -> None:
    """Run a command of fedannot."""
    subprocess.run([sys.executable, "-m", "fedannot.apps", *arguments], check=True, stdout=subprocess.DEVNULL)


def by_the_plan(dataset: str, arm: str, given: argparse.Namespace) -> dict[str, Any]:
    """A run with planned settings, which are those of the row's first run."""
    row = f"{dataset}-{arm}"
    folder, out = federation(dataset, SITES[row], given.out), run_of(row, given)
    made = sorted(plan for plan in given.out.glob(f"run-{row}-*/planned.conf") if plan.parent != out)
    known = bool(made) and not (out / "planned.conf").is_file()
    return simulated(folder, row, given, *(("--settings", str(made[0])) if known else ("--hours", str(given.hours))))


def by_defaults(dataset: str, arm: str, given: argparse.Namespace) -> dict[str, Any]:
    """A run with the job's own settings."""
    return simulated(federation(dataset, SITES["busi-planned"], given.out), f"{dataset}-{arm}", given, "--no-plan")


def run_of(row: str, given: argparse.Namespace) -> Path:
    """The folder of a row's run."""
    return given.out / f"run-{row}-{given.seed}"


def simulated(folder: Path, row: str, given: argparse.Namespace, *options: str) -> dict[str, Any]:
    """Run federated averaging, and read the last round's score."""
    out, began = run_of(row, given), time.perf_counter()
    resume = ["--resume"] if out.is_dir() else []
    command(
        "simulate", "fedavg", "--data", str(folder), *options, "--seed", str(given.seed), "--out", str(out), *resume
    )
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    scored = [record for record in records if record.get("dice") is not None]
    return {
        "dice": scored[-1]["dice"],
        "per_class": scored[-1]["dice_per_class"],
        "rounds": len(records),
        "hours": (time.perf_counter() - began) / 3600,
    }


def plain(dataset: str, arm: str, given: argparse.Namespace) -> dict[str, Any]:
    """A loop of MONAI over the pooled cases."""
    like = "busi-planned" if dataset == "busi" else "hippocampus-central"
    sites = SITES[like]
    folder, began = federation(dataset, sites, given.out), time.perf_counter()
    settings = planned(run_of(like, given))
    training, chosen = settings["training"], dict(settings["network"])
    steps, classes = settings["rounds"] * training["local_steps"] * sites, chosen.pop("num_classes")
    del chosen["_target_"]
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    network, patch = DynUNet(out_channels=classes + 1, **chosen), training.get("patch")
    train = [case for number in range(1, sites + 1) for case in cases(folder / f"site-{number}", "training")]
    mirrored = training.get("mirror_axes", range(chosen["spatial_dims"]))
    loader = batches(train, training["batch_size"], augmentation(patch, mirrored), given.seed)
    optimizer, rate = optimizer_of(network, training)
    loss = DiceCELoss(to_onehot_y=True, softmax=True, include_background=False, batch=patch is None)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps) ** POWER
        images, labels = next(loader)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=training.get("precision") == "mixed"):
            outputs = network(images)
        heads = torch.unbind(outputs.float(), dim=1) if chosen["deep_supervision"] else [outputs.float()]
        weights = [SUPERVISION**head for head in range(len(heads))]
        total = sum(weight * loss(head, labels) for weight, head in zip(weights, heads, strict=True)) / sum(weights)
        total.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), GRADIENT)
        optimizer.step()
    per_class = scores(network, cases(folder / "test", TEST), classes, patch)
    return {
        "dice": float(np.nanmean(per_class)),
        "per_class": per_class,
        "steps": steps,
        "hours": (time.perf_counter() - began) / 3600,
    }


def cases(folder: Path, section: str) -> list[dict[str, Any]]:
    """Images `(1, …)`, normalised, and labels `(1, …)` of a datalist, in the size that the site's description says."""
    listed = json.loads((folder / "datalist.json").read_text())[section]
    described = yaml.safe_load((folder / DESCRIPTION_FILE).read_text())
    size = (Resized(KEYS, described["size"], mode=("area", "nearest-exact")),) if "size" in described else ()
    indices = MapLabelValued("label", *zip(*described["labels"].items(), strict=True))
    load = Compose([LoadImaged(KEYS), EnsureChannelFirstd(KEYS), indices, *size, NormalizeIntensityd("image")])
    loaded = [load({key: str(folder / case[key]) for key in KEYS}) for case in listed]
    return [{key: case[key].as_tensor() for key in KEYS} for case in loaded]


def augmentation(patch: list[int] | None, mirrored: Sequence[int]) -> Compose:
    """Crops of patches, a third of them around an annotated voxel, mirrored, turned, scaled, with noise."""
    dims = 2 if patch is None else 3
    crops = (
        ()
        if patch is None
        else (
            SpatialPadd(KEYS, patch),
            RandCropByPosNegLabeld(KEYS, "label", patch, pos=1, neg=2, num_samples=1),
        )
    )
    return Compose(
        [
            *crops,
            *(RandFlipd(KEYS, prob=0.5, spatial_axis=axis) for axis in mirrored),
            RandAffined(
                KEYS,
                prob=0.2,
                rotate_range=(0.26,) * dims,
                scale_range=(0.2,) * dims,
                mode=("bilinear", "nearest"),
                padding_mode="border",
            ),
            RandScaleIntensityd("image", 0.25, prob=0.15),
            RandGaussianNoised("image", prob=0.1, std=0.1),
        ]
    )


def batches(
    train: list[dict[str, Any]], size: int, transform: Compose, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of augmented samples without end, every case once before one comes again."""
    transform.set_random_state(seed)
    generator, order = np.random.default_rng(seed), []
    while True:
        drawn = []
        while len(drawn) < size:
            order = order or list(generator.permutation(len(train)))
            case = transform(train[order.pop()])
            drawn.append(case[0] if isinstance(case, list) else case)
        yield tuple(torch.stack([torch.as_tensor(case[key]) for case in drawn]) for key in KEYS)


def optimizer_of(network: torch.nn.Module, training: dict[str, Any]) -> tuple[torch.optim.Optimizer, float]:
    """The plan's optimizer, and its first rate."""
    rate, momentum = float(training["learning_rate"]), float(training["momentum"])
    return torch.optim.SGD(network.parameters(), rate, momentum=momentum, nesterov=True, weight_decay=3e-5), rate


@torch.no_grad()
def scores(network: torch.nn.Module, test: list[dict[str, Any]], classes: int, patch: list[int] | None) -> list[float]:
    """Mean Dice of each class over the cases in which it is annotated; over volumes the patch slides."""
    network.eval()
    infer = SimpleInferer() if patch is None else SlidingWindowInferer(patch, overlap=0.5, mode="gaussian")
    dice = np.full((len(test), classes), np.nan)
    for row, case in enumerate(test):
        found = infer(case["image"][None], network).argmax(dim=1)
        for number in range(classes):
            predicted, annotated = found == number + 1, case["label"] == number + 1
            if annotated.any():
                both = (predicted & annotated).sum()
                dice[row, number] = 2 * both / (predicted.sum() + annotated.sum())
    return [float(mean) for mean in np.nanmean(dice, axis=0)]


SITES = {"hippocampus-central": 1, "hippocampus-sites": 5, "busi-planned": 6, "busi-central": 1}
ROWS = {
    "hippocampus-central": by_the_plan,
    "hippocampus-sites": by_the_plan,
    "hippocampus-plain": plain,
    "busi-planned": by_the_plan,
    "busi-central": by_the_plan,
    "busi-defaults": by_defaults,
    "busi-plain": plain,
}

if __name__ == "__main__":
    main()
