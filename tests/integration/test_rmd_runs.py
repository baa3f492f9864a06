"""Whole runs of RMD: its first network without its parts, runs that are continued, and NVFlare's simulator."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS
from plain_records import simulate

from fedannot.apps.reports.output import find_run_folder
from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.networks.second_network import SECOND_NETWORK
from fedannot.custom.run.state import kept_state_file

SMALL = {
    "rounds": 2,
    "keep_rounds": [1],
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.learning_rate": 0.02,
    "training.learning_rate_steps": [],
    "training.batch_size": 2,
    "training.local_epochs": 1,
}


def run(out: Path, job: str = "rmd", **changes: Any) -> dict[str, torch.Tensor]:
    folder = Job.open(JOBS / job).copy_with(SMALL | changes, out.with_name(f"{out.name}-job")).folder
    simulate(folder, out, data=out.parent / "data")
    model: dict[str, torch.Tensor] = torch.load(out / "model.pt", weights_only=True)["model"]
    return model


def test_without_its_parts_the_first_network_is_that_of_federated_averaging(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    # A gradient's norm is that of one network.
    same = {"rounds": 1, "keep_rounds": [], "training.gradient_clipping": 0.5, "training.augmentation": ["flip"]}
    averaged = run(tmp_path / "averaged", "fedavg", **same)
    both = run(tmp_path / "both", dropped_fraction=0, distillation_weight=0, **same)
    first = {name: value for name, value in both.items() if not name.startswith(f"{SECOND_NETWORK}.")}
    assert first.keys() == averaged.keys()
    assert all(torch.equal(value, averaged[name]) for name, value in first.items())
    second = {name: both[f"{SECOND_NETWORK}.network.{name}"] for name in first}
    assert len(both) == 2 * len(averaged)
    assert not torch.equal(second["final_conv.weight"], averaged["final_conv.weight"])


def test_a_continued_run_has_the_same_bits(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    # The second round changes images in all ways.
    settings = {"ramp_epochs": 1, "dropped_fraction": 0.2}
    whole = run(tmp_path / "whole", **settings)
    state = tmp_path / "whole/run/server/simulate_job" / kept_state_file(1)
    continued = run(tmp_path / "continued", resume_from=str(state), **settings)
    assert continued.keys() == whole.keys()
    assert all(torch.equal(value, continued[entry]) for entry, value in whole.items())


@pytest.mark.simulator
def test_the_simulator_has_the_same_bits(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    whole, workspace = run(tmp_path / "whole", ramp_epochs=1), tmp_path / "workspace"
    deployed = {"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", "site-1", "site-2"]}}
    (tmp_path / "whole-job/meta.json").write_text(json.dumps(deployed))
    arguments = ["simulator", str(tmp_path / "whole-job"), "-w", str(workspace), "-t", "2"]
    command = [str(Path(sys.executable).parent / "nvflare"), *arguments]
    environment = os.environ | {"FEDANNOT_DATA": str(tmp_path / "data")}
    subprocess.run(command, env=environment, capture_output=True, timeout=300, check=True)
    (model,) = find_run_folder(workspace).rglob("*model*.pt")
    result = torch.load(model, weights_only=True)["model"]
    assert result.keys() == whole.keys()
    assert all(torch.equal(value, result[name]) for name, value in whole.items())
