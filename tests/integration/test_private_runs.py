"""A run whose sites make their updates private: what is sent, what is spent, and what happens when it is spent."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import JOBS
from plain_records import simulate
from test_fedgsca_runs import SMALL as SMALL_SELECTION

from fedannot.apps.reports.output import read_summary
from fedannot.apps.reports.summary_text import print_summary
from fedannot.apps.runs.job import Job
from fedannot.apps.terminal import Terminal
from fedannot.custom.flare import privacy_filter
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.outbound.private_updates import spent_epsilon

MakeJob = Callable[..., Path]

PRIVATE = "clip_norm = 0.1, noise_multiplier = 2.0"


@pytest.fixture(autouse=True)
def _repeated_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw noise from a seed, so that chance never decides a test; in use it is the operating system's."""
    monkeypatch.setattr(privacy_filter, "os", SimpleNamespace(urandom=np.random.default_rng(3).bytes))


def make_private(job: Path, arguments: str, name: str = "PrivacyFilter") -> None:
    """Give the sites of a job a filter, before the one that looks at what leaves."""
    config = job / "app" / "config" / "config_fed_client.conf"
    text = config.read_text(encoding="utf-8")
    given = "filters = [{ path"
    assert text.count(given) == 1
    added = f"filters = [{{ path = fedannot.custom.flare.privacy_filter.{name}, args {{ {arguments} }} }}, {{ path"
    config.write_text(text.replace(given, added))


@pytest.mark.parametrize(("task_process", "num_sites"), [(False, 2), (True, 1)])
def test_what_is_spent_is_in_the_summary(
    small_job: MakeJob, tmp_path: Path, task_process: bool, num_sites: int
) -> None:
    """With one site where each needs a process that imports all again."""
    job = small_job("fedavg", rounds=2, embedded__sites=num_sites, task_process=task_process)
    make_private(job, "clip_norm = 0.1, noise_multiplier = 2.0, delta = 1e-6")
    summary = simulate(job, tmp_path / "out")
    assert summary["refusals"] == []
    expected, of_patient = spent_epsilon(2 / 4.0, 1e-6), spent_epsilon(4 * 2 / 4.0, 1e-6)
    assert len(summary["sites"]) == num_sites
    for report in summary["sites"].values():
        assert report["privacy_epsilon"] == pytest.approx(expected)
        assert report["privacy_delta"] == 1e-6
        assert report["patient_epsilon"] == pytest.approx(of_patient)
    console = Terminal(record=True, width=200)
    print_summary(read_summary(tmp_path / "out"), console)
    said = console.export_text()
    spent = "site-1: differential privacy of"
    assert f"{spent} the site's taking part, by its updates: spent ε = {expected:.3g} at δ = 1e-06" in said
    assert f"{spent} a patient, by updates and quality statistics together: spent ε = {of_patient:.3g} at" in said
    ledger = json.loads((tmp_path / "out" / "run" / "site-1" / "fedannot_privacy.json").read_text(encoding="utf-8"))
    assert ledger == {
        "updates": {"results": 2, "mu_squared": 0.5},
        "statistics": {"results": 0, "mu_squared": 0.0},
    }


