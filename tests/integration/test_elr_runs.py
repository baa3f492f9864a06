"""Whole runs of ELR: what it is without its weight, and a run that is continued."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS
from plain_records import simulate

from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.run.state import kept_state_file

SMALL = {
    "rounds": 2,
    "keep_rounds": [1],
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.upsample": "nontrainable",
    "training.loss": "ce",
    "training.learning_rate": 0.01,
    "training.learning_rate_steps": [],
    "training.batch_size": 2,
    "training.local_epochs": 1,
    "training.augmentation": ["flip", "rotation"],
}


def run(out: Path, job: str = "elr", **changes: Any) -> dict[str, torch.Tensor]:
    folder = Job.open(JOBS / job).copy_with(SMALL | changes, out.with_name(f"{out.name}-job")).folder
    simulate(folder, out, data=out.parent / "data")
    model: dict[str, torch.Tensor] = torch.load(out / "model.pt", weights_only=True)["model"]
    return model


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_without_weight_it_is_federated_averaging_and_a_continued_run_has_the_same_bits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    free = run(tmp_path / "free", early_learning_weight=0)
    assert same(run(tmp_path / "averaged", "fedavg"), free)
    whole = run(tmp_path / "whole")
    assert not same(whole, free)
    caplog.clear()
    state = tmp_path / "whole/run/server/simulate_job" / kept_state_file(1)
    assert same(run(tmp_path / "continued", resume_from=str(state)), whole)
    assert "start at 0" not in caplog.text
