"""Whole runs of FedRobust: one that is continued, and one in NVFlare's simulator, have the same bits."""

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
from fedannot.custom.run.state import kept_state_file

SMALL = {
    "rounds": 2,
    "change_penalty": 0.001,
    "keep_rounds": [1],
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.upsample": "nontrainable",
    "training.loss": "ce",
    "training.learning_rate": 0.01,
    "training.learning_rate_steps": [],
    "training.batch_size": 2,
    "training.local_epochs": 1,
}
TIMEOUT_SECONDS = 300


def run(out: Path, **changes: Any) -> dict[str, torch.Tensor]:
    folder = Job.open(JOBS / "fedrobust").copy_with(SMALL | changes, out.with_name(f"{out.name}-job")).folder
    simulate(folder, out, data=out.parent / "data")
    model: dict[str, torch.Tensor] = torch.load(out / "model.pt", weights_only=True)["model"]
    return model


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    return tmp_path / "data"


def test_a_continued_run_has_the_same_bits(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    del data
    whole = run(tmp_path / "whole")
    caplog.clear()
    state = tmp_path / "whole/run/server/simulate_job" / kept_state_file(1)
    assert same(run(tmp_path / "continued", resume_from=str(state)), whole)
    assert "begins with it anew" not in caplog.text


@pytest.mark.simulator
def test_the_simulator_has_the_same_bits(data: Path, tmp_path: Path) -> None:
    whole, workspace = run(tmp_path / "whole"), tmp_path / "workspace"
    deployed = {"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", "site-1", "site-2"]}}
    (tmp_path / "whole-job/meta.json").write_text(json.dumps(deployed))
    arguments = ["simulator", str(tmp_path / "whole-job"), "-w", str(workspace), "-t", "2"]
    command = [str(Path(sys.executable).parent / "nvflare"), *arguments]
    environment = os.environ | {"FEDANNOT_DATA": str(data)}
    subprocess.run(command, env=environment, capture_output=True, timeout=TIMEOUT_SECONDS, check=True)
    found = find_run_folder(workspace)
    (model,) = found.rglob("*model*.pt")
    assert same(torch.load(model, weights_only=True)["model"], whole)
