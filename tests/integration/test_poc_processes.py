"""Every method with a server of its own kind, from submission to the downloaded model, in NVFlare's proof of concept.

Apart from the suite, since it takes three minutes: `make test-poc`. CI runs that of auto.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import SMALL, SMALL_FEDIA
from plain_records import simulate
from real_processes import Poc, started_poc

pytestmark = pytest.mark.processes

SITES = ("site-1", "site-2", "site-3", "site-4")
END_TIMEOUT = 240
SETTINGS: dict[str, dict[str, Any]] = {
    "fedaaai": SMALL | {"warmup_rounds": 1, "min_predicted_fraction": 0.0, "group_test_level": 1.0},
    "fedia": SMALL | SMALL_FEDIA | {"embedded.sites": 4, "embedded.completeness": [0.3, 0.5, 0.8, 1.0]},
    "auto": SMALL | {"warmup_rounds": 1, "min_predicted_fraction": 0.0},
    "fedgsca": {
        "rounds": 3,
        "warmup_rounds": 1,
        "network.widths": [4, 4, 8, 8],
        "training.local_epochs": 1,
        "embedded.images_per_site": 16,
        "embedded.test_images": 16,
    },
}


@pytest.fixture(scope="module")
def poc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poc]:
    with started_poc(SITES, tmp_path_factory) as started:
        yield started


@pytest.mark.parametrize("name", SETTINGS)
def test_a_job_goes_from_submission_to_the_model(poc: Poc, name: str, tmp_path: Path) -> None:
    """All four sites take part to the end, and the model is that of the in-process run."""
    job_id = poc.submit_with(name, SETTINGS[name])
    assert poc.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    workspace = poc.download(job_id, tmp_path / "results")
    summary = json.loads((workspace / "summary.json").read_text(encoding="utf-8"))
    assert summary["rounds_finished"] == SETTINGS[name]["rounds"]
    assert set(summary["sites"]) == set(SITES)
    assert summary["refusals"] == []
    simulate(Path(__file__).parents[2] / "jobs" / name, tmp_path / "here", overrides=SETTINGS[name])
    files = workspace / "app_server" / "FL_global_model.pt", tmp_path / "here" / "model.pt"
    one, other = (torch.load(file, weights_only=True)["model"] for file in files)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
