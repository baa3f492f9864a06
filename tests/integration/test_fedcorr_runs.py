"""Whole runs of FedCorr: parts that are left out, a run that is continued, and the simulator."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS
from plain_records import collect_output, simulate
from support.whole_runs import assert_began_after, kept_state, model_of, same_model
from test_simulator import job_for, run_simulator

from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

COMMON = {
    "rounds": 5,
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.upsample": "nontrainable",
    "training.batch_size": 2,
    "training.local_epochs": 1,
}
STAGES = {"preprocessing_rounds": 2, "finetuning_rounds": 1, "keep_rounds": [2]}


def job_of(name: str, folder: Path, **changes: Any) -> Path:
    return Job.open(JOBS / name).copy_with(COMMON | changes, folder).folder


def run(job: Path, out: Path) -> dict[str, torch.Tensor]:
    simulate(job, out, data=out.parent / "data")
    return model_of(out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fedcorr")
    write_phantom_federation(folder / "data", LesionImages(), num_sites=3, images_per_site=4, test_images=1)
    run(job_of("fedcorr", folder / "job", **STAGES), folder / "whole")
    return folder


def test_sites_relabel_after_the_first_two_rounds_and_train_in_stages(whole: Path) -> None:
    server = whole / "whole/run/server/simulate_job"
    rounds = [json.loads(line) for line in (server / "metrics.jsonl").read_text().splitlines()]
    assert [record["stage"] for record in rounds] == ["pre-processing"] * 2 + ["fine-tuning"] + ["usual training"] * 2
    assert [len(record["asked"]) for record in rounds] == [3, 3, 2, 3, 3]
    summary = json.loads((server / "summary.json").read_text())
    assert set(summary["noise_shares"]) == set(summary["noisy_sites"])
    assert summary["noisy_sites"]
    assert {summary["corrected_before_round"][site] for site in summary["noisy_sites"]} == {4}


def test_a_continued_run_has_the_same_bits(whole: Path) -> None:
    """It takes over what was relabelled before round 2 and the sites' own models, and asks again before round 3."""
    state = kept_state(whole / "whole", 2)
    job = job_of("fedcorr", whole / "job-continued", **STAGES, resume_from=state)
    assert same_model(run(job, whole / "continued"), model_of(whole / "whole"))
    assert_began_after(whole / "continued", 2)


def test_without_its_parts_it_is_federated_averaging_bit_for_bit(whole: Path) -> None:
    plain = {"proximity_weight": 0.0, "correction": False, "mixup": 0.0, "finetuning_rounds": 0}
    plain |= {"preprocessing_rounds": 1, "rounds": 2}
    made = run(job_of("fedcorr", whole / "job-plain", **plain), whole / "plain")
    assert same_model(made, run(job_of("fedavg", whole / "job-fedavg", rounds=2), whole / "fedavg"))


@pytest.mark.simulator
def test_nvflares_simulator_has_the_same_bits(whole: Path) -> None:
    job = job_for(job_of("fedcorr", whole / "job-simulator", **STAGES), "site-1", "site-2", "site-3")
    folder = run_simulator(job, whole / "w", whole / "data", 3)
    collect_output(folder, whole / "simulated")
    assert same_model(model_of(whole / "simulated"), model_of(whole / "whole"))
