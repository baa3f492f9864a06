"""Two rounds of every method of a table with networks of MONAI, tiny and in one process: what runs, and how well.

    python tests/benchmarks/networks_by_methods.py                     # all
    python tests/benchmarks/networks_by_methods.py UNet DenseNet121    # some
    python tests/benchmarks/networks_by_methods.py UNet --simulator    # under NVFlare's simulator, too: the same hash

One line per network and method: hash of the final model, score, number of blocks, seconds. Networks with 3D in their
names are trained on whole volumes. SwinUNETR and ViT need the package `einops`.

With `--simulator` each pair runs in one process and under NVFlare's simulator, and the command ends with an error if a
hash differs. The settings are such that every method does something in two rounds: FedA³I weights layers although
nothing is significant, FedGSCA takes any class for plausible (with its own thresholds a network that knows nothing
selects no label before the third round, and its model is that of federated averaging bit for bit).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nibabel
import numpy as np
import torch

from fedannot.apps.reports.output import collect_output, find_run_folder
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.simulate import simulate
from fedannot.apps.terminal import Terminal
from fedannot.custom.data.datalist import TESTING, TRAINING, Case, write_datalist
from fedannot.custom.data.description import VolumeDescription, write_site_description
from fedannot.custom.data.federation import TEST_FOLDER, FederationDescription, write_federation
from fedannot.custom.data.location import DATA_VARIABLE
from fedannot.custom.data.whole_files import private_folder
from fedannot.custom.networks.building import layer_blocks
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.hashing import model_hash

JOBS = Path(__file__).parents[2] / "jobs"
SITES = ("site-1", "site-2", "site-3", "site-4")
# So that methods act in two rounds: layers get weights of their own although nothing is significant, and in the credal
# loss of a network that knows nothing yet other classes than the label are plausible.
OF_JOBS: dict[str, dict[str, Any]] = {
    "fedaaai": {"group_decision": "shrink"},
    "fedgsca": {"loss": "rcl", "beta_start": 0.15, "beta_end": 0.15},
}

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
VOLUMES: dict[str, dict[str, Any]] = {
    "UNet3D": NETWORKS["UNet"],
    "DynUNet3D": NETWORKS["DynUNet"],
    "SegResNet3D": NETWORKS["SegResNet"],
    "SwinUNETR3D": NETWORKS["SwinUNETR"],
}
PATCH = (32, 32, 32)
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
_CLASSIFICATION = _SMALL | {
    "training.local_epochs": 3,
    "training.batch_size": 8,
    "embedded.images_per_site": 64,
    "embedded.test_images": 8,
}
_VOLUMES = _SMALL | {
    "training.batch_size": 2,
    "training.patch": PATCH,
    "training.patches_per_volume": 1,
    "network.spatial_dims": 3,
    "data_required": True,
}
OF_SEGMENTATION = ("fedavg", "fedaaai", "auto", "fedcurv", "fedrep", "ditto")
OF_VOLUMES = ("fedavg", "fedaaai", "auto")
OF_CLASSIFICATION = ("fedavg_classification", "fedgsca", "auto_classification")


def write_volumes(folder: Path) -> None:
    """Write a federation of whole volumes with a bright ellipsoid each, drawn from seeds."""
    for number, site in enumerate((*SITES, TEST_FOLDER)):
        place = folder / site
        (place / "files").mkdir(parents=True)
        cases = [_volume(place / "files" / str(case), 10 * number + case) for case in range(2 + number % 2)]
        write_datalist(place / "datalist.json", {TESTING if site == TEST_FOLDER else TRAINING: cases})
        write_site_description(place, VolumeDescription(classes=("part",), labels={0: 0, 1: 1}))
    write_federation(folder, FederationDescription(name="ellipsoids", sites=SITES))


def _volume(file: Path, seed: int) -> Case:
    generator = np.random.default_rng(seed)
    extents = np.array((36, 40, 33))
    grid = np.moveaxis(np.indices(extents), 0, -1) - extents * generator.uniform(0.4, 0.6, 3)
    mask = (np.square(grid / generator.uniform(6, 12, 3)).sum(axis=-1) < 1).astype(np.uint8)
    voxels = (mask + generator.normal(0, 0.3, extents)).astype(np.float32)
    image, label = file.with_suffix(".nii"), file.with_name(f"{file.name}_mask.nii")
    for path, values in ((image, voxels), (label, mask)):
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), path)
    return Case(image=image, label=label)


def small_job(name: str, network: dict[str, Any], folder: Path, data: Path | None = None) -> Job:
    """Copy a job with a network and small settings, as far as it has them; with data for whole volumes."""
    job = Job.open(JOBS / name)
    small = _CLASSIFICATION if job.settings().task == "classification" else _SEGMENTATION
    known = job.setting_names({})
    small = small if data is None else _VOLUMES | {"data": str(data)}
    changes = {key: value for key, value in small.items() if key in known} | OF_JOBS.get(name, {})
    copied = job.copy_with(changes | {"network": network}, folder)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    (members,) = meta["deploy_map"].values()
    members[:] = ["server", *SITES]
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return copied


def run(job: Job, out: Path, *, with_simulator: bool = False, data: Path | None = None) -> tuple[str, float | None]:
    """Run a job; return the hash of its model and its score."""
    if with_simulator:
        command = ["nvflare", "simulator", str(job.folder), "-w", str(out / "workspace"), "-t", "4"]
        environment = os.environ | ({} if data is None else {DATA_VARIABLE: str(data)})
        subprocess.run(command, check=True, capture_output=True, timeout=600, env=environment)
        private_folder(out / "out")
        summary = collect_output(find_run_folder(out / "workspace"), out / "out", dict)
    else:
        out.mkdir(parents=True)
        with (out / "log.txt").open("w", encoding="utf-8") as log:
            summary = simulate(job.folder, out / "out", data=data, progress=Progress(Terminal(file=log)))
    model = torch.load(out / "out" / "model.pt", weights_only=True)["model"]
    return model_hash(model)[:16], summary.main_score


def jobs_of(name: str) -> tuple[str, ...]:
    """The jobs that a network of the table is run with."""
    if name in CLASSIFIERS:
        return OF_CLASSIFICATION
    return OF_VOLUMES if name in VOLUMES else OF_SEGMENTATION


def run_pair(name: str, job_name: str, *, with_simulator: bool) -> bool:
    """Run a network under a method and print a line; return whether all of it is as it should be."""
    network = (NETWORKS | VOLUMES | CLASSIFIERS)[name]
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data" if name in VOLUMES else None
        if data is not None:
            write_volumes(data)
        job = small_job(job_name, network, Path(folder) / "job", data)
        blocks = len(layer_blocks(described_network(job.settings().network)))
        started = time.monotonic()
        try:
            digest, score = run(job, Path(folder) / "run", data=data)
            other = run(job, Path(folder) / "flare", with_simulator=True, data=data)[0] if with_simulator else digest
        except Exception as error:
            print(name, job_name, type(error).__name__, error, file=sys.stderr)
            return False
        shown = "-" if score is None else f"{score:.3f}"
        same = "" if not with_simulator else " simulator=same" if other == digest else f" simulator={other}"
        seconds = time.monotonic() - started
        print(f"{name:15} {job_name:22} {digest}{same} score={shown} blocks={blocks} {seconds:.1f} s", flush=True)
        return other == digest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=[*NETWORKS, *VOLUMES, *CLASSIFIERS])
    parser.add_argument("--jobs", nargs="*", default=[])
    parser.add_argument("--simulator", action="store_true", help="run under NVFlare's simulator as well and compare")
    arguments = parser.parse_args()
    pairs = [(name, job) for name in arguments.networks for job in jobs_of(name)]
    wanted = [(name, job) for name, job in pairs if not arguments.jobs or job in arguments.jobs]
    good = [run_pair(name, job, with_simulator=arguments.simulator) for name, job in wanted]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
