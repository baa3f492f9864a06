"""A site that fails is refused by name, and the run completes with the others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_records import in_words, simulate
from support.whole_runs import assert_same_model

from fedannot.apps.runs import in_process
from fedannot.apps.runs.in_process import InProcessCommunicator, RunError

FAULTS = {
    "nan": "not finite",
    "wrong shape": "shape",
    "missing keys": "missing entries",
    "stale round": "of round 0, expected 1",
    "too many samples": "its number of samples is 1000000000000, expected 1 to",
    "raises": "EXECUTION_EXCEPTION",
    "case names": "TASK_RESULT_FILTER_ERROR",
    "a field of another method": "TASK_RESULT_FILTER_ERROR",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_spoiled_result_is_refused_by_name(fault: str, faulty_job: Callable[..., Path], tmp_path: Path) -> None:
    summary = simulate(faulty_job({"site-2": fault}, rounds=1), tmp_path / "out")
    (refusal,) = summary["refusals"]
    assert refusal["site"] == "site-2"
    assert FAULTS[fault] in in_words(refusal["reason"])
    assert set(summary["sites"]) == {"site-1", "site-3", "site-4"}
    assert summary["rounds_finished"] == 1
    assert "patient_0815" not in json.dumps(summary), "what a site's error says stays at the site"
    model = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"]
    assert all(bool(tensor.isfinite().all()) for tensor in model.values())


def test_a_refused_site_leaves_the_others_average(
    small_job: Callable[..., Path], faulty_job: Callable[..., Path], tmp_path: Path
) -> None:
    """The model of a run in which one site always fails is the model of the run without that site."""
    simulate(faulty_job({"site-4": "nan"}, rounds=2), tmp_path / "with")
    federation = tmp_path / "with" / "data" / "federation.yaml"
    federation.write_text(federation.read_text(encoding="utf-8").replace("- site-4\n", ""))
    without = small_job("fedavg", rounds=2, embedded__sites=4)
    simulate(without, tmp_path / "without", data=tmp_path / "with" / "data")
    assert_same_model(tmp_path / "with", tmp_path / "without")


def test_a_duplicate_is_refused(
    small_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job("fedavg", rounds=1)
    simulate(job, tmp_path / "once")

    def deliver_twice(self: InProcessCommunicator, task: Any, fl_ctx: Any, targets: Any = None, *rest: Any) -> None:
        receive = task.result_received_cb

        def receive_twice(client_task: Any, fl_ctx: Any) -> None:
            result = client_task.result
            receive(client_task=client_task, fl_ctx=fl_ctx)
            client_task.result = result
            receive(client_task=client_task, fl_ctx=fl_ctx)

        task.result_received_cb = receive_twice
        original(self, task, fl_ctx, targets, *rest)

    original = InProcessCommunicator.broadcast
    monkeypatch.setattr(in_process.InProcessCommunicator, "broadcast", deliver_twice)
    twice = simulate(job, tmp_path / "twice", data=tmp_path / "once" / "data")
    assert {refusal["site"] for refusal in twice["refusals"]} == {"site-1", "site-2", "site-3", "site-4"}
    assert all(refusal["reason"]["code"] == "second_result" for refusal in twice["refusals"])
    assert_same_model(tmp_path / "once", tmp_path / "twice")


def test_a_run_without_any_usable_result_ends_with_an_error(faulty_job: Callable[..., Path], tmp_path: Path) -> None:
    everyone = {f"site-{number}": "nan" for number in range(1, 5)}
    with pytest.raises(RunError, match=r"Fewer than 1 usable results in 2 rounds in a row.*site-1: .*not finite"):
        simulate(faulty_job(everyone, rounds=5, max_failed_rounds=2), tmp_path / "out")


def test_a_round_with_too_few_sites_leaves_the_model(faulty_job: Callable[..., Path], tmp_path: Path) -> None:
    job = faulty_job({"site-1": "nan", "site-2": "raises"}, rounds=1, min_sites=3)
    summary = simulate(job, tmp_path / "out")
    start = simulate(faulty_job({}, rounds=1, training__learning_rate=1e-30), tmp_path / "start")
    assert summary["rounds_finished"] == start["rounds_finished"] == 1
    models = [torch.load(tmp_path / out / "model.pt", weights_only=True)["model"] for out in ("out", "start")]
    name = "conv_0.conv_0.conv.weight"
    assert torch.allclose(models[0][name], models[1][name], rtol=0, atol=1e-8)


def test_feda3i_goes_on_without_the_estimate_of_a_failing_site(faulty_job: Callable[..., Path], tmp_path: Path) -> None:
    summary = simulate(faulty_job({"site-3": "raises"}, name="fedaaai"), tmp_path / "out")
    assert set(summary["estimate"]["sites"]) == {"site-1", "site-2", "site-4"}
    assert {refusal["site"] for refusal in summary["refusals"]} == {"site-3"}


def test_an_incomplete_estimate_is_refused_by_name(faulty_job: Callable[..., Path], tmp_path: Path) -> None:
    """The site still trains, and counts by its quantity."""
    job = faulty_job({"site-3": "incomplete estimate"}, name="fedaaai", rounds=2, group_test_level=1.0)
    summary = simulate(job, tmp_path / "out")
    reason = {"code": "field_missing", "values": {"field": "inner_difficulty"}}
    assert summary["refusals"] == [{"round": 2, "site": "site-3", "reason": reason}]
    assert set(summary["estimate"]["sites"]) == {"site-1", "site-2", "site-4"}
    assert set(summary["sites"]) == {"site-1", "site-2", "site-3", "site-4"}
    if weights := summary["weights"]:
        row = weights["values"][weights["sites"].index("site-3")]
        assert row == pytest.approx([0.25] * len(row))


def test_a_site_that_exaggerates_is_scaled_down_and_named(faulty_job: Callable[..., Path], tmp_path: Path) -> None:
    """Its fraction of the model's way is as large as the bound allows, and no longer all of it."""

    def way(name: str, faults: dict[str, str], ratio: float | None) -> tuple[float, dict[str, Any]]:
        job = faulty_job(faults, rounds=1, influence__max_update_ratio=ratio)
        summary = simulate(job, tmp_path / name, data=tmp_path / "honest" / "data" if name != "honest" else None)
        end = torch.load(tmp_path / name / "model.pt", weights_only=True)["model"]
        return float(end["conv_0.conv_0.conv.weight"].norm()), summary

    lying = {"site-3": "exaggerates"}
    honest, summary = way("honest", {}, 4.0)
    assert summary["bounded"] == []
    bounded, summary = way("bounded", lying, 4.0)
    (entry,) = summary["bounded"]
    assert (entry["round"], entry["site"]) == (1, "site-3")
    # 50 times as long as an update of its own, cut to four times the others' median in every part of the network.
    assert 0.02 < entry["update_factor"] < 0.12
    unbounded, summary = way("unbounded", lying, None)
    assert summary["bounded"] == []
    assert abs(bounded - honest) < 0.2 * abs(unbounded - honest)