@pytest.mark.parametrize(("name", "private"), [("fedia", True), ("fedavg", False)])
def test_a_training_that_fails_at_one_site_is_seen_by_nobody_else(
    small_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, private: bool
) -> None:
    """Where updates are private, it is one more update with noise, of the same fields; else a refusal."""
    train = FedAvgSite.train_on

    def failing(self: FedAvgSite, batches: Any, network: Any, site: Any, *targets: Any) -> Any:
        if (site.name, site.round_number) == ("site-1", 2):
            raise FloatingPointError("The loss is not finite.")
        return train(self, batches, network, site, *targets)

    monkeypatch.setattr(FedAvgSite, "train_on", failing)
    job = small_job(name, rounds=2, embedded__sites=2, min_sites=1)
    if private:
        make_private(job, PRIVATE)
    summary = simulate(job, tmp_path / "out")
    refused = [(entry["round"], entry["site"]) for entry in summary["refusals"]]
    assert refused == ([] if private else [(2, "site-1")])
    assert "The loss is not finite." in (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")
    if private:
        one, other = (summary["sites"][site] for site in ("site-1", "site-2"))
        assert set(one) == set(other)
        assert {key for key in one if one[key] != other[key]} <= {"num_samples"}
        ledgers = [tmp_path / "out" / "run" / site / "fedannot_privacy.json" for site in ("site-1", "site-2")]
        assert ledgers[0].read_bytes() == ledgers[1].read_bytes()
        assert json.loads(ledgers[0].read_text(encoding="utf-8"))["updates"]["results"] == 2


def test_a_site_sends_nothing_more_when_its_budget_is_spent(small_job: MakeJob, tmp_path: Path) -> None:
    budget = (spent_epsilon(4 * 2 / 4.0, 1e-5) + spent_epsilon(4 * 3 / 4.0, 1e-5)) / 2
    job = small_job("fedavg", rounds=4, embedded__sites=2, max_failed_rounds=9)
    make_private(job, f"clip_norm = 0.1, noise_multiplier = 2.0, max_epsilon = {budget}")
    summary = simulate(job, tmp_path / "out")
    refused = {(entry["round"], entry["site"]) for entry in summary["refusals"]}
    assert refused == {(number, site) for number in (3, 4) for site in ("site-1", "site-2")}
    assert "One more result would spend epsilon" in (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")


def test_no_update_is_longer_than_the_clip_and_the_noise(small_job: MakeJob, tmp_path: Path) -> None:
    """With next to no noise the model's way in a round is at most as long as the clip."""
    job = small_job("fedavg", rounds=1, embedded__sites=2, training__learning_rate=0.1)
    make_private(job, "clip_norm = 0.01, noise_multiplier = 1e-6")
    simulate(job, tmp_path / "private")
    still = small_job("fedavg", rounds=1, embedded__sites=2, training__learning_rate=1e-30)
    simulate(still, tmp_path / "still", data=tmp_path / "private" / "data")
    ends = [torch.load(tmp_path / name / "model.pt", weights_only=True)["model"] for name in ("private", "still")]
    names = [name for name in ends[0] if name.endswith(("weight", "bias"))]
    way = math.sqrt(sum(float((ends[0][name] - ends[1][name]).double().square().sum()) for name in names))
    assert 0 < way <= 0.0101


_COUNTED = ("annotated", "predicted")


# Bounds that cut nothing, so that noise is all that a filter changes.
WIDE = "largest { inner_difficulty = 20, outer_difficulty = 20 }"


def make_statistics_private(job: Path, arguments: str) -> None:
    make_private(job, arguments, "StatisticsPrivacyFilter")


def test_estimates_get_noise_and_what_has_none_stays(small_job: MakeJob, tmp_path: Path) -> None:
    """With next to no noise the estimate is the one without the filter; with much it is another."""
    settings = {"rounds": 3, "group_test_level": 1.0}
    plain = simulate(small_job("fedaaai", **settings), tmp_path / "plain")
    result = {}
    for noise in (1e-9, 5.0):
        job = small_job("fedaaai", **settings)
        make_statistics_private(job, f"noise_multiplier = {noise}, {WIDE}")
        result[noise] = simulate(job, tmp_path / str(noise), data=tmp_path / "plain" / "data")
        assert result[noise]["refusals"] == []
        for report in result[noise]["sites"].values():
            assert report["train_loss"] is None
            assert "num_patients" not in report
    for site, predicted in plain["estimate"]["sites"].items():
        quiet, loud = (result[noise]["estimate"]["sites"][site] for noise in (1e-9, 5.0))
        assert quiet["inner"] == pytest.approx(predicted["inner"], abs=1e-6)
        assert quiet["outer"] == pytest.approx(predicted["outer"], abs=1e-6)
        assert loud["inner"] != pytest.approx(predicted["inner"], abs=1e-3)
    expected = spent_epsilon(1 / 25.0, 1e-5)
    assert all(report["statistics_epsilon"] == pytest.approx(expected) for report in result[5.0]["sites"].values())
    console = Terminal(record=True, width=200)
    print_summary(read_summary(tmp_path / "5.0"), console)
    said = (
        f"site-1: differential privacy of a patient, by quality statistics alone: spent ε = {expected:.3g} at δ = 1e-05"
    )
    assert said in console.export_text()


@pytest.mark.simulator
def test_a_process_for_tasks_changes_nothing(small_job: MakeJob, tmp_path: Path) -> None:
    """What the statistics are made of comes from it, too."""
    estimates = []
    for task_process in (False, True):
        job = small_job("fedaaai", rounds=2, embedded__sites=2, task_process=task_process)
        make_statistics_private(job, f"noise_multiplier = 1e-9, {WIDE}")
        estimates.append(simulate(job, tmp_path / str(task_process))["estimate"]["sites"])
    assert len(estimates[0]) == len(estimates[1]) == 2
    for site, predicted in estimates[0].items():
        for part in ("inner", "outer"):
            assert estimates[1][site][part] == pytest.approx(predicted[part], abs=1e-6)


def test_lesion_counts_get_noise_and_the_dice_loss_stays(small_job: MakeJob, tmp_path: Path) -> None:
    job = small_job("fedia", rounds=3)
    bounds = ", ".join(f"num_{of}_lesions = 1000" for of in _COUNTED)
    make_statistics_private(job, f"noise_multiplier = 0.5, largest {{ {bounds} }}")
    summary = simulate(job, tmp_path / "out")
    assert summary["refusals"] == []
    assert all("dice_loss" not in report for report in summary["sites"].values())
    counts = [predicted[f"num_{of}_lesions"] for predicted in summary["completeness"].values() for of in _COUNTED]
    # The bound of 1000 lesions in a case makes it large beside the true numbers, some ten.
    assert max(counts) > 100
    assert min(counts) >= 0


def test_no_estimate_leaves_when_the_budget_is_spent(
    small_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget is for one; the warm-up model is predicted unfit, and the estimate is asked for again."""
    budget = (spent_epsilon(1 / 4.0, 1e-5) + spent_epsilon(2 / 4.0, 1e-5)) / 2
    job = small_job("fedaaai", rounds=5, min_predicted_fraction=0.5, max_extra_warmup_rounds=2)
    # With noise all shares may look fit by chance.
    monkeypatch.setattr("fedannot.custom.methods.feda3i.server.mean_predicted_share", lambda answers: 0.0)
    make_statistics_private(job, f"noise_multiplier = 2.0, max_epsilon = {budget}")
    summary = simulate(job, tmp_path / "out")
    assert summary["rounds_finished"] == 5
    assert summary["refusals"]
    assert "the bound for statistics is" in (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("updates_first", [False, True])
def test_an_update_and_statistics_have_accounts_of_their_own(
    small_job: MakeJob, tmp_path: Path, updates_first: bool
) -> None:
    job = small_job("fedaaai", rounds=3)
    filters = [("StatisticsPrivacyFilter", f"noise_multiplier = 4, {WIDE}"), ("PrivacyFilter", PRIVATE)]
    for name, arguments in filters if updates_first else reversed(filters):
        # Each is put before those that are there.
        make_private(job, arguments, name)
    summary = simulate(job, tmp_path / "out")
    assert summary["refusals"] == []
    assert len(summary["estimate"]["sites"]) == 4
    ledger = json.loads((tmp_path / "out" / "run" / "site-1" / "fedannot_privacy.json").read_text(encoding="utf-8"))
    assert ledger["updates"] == {"results": 3, "mu_squared": 0.75}
    assert ledger["statistics"] == {"results": 1, "mu_squared": 0.0625}
    report = summary["sites"]["site-1"]
    assert report["statistics_epsilon"] == pytest.approx(spent_epsilon(0.0625, 1e-5))
    assert report["patient_epsilon"] == pytest.approx(spent_epsilon(4 * 0.75 + 0.0625, 1e-5))


# What a site says of its training beside private updates.
_SAID = {"num_samples", "num_excluded", "embedded_data", "num_threads"}
_SAID |= {"privacy_epsilon", "privacy_delta", "patient_epsilon"}


@pytest.mark.parametrize("name", ["fedaaai", "fedia"])
def test_methods_go_on_with_sites_that_send_nothing_but_private_updates(
    small_job: MakeJob, tmp_path: Path, name: str
) -> None:
    """No site has an estimate, and all weigh by their numbers of samples."""
    job = small_job(name, rounds=4, max_extra_warmup_rounds=1)
    make_private(job, PRIVATE)
    summary = simulate(job, tmp_path / "out")
    assert (summary["rounds_finished"], summary["refusals"]) == (4, [])
    for report in summary["sites"].values():
        assert {field for field, value in report.items() if value is not None} - {"has_corrected"} == _SAID
        assert report["train_loss"] is None
    if name == "fedaaai":
        assert summary["estimate"]["sites"] == {}
        assert summary["weights"] is None
    else:
        assert summary["completeness"] == {}


def test_sample_selection_goes_on_with_sites_that_send_no_selector(tmp_path: Path) -> None:
    job = Job.open(JOBS / "fedgsca").copy_with(SMALL_SELECTION, tmp_path / "job").folder
    make_private(job, PRIVATE)
    summary = simulate(job, tmp_path / "out")
    assert (summary["rounds_finished"], summary["refusals"]) == (4, [])
    assert summary["selector"] is None
    for report in summary["sites"].values():
        assert {field for field, value in report.items() if value is not None} == _SAID


def test_how_a_site_annotates_can_be_said_with_noise(small_job: MakeJob, tmp_path: Path) -> None:
    """With next to no noise the mean of its offsets is near their median."""
    eager = {"rounds": 2, "warmup_rounds": 1, "estimates": 1, "min_predicted_fraction": 0.0, "embedded__sites": 3}
    eager |= {"boundary_evidence": "model"}
    plain = simulate(small_job("auto", **eager), tmp_path / "plain")["channels"][0]["sites"]
    # Of so few patients images say nothing with noise, and the model alone counts.
    job = small_job("auto", **eager | {"boundary_evidence": "both"}, unknown_images="in_domain")
    make_statistics_private(job, "noise_multiplier = 1e-9")
    summary = simulate(job, tmp_path / "noisy", data=tmp_path / "plain" / "data")
    assert summary["refusals"] == []
    compared = 0
    of_images, of_model = summary["channels"]
    witnesses = of_images["witnesses"]["1"]["sites"]
    assert set(witnesses) == set(of_model["sites"])
    assert not any(found["is_known"] for found in witnesses.values())
    assert any(found["estimate"] is not None for found in witnesses.values())
    for site, record in of_model["sites"].items():
        noisy, median = record["parameters"]["offset 1"], plain[site]["parameters"]["offset 1"]
        if median["estimate"] is None:
            continue
        compared += 1
        assert (noisy["patients"], noisy["slope"]) == (median["patients"], 1.0)
        assert noisy["low"] <= noisy["estimate"] <= noisy["high"]
        # A model of one round sees contours anywhere; offsets are cut to 8 pixels.
        assert noisy["estimate"] == pytest.approx(min(max(median["estimate"], -8), 8), abs=3.0)
        left_out, plain_left_out = record["parameters"]["missing 1"], plain[site]["parameters"]["missing 1"]
        assert left_out["patients"] == plain_left_out["patients"]
        assert left_out["estimate"] == pytest.approx(plain_left_out["estimate"], abs=1e-3)
    assert compared
    ledger = tmp_path / "noisy" / "run" / "site-1" / "fedannot_privacy.json"
    # A curve at one scale, and the estimate by the model.
    assert json.loads(ledger.read_text(encoding="utf-8"))["statistics"]["results"] == 2
