"""Whole runs of `auto` for classification: clean labels, wrong ones, and runs that are killed and go on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS
from plain_records import simulate
from support.whole_runs import assert_same_model, model_of

from fedannot.apps.runs.job import Job
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.methods.auto_classification.site import AutoClassificationSite
from fedannot.custom.run.state import STATE_FILE, kept_state_file

SMALL = {
    "rounds": 5,
    "network.widths": [4, 4, 8, 8],
    "training.local_epochs": 1,
    "training.batch_size": 8,
    "embedded.sites": 2,
    "embedded.images_per_site": 48,
    "embedded.test_images": 16,
}
WARMUP = {"warmup_rounds": 2}

Make = Callable[..., Path]


@pytest.fixture
def small_job(tmp_path: Path) -> Make:
    """Return a function that makes a small job, by the name of its folder among the jobs."""

    def make(name: str = "auto_classification", **changes: Any) -> Path:
        own = {key.replace("__", "."): value for key, value in changes.items()}
        overrides = SMALL | (WARMUP if name == "auto_classification" else {}) | own
        number = len(list(tmp_path.glob("job-*")))
        return Job.open(JOBS / name).copy_with(overrides, tmp_path / f"job-{number}").folder

    return make


def everybody_is_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small network of two rounds proves nothing; what follows from a proof is tried all the same."""
    import fedannot.custom.methods.auto_classification.decision as module

    proves_all = {"min_auroc": 0.0, "slopes": (-1e9, 1e9), "min_support": -1.0}
    monkeypatch.setattr(module, "THRESHOLDS", module.THRESHOLDS.model_copy(update=proves_all))


def test_where_nothing_is_confirmed_it_is_federated_averaging_bit_for_bit(small_job: Make, tmp_path: Path) -> None:
    summary = simulate(small_job(floor=0.99, embedded__label_noise="0"), tmp_path / "auto")
    simulate(small_job("fedavg_classification", embedded__label_noise="0"), tmp_path / "fedavg")
    assert_same_model(tmp_path / "auto", tmp_path / "fedavg")
    assert [estimate["before_round"] for estimate in summary["noise_levels"]] == [3, 5]
    assert summary["corrected_from_round"] == {}
    stages = [record["stage"] for record in summary["rounds"]]
    assert stages == ["warm-up"] * 2 + ["federated averaging"] * 3


def test_confirmed_sites_correct_and_a_run_resumed_gives_the_same_bits(
    small_job: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the state after the third round, while the sites' folders are those after the last."""
    everybody_is_noisy(monkeypatch)
    whole = tmp_path / "whole"
    summary = simulate(small_job(keep_rounds=[3], embedded__label_noise="S50"), whole)
    assert summary["corrected_from_round"] == {"site-1": 3, "site-2": 3}
    assert [record["stage"] for record in summary["rounds"]][2:] == ["corrected"] * 3
    again = shutil.copytree(whole, tmp_path / "again")
    state = again / "run" / "server" / "simulate_job" / STATE_FILE
    shutil.copyfile(state.with_name(kept_state_file(3)), state)
    resumed = simulate(whole / "job", again, data=again / "data", resume=True)
    assert_same_model(whole, again)
    assert resumed["noise_levels"] == summary["noise_levels"]
    assert resumed["corrected_from_round"] == summary["corrected_from_round"]
    simulate(small_job("fedavg_classification", embedded__label_noise="S50"), tmp_path / "fedavg")
    corrected, plain = model_of(whole), model_of(tmp_path / "fedavg")
    assert any(not torch.equal(corrected[name], plain[name]) for name in corrected)


def test_a_run_that_dies_in_a_round_in_which_labels_are_corrected_goes_on_to_the_same_bits(
    small_job: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody_is_noisy(monkeypatch)
    job = small_job(embedded__label_noise="S50")
    simulate(job, tmp_path / "whole")
    original = AutoClassificationSite.train

    def dies(self: AutoClassificationSite, network: Any, site: Any) -> Any:
        if site.round_number == 4:
            raise KeyboardInterrupt
        return original(self, network, site)

    monkeypatch.setattr(AutoClassificationSite, "train", dies)
    with pytest.raises(BaseException):  # noqa: B017, PT011
        simulate(job, tmp_path / "killed", data=tmp_path / "whole" / "data")
    monkeypatch.setattr(AutoClassificationSite, "train", original)
    resumed = simulate(job, tmp_path / "killed", data=tmp_path / "whole" / "data", resume=True)
    assert_same_model(tmp_path / "whole", tmp_path / "killed")
    assert resumed["corrected_from_round"] == {"site-1": 3, "site-2": 3}


def test_the_rollback_check_changes_no_bit_before_it_takes_everything_back(
    small_job: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody_is_noisy(monkeypatch)
    changes: dict[str, Any] = {"embedded__label_noise": "S50", "second_estimate": None}
    alone = simulate(small_job(rollback_rounds=0, **changes), tmp_path / "alone")
    assert alone["rollback"] is None
    data = tmp_path / "alone" / "data"
    for file in data.glob("site-*/datalist.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps(content | {"reference": content["training"][:12]}))
    # Too few rounds to decide anything.
    checked = simulate(small_job(rollback_rounds=4, **changes), tmp_path / "checked", data=data)
    assert [(item["round"], item["sites"]) for item in checked["rollback"]["rounds"]] == [(3, 2), (4, 2), (5, 2)]
    assert_same_model(tmp_path / "checked", tmp_path / "alone")
    worse = Estimate(24, -0.1, -0.15, -0.05)
    monkeypatch.setattr("fedannot.custom.methods.auto.rollback_check.pooled_gains", lambda *_: worse)
    vetoed = simulate(small_job(rollback_rounds=1, **changes), tmp_path / "vetoed", data=data)
    assert vetoed["rollback"]["has_vetoed"]
    assert [record["stage"] for record in vetoed["rounds"]][2:] == [
        "corrected",
        "federated averaging",
        "federated averaging",
    ]
    assert vetoed["corrected_from_round"] == {}


def test_fedgsca_treats_all_sites_from_the_estimate_on_with_the_bits_of_its_own_job(
    small_job: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody_is_noisy(monkeypatch)
    treated = simulate(small_job(treatment="fedgsca", embedded__label_noise="S50"), tmp_path / "auto")
    alone = simulate(small_job("fedgsca", embedded__label_noise="S50", **WARMUP), tmp_path / "fedgsca")
    assert_same_model(tmp_path / "auto", tmp_path / "fedgsca")
    assert [record["stage"] for record in treated["rounds"]] == [record["stage"] for record in alone["rounds"]]
    assert treated["corrected_from_round"] == {}
    assert treated["noise_levels"][0]["sites"]["site-1"]["follows"] == "fedgsca"


def test_where_nothing_is_confirmed_fedgsca_does_not_begin(small_job: Make, tmp_path: Path) -> None:
    job = small_job(treatment="fedgsca", floor=0.99, rounds=3, embedded__label_noise="0")
    summary = simulate(job, tmp_path / "auto")
    assert summary["rounds"][-1]["stage"] == "federated averaging"
