"""Whole runs of jobs of the project, on the federation `data` next to their output folders; their models count."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_records import simulate

from fedannot.apps.runs.job import Job
from fedannot.custom.run.state import kept_state_file

# A classifier so small that a round takes a fraction of a second.
SMALL_CLASSIFIER = {
    "network.widths": [4, 4, 4, 4],
    "training.learning_rate": 0.05,
    "training.learning_rate_steps": [],
    "training.batch_size": 4,
    "training.local_epochs": 1,
}
JOBS = Path(__file__).parents[2] / "jobs"
Model = dict[str, torch.Tensor]


def run_job(job: str, settings: Mapping[str, Any], out: Path) -> Model:
    """Run a job with settings, copied next to its output folder, and return its final model."""
    folder = Job.open(JOBS / job).copy_with(settings, job_folder(out)).folder
    simulate(folder, out, data=out.parent / "data")
    return model_of(out)


def model_of(out: Path) -> Model:
    """Return the final model of a run."""
    model: Model = torch.load(out / "model.pt", weights_only=True)["model"]
    return model


def job_folder(out: Path) -> Path:
    """Return the job of a run."""
    return out.with_name(f"{out.name}-job")


def kept_state(out: Path, round_number: int) -> str:
    """Return the state that a run has kept of a round, for `resume_from`."""
    return str(out / "run" / "server" / "simulate_job" / kept_state_file(round_number))


def same_model(one: Model, other: Model) -> bool:
    """Return whether models have the same entries with the same bits."""
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def assert_same_model(one: Path, other: Path) -> None:
    """Check that runs have the same final model."""
    first, second = model_of(one), model_of(other)
    assert first.keys() == second.keys()
    assert [name for name, value in first.items() if not torch.equal(value, second[name])] == []


def assert_began_after(out: Path, round_number: int) -> None:
    """Check that a run has not made a round itself, which its settings would have let it keep."""
    assert not Path(kept_state(out, round_number)).exists()


def continues_with_the_same_bits(
    run: Callable[..., Model], folder: Path, round_number: int, caplog: pytest.LogCaptureFixture
) -> Model:
    """Return the model of a whole run in a folder, and check that one which continues from its round ends with it.

    The log has what the continued run says.
    """
    whole = run(folder / "whole")
    caplog.clear()
    continued = run(folder / "continued", resume_from=kept_state(folder / "whole", round_number))
    assert_began_after(folder / "continued", round_number)
    assert same_model(continued, whole)
    return whole
