"""Whole runs of RMD: its first network without its parts, runs that are continued, and NVFlare's simulator."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.whole_runs import Model, assert_began_after, job_folder, kept_state, run_job, same_model
from test_simulator import job_for, run_simulator

from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.networks.second_network import SECOND_NETWORK

SMALL = {
    "rounds": 2,
    "keep_rounds": [1],
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.learning_rate": 0.02,
    "training.learning_rate_steps": [],
    "training.batch_size": 2,
    "training.local_epochs": 1,
}


def run(out: Path, job: str = "rmd", **changes: Any) -> Model:
    return run_job(job, SMALL | changes, out)


def second_of(both: Model) -> Model:
    prefix = f"{SECOND_NETWORK}.network."
    return {name.removeprefix(prefix): value for name, value in both.items() if name.startswith(prefix)}


def test_without_its_parts_the_first_network_is_that_of_federated_averaging(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    # A gradient's norm is that of one network.
    same = {"rounds": 1, "keep_rounds": [], "training.gradient_clipping": 0.5, "training.augmentation": ["flip"]}
    averaged = run(tmp_path / "averaged", "fedavg", **same)
    both = run(tmp_path / "both", dropped_fraction=0, distillation_weight=0, **same)
    first = {name: value for name, value in both.items() if not name.startswith(f"{SECOND_NETWORK}.")}
    assert first.keys() == averaged.keys()
    assert all(torch.equal(value, averaged[name]) for name, value in first.items())
    second = second_of(both)
    assert len(both) == 2 * len(averaged)
    assert not torch.equal(second["final_conv.weight"], averaged["final_conv.weight"])


def test_without_its_parts_the_second_network_is_trained_by_itself(tmp_path: Path) -> None:
    """Federated averaging that begins with its start weights has the same model."""
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    short = {"rounds": 1, "keep_rounds": []}
    start = run(tmp_path / "start", **short, **{"training.learning_rate": 1e-30})
    torch.save(start, tmp_path / "both.pt")
    torch.save(second_of(start), tmp_path / "second.pt")
    both = run(
        tmp_path / "both", dropped_fraction=0, distillation_weight=0, start_model=str(tmp_path / "both.pt"), **short
    )
    averaged = run(tmp_path / "averaged", "fedavg", start_model=str(tmp_path / "second.pt"), **short)
    assert not torch.equal(averaged["final_conv.weight"], start["final_conv.weight"])
    assert same_model(second_of(both), averaged)


def test_a_continued_run_has_the_same_bits(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    # The second round changes images in all ways.
    settings = {"ramp_epochs": 1, "dropped_fraction": 0.2}
    whole = run(tmp_path / "whole", **settings)
    state = kept_state(tmp_path / "whole", 1)
    continued = run(tmp_path / "continued", resume_from=state, **settings)
    assert_began_after(tmp_path / "continued", 1)
    assert same_model(continued, whole)


@pytest.mark.simulator
def test_the_simulator_has_the_same_bits(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    whole = run(tmp_path / "whole", ramp_epochs=1)
    job = job_for(job_folder(tmp_path / "whole"), "site-1", "site-2")
    run_folder = run_simulator(job, tmp_path / "workspace", tmp_path / "data", 2)
    (model,) = run_folder.rglob("*model*.pt")
    assert same_model(torch.load(model, weights_only=True)["model"], whole)
