"""Whole runs of FedCurv: what it is without its penalty, what the penalty does, and a run that is continued."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS
from plain_records import simulate

from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.flare.controller import FederatedController
from fedannot.custom.run.state import RunState, kept_state_file
from fedannot.custom.settings import SettingsError

SMALL = {
    "rounds": 3,
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.batch_size": 9,
    "training.local_epochs": 1,
    "embedded.sites": 2,
    "embedded.protocols": "0-C(20,8)",
    "embedded.images_per_site": 1,
    "embedded.test_images": 1,
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[dict[str, Any], dict[str, torch.Tensor]]]:
    """Return a function that runs a job with small settings, and gives its summary and final state dict."""

    def make(name: str, job: str = "fedcurv", **changes: Any) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        data = changes.pop("data", None)
        settings = SMALL | {"keep_rounds": [2]} | {key.replace("__", "."): value for key, value in changes.items()}
        if data is not None:
            settings = {key: value for key, value in settings.items() if not key.startswith("embedded.")}
        folder = Job.open(JOBS / job).copy_with(settings, tmp_path / f"{name}-job").folder
        summary = simulate(folder, tmp_path / name, data=data)
        return summary, torch.load(tmp_path / name / "model.pt", weights_only=True)["model"]

    return make


def kept(out: Path, round_number: int) -> Path:
    return out / "run" / "server" / "simulate_job" / kept_state_file(round_number)


def test_without_its_penalty_it_is_federated_averaging(run: Callable[..., Any], tmp_path: Path) -> None:
    write_phantom_federation(
        tmp_path / "data", Chambers("0-C(20,8)"), num_sites=2, images_per_site=1, test_images=1, seed=0
    )
    same = {"data": tmp_path / "data", "network__upsample": "nontrainable", "training__learning_rate_steps": [0.7]}
    _, averaged = run("averaged", "fedavg", **same)
    _, free = run("free", curvature_weight=0, **same)
    assert {name for name in free if not name.startswith("curvature.")} == set(averaged)
    assert all(torch.equal(free[name], value) for name, value in averaged.items())
    assert any(bool(value.any()) for name, value in free.items() if name.startswith("curvature."))


def test_the_penalty_counts_from_the_second_round_on(run: Callable[..., Any], tmp_path: Path) -> None:
    free, near = (run(str(weight), rounds=2, keep_rounds=[1], curvature_weight=weight)[1] for weight in (0, 10))
    after_one = [RunState.load(kept(tmp_path / name, 1)).params for name in ("0", "10")]
    assert all(torch.equal(value, after_one[1][name]) for name, value in after_one[0].items())
    assert any(not torch.equal(free[name], value) for name, value in near.items() if "curvature" not in name)


def test_a_continued_run_ends_with_the_same_bits(
    run: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, whole = run("whole")
    caplog.clear()
    _, continued = run("continued", resume_from=str(kept(tmp_path / "whole", 2)))
    assert not kept(tmp_path / "continued", 2).exists()
    assert whole.keys() == continued.keys()
    assert all(torch.equal(whole[name], value) for name, value in continued.items())
    assert "own curvature" not in caplog.text


def test_bounds_on_influence_are_refused_with_the_reason() -> None:
    """A site takes its own curvature out of the mean by its fraction of the samples."""
    with pytest.raises(SettingsError, match="key 'influence' cannot be set for fedcurv"):
        FederatedController({"method": "fedcurv", "influence": {"max_update_ratio": 3.0}})
