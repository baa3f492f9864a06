"""A run whose sites make their updates private: what is sent, what is spent, and what happens when it is spent."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console

from fedannot.apps.output import print_summary
from fedannot.apps.simulate import simulate
from fedannot.custom.privacy import spent_epsilon

MakeJob = Callable[..., Path]


def make_private(job: Path, arguments: str) -> None:
    """Give the sites of a job the filter, before the one that looks at what leaves."""
    config = job / "app" / "config" / "config_fed_client.conf"
    text = config.read_text(encoding="utf-8")
    given = "filters = [{ path"
    assert text.count(given) == 1
    added = (
        f"filters = [{{ path = fedannot.custom.flare.privacy_filter.PrivacyFilter, args {{ {arguments} }} }}, {{ path"
    )
    config.write_text(text.replace(given, added))


@pytest.mark.parametrize("task_process", [False, True])
def test_what_is_spent_is_in_the_summary(small_job: MakeJob, tmp_path: Path, task_process: bool) -> None:
    job = small_job("fedavg", rounds=2, embedded__sites=2, task_process=task_process)
    make_private(job, "clip_norm = 0.1, noise_multiplier = 2.0, delta = 1e-6, seed = 1")
    summary = simulate(job, tmp_path / "out")
    assert summary["refusals"] == []
    expected = spent_epsilon(2 / 4.0, 1e-6)
    for report in summary["sites"].values():
        assert report["privacy_epsilon"] == pytest.approx(expected)
        assert report["privacy_delta"] == 1e-6
    console = Console(record=True, width=200)
    print_summary(summary, console)
    assert f"site-1: updates with differential privacy, spent ε = {expected:.3g} at δ = 1e-06" in console.export_text()
    ledger = json.loads((tmp_path / "out" / "run" / "site-1" / "fedannot_privacy.json").read_text(encoding="utf-8"))
    assert ledger == {"updates": 2, "mu_squared": 0.5}


def test_a_site_sends_nothing_more_when_its_budget_is_spent(small_job: MakeJob, tmp_path: Path) -> None:
    budget = (spent_epsilon(2 / 4.0, 1e-5) + spent_epsilon(3 / 4.0, 1e-5)) / 2
    job = small_job("fedavg", rounds=4, embedded__sites=2, max_failed_rounds=9)
    make_private(job, f"clip_norm = 0.1, noise_multiplier = 2.0, max_epsilon = {budget}")
    summary = simulate(job, tmp_path / "out")
    refused = {(entry["round"], entry["site"]) for entry in summary["refusals"]}
    assert refused == {(number, site) for number in (3, 4) for site in ("site-1", "site-2")}
    assert "One more update would spend epsilon" in (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")


def test_no_update_is_longer_than_the_clip_and_the_noise(small_job: MakeJob, tmp_path: Path) -> None:
    """With next to no noise the model's way in a round is at most as long as the clip."""
    job = small_job("fedavg", rounds=1, embedded__sites=2, training__learning_rate=0.1)
    make_private(job, "clip_norm = 0.01, noise_multiplier = 1e-6, seed = 0")
    simulate(job, tmp_path / "private")
    still = small_job("fedavg", rounds=1, embedded__sites=2, training__learning_rate=1e-30)
    simulate(still, tmp_path / "still", data=tmp_path / "private" / "data")
    ends = [torch.load(tmp_path / name / "model.pt", weights_only=True)["model"] for name in ("private", "still")]
    names = [name for name in ends[0] if name.endswith(("weight", "bias"))]
    way = math.sqrt(sum(float((ends[0][name] - ends[1][name]).double().square().sum()) for name in names))
    assert 0 < way <= 0.0101
