"""Whole runs of FedRobust: one that is continued, and one in NVFlare's simulator, have the same bits."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.whole_runs import Model, continues_with_the_same_bits, job_folder, run_job, same_model
from test_simulator import job_for, run_simulator

from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

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


def run(out: Path, **changes: Any) -> Model:
    return run_job("fedrobust", SMALL | changes, out)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    return tmp_path / "data"


def test_a_continued_run_has_the_same_bits(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    del data
    continues_with_the_same_bits(run, tmp_path, 1, caplog)
    assert "initialises it again" not in caplog.text


@pytest.mark.simulator
def test_the_simulator_has_the_same_bits(data: Path, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    job = job_for(job_folder(tmp_path / "whole"), "site-1", "site-2")
    run_folder = run_simulator(job, tmp_path / "workspace", data, 2)
    (model,) = run_folder.rglob("*model*.pt")
    assert same_model(torch.load(model, weights_only=True)["model"], whole)
