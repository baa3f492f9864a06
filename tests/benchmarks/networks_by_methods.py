"""Two rounds of every method of a table with networks of MONAI, tiny and in one process: what runs, and how well.

    python tests/benchmarks/networks_by_methods.py                     # all
    python tests/benchmarks/networks_by_methods.py UNet DenseNet121    # some
    python tests/benchmarks/networks_by_methods.py UNet --simulator    # under NVFlare's simulator: the same hash

One line per network and method: hash of the final model, score, number of blocks, seconds. SwinUNETR and ViT need the
package `einops`.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from fedannot.apps.reports.output import collect_output, find_run_folder
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.simulate import simulate
from fedannot.apps.terminal import Terminal
from fedannot.custom.networks.building import layer_blocks
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.hashing import model_hash

JOBS = Path(__file__).parents[2] / "jobs"
SITES = ("site-1", "site-2", "site-3", "site-4")
# So that layers get weights of their own although nothing is significant in two rounds.
OF_JOBS: dict[str, dict[str, Any]] = {"fedaaai": {"group_decision": "shrink"}}

NETWORKS: dict[str, dict[str, Any]] = {
    "BasicUNet": {"_target_": "BasicUNet", "features": [4, 4, 8, 8, 8, 4]},
    "UNet": {"_target_": "UNet", "channels": [4, 8, 16], "strides": [2, 2], "num_res_units": 1},
    "DynUNet": {
        "_target_": "DynUNet",
        "kernel_size": [3, 3, 3, 3],
        "strides": [1, 2, 2, 2],
        "upsample_kernel_size": [2, 2, 2],
        "filters": [4, 8, 16, 16],
        "deep_supervision": True,
        "deep_supr_num": 2,
    },
    "SegResNet": {"_target_": "SegResNet", "init_filters": 8, "blocks_down": [1, 1, 1], "blocks_up": [1, 1]},
    "AttentionUnet": {"_target_": "AttentionUnet", "channels": [4, 8, 16], "strides": [2, 2]},
    "SwinUNETR": {"_target_": "SwinUNETR", "feature_size": 12, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 4]},
}
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "DenseNet121": {"_target_": "DenseNet121", "init_features": 8, "growth_rate": 4, "block_config": [2, 2, 2, 2]},
    "EfficientNetBN": {"_target_": "EfficientNetBN", "model_name": "efficientnet-b0"},
    "ViT": {
        "_target_": "ViT",
        "img_size": 32,
        "patch_size": 8,
        "hidden_size": 24,
        "mlp_dim": 48,
        "num_layers": 2,
        "num_heads": 4,
        "post_activation": "none",
    },
}
_SMALL = {
    "rounds": 2,
    "warmup_rounds": 1,
    "max_extra_warmup_rounds": 0,
    "min_predicted_fraction": 0.0,
    "training.local_epochs": 1,
    "embedded.sites": len(SITES),
    "embedded.test_images": 2,
}
_SEGMENTATION = _SMALL | {"embedded.images_per_site": 4, "training.batch_size": 4}
_CLASSIFICATION = _SMALL | {"embedded.images_per_site": 16, "training.batch_size": 8, "embedded.test_images": 8}
OF_SEGMENTATION = ("fedavg", "fedaaai", "auto", "fedcurv", "fedrep", "ditto")
OF_CLASSIFICATION = ("fedavg_classification", "fedgsca", "auto_classification")


def small_job(name: str, network: dict[str, Any], folder: Path) -> Job:
    """Copy a job with a network and small settings, as far as it has them."""
    job = Job.open(JOBS / name)
    small = _CLASSIFICATION if job.settings().task == "classification" else _SEGMENTATION
    known = job.setting_names({})
    changes = {key: value for key, value in small.items() if key in known} | OF_JOBS.get(name, {})
    copied = job.copy_with(changes | {"network": network}, folder)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    (members,) = meta["deploy_map"].values()
    members[:] = ["server", *SITES]
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return copied


def run(job: Job, out: Path, *, with_simulator: bool = False) -> tuple[str, float | None]:
    """Run a job; return the hash of its model and its score."""
    if with_simulator:
        command = ["nvflare", "simulator", str(job.folder), "-w", str(out / "workspace"), "-t", "4"]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        (out / "out").mkdir(parents=True)
        summary = collect_output(find_run_folder(out / "workspace"), out / "out", dict)
    else:
        out.mkdir(parents=True)
        with (out / "log.txt").open("w", encoding="utf-8") as log:
            summary = simulate(job.folder, out / "out", progress=Progress(Terminal(file=log)))
    model = torch.load(out / "out" / "model.pt", weights_only=True)["model"]
    return model_hash(model)[:16], summary.main_score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=[*NETWORKS, *CLASSIFIERS])
    parser.add_argument("--jobs", nargs="*", default=[])
    parser.add_argument("--simulator", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.networks:
        network = NETWORKS.get(name) or CLASSIFIERS[name]
        for job_name in OF_SEGMENTATION if name in NETWORKS else OF_CLASSIFICATION:
            if arguments.jobs and job_name not in arguments.jobs:
                continue
            with TemporaryDirectory() as folder:
                job = small_job(job_name, network, Path(folder) / "job")
                blocks = len(layer_blocks(described_network(job.settings().network)))
                started = time.monotonic()
                try:
                    digest, score = run(job, Path(folder) / "run", with_simulator=arguments.simulator)
                except Exception as error:
                    print(name, job_name, type(error).__name__, error, file=sys.stderr)
                    continue
                shown = "-" if score is None else f"{score:.3f}"
                print(
                    f"{name:15} {job_name:22} {digest} score={shown} blocks={blocks} {time.monotonic() - started:.1f} s"
                )


if __name__ == "__main__":
    main()