def test_shares_stay_within_their_bounds(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """Two of six samples are a third; the upper bound of 0.6 for the other leaves 0.4. Who has more is not named."""
    job = small_job("fedavg", rounds=1, embedded__sites=2)
    simulate(job, tmp_path / "by samples")
    data = tmp_path / "by samples" / "data"
    datalist = data / "site-1" / "datalist.json"
    cases = json.loads(datalist.read_text(encoding="utf-8"))
    cases["training"] = cases["training"][:2]
    datalist.write_text(json.dumps(cases))
    summary = simulate(job, tmp_path / "bounded", data=data, overrides={"influence.max_share": 0.6})
    shares = {entry["site"]: entry["share"] for entry in summary["bounded"]}
    assert shares == {"site-2": pytest.approx([0.6] * 10)}


@pytest.mark.simulator
def test_tasks_in_processes_of_their_own_give_the_same_bits(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = small_job("fedaaai", rounds=2, embedded__sites=2)
    simulate(job, tmp_path / "here")
    federation = tmp_path / "here" / "data"
    summary = simulate(job, tmp_path / "apart", data=federation, overrides={"task_process": True})
    assert summary["refusals"] == []
    assert_same_model(tmp_path / "here", tmp_path / "apart")


@pytest.mark.parametrize(
    ("task", "task_process", "num_sites"),
    [("estimate_completeness", False, 2), ("estimate_completeness", True, 1), (None, False, 2)],
)
def test_a_task_that_the_jobs_method_does_not_have_is_refused_and_the_job_goes_on(
    task: str | None, task_process: bool, num_sites: int, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    """With one site where each needs a process that imports all again."""
    job = small_job("fedavg", rounds=1, embedded__sites=num_sites, task_process=task_process)
    config = job / "app" / "config" / "config_fed_server.conf"
    text = config.read_text(encoding="utf-8")
    path, arguments = "fedannot.custom.flare.controller.FederatedController", "args { settings = ${?settings} }"
    assert text.count(f"{path}\n    {arguments}") == 1
    asked = f"args {{ settings = ${{?settings}}, task = {json.dumps(task)} }}"
    config.write_text(
        text.replace(f"{path}\n    {arguments}", f"faulty_controllers.AskingTooMuchController\n    {asked}")
    )
    summary = simulate(job, tmp_path / "out")
    sites = {f"site-{number + 1}" for number in range(num_sites)}
    assert {refusal["site"]: refusal["reason"]["code"] for refusal in summary["refusals"]} == dict.fromkeys(
        sites, "task_not_known"
    )
    assert (summary["rounds_finished"], set(summary["sites"])) == (1, sites)
    log = (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")
    assert f"Task {str(task)!r} is not known to the method 'fedavg'" in log


@pytest.mark.simulator
def test_a_killed_task_process_costs_one_result(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """The site takes part again in the next round, in a new process."""
    job = small_job("fedavg", rounds=2, embedded__sites=2, task_process=True)
    config = job / "app" / "config" / "config_fed_client.conf"
    text = config.read_text(encoding="utf-8")
    config.write_text(
        text.replace("fedannot.custom.flare.executor.FederatedExecutor", "faulty_executors.DyingExecutor")
    )
    summary = simulate(job, tmp_path / "out")
    (refusal,) = summary["refusals"]
    assert (refusal["round"], refusal["site"]) == (1, "site-2")
    assert refusal["reason"]["code"] == "process_died"
    assert set(summary["sites"]) == {"site-1", "site-2"}
    assert "its process died (signal 9)" in (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")
