"""A run's numbers, settings and pictures at a tracking server, by NVFlare's receivers."""

import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tracking_servers import Kept, install_mlflow, install_wandb

from fedannot.apps import ProgressStep, simulate
from fedannot.apps.runs import tracking
from fedannot.apps.runs.job import JobError
from fedannot.apps.runs.tracking import Tracking


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "kept.jsonl")


def test_numbers_settings_and_pictures_reach_mlflow(
    small_job: Callable[..., Path], tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_mlflow(monkeypatch, kept)
    run = simulate(small_job("fedavg", rounds=2), tmp_path / "tracked", track="mlflow=http://here")
    assert kept.of("experiment") == [{"what": "experiment", "name": "fedannot", "uri": "http://here"}]
    assert [(item["experiment"], item["name"]) for item in kept.of("run")] == [("7", "tracked")]
    # What the summary has, round by round; and what sites reported, which came by the server alone.
    result = {(item["key"], item["step"]): item["value"] for item in kept.of("metric")}
    for record in run.summary.rounds:
        assert result["dice", record.round] == record.main_score
        assert result["dice/class 1", record.round] == record.main_score
        assert result["learning_rate", record.round] > 0
    assert {(f"train_loss/site-{site}", number) for site in (1, 2, 3, 4) for number in (1, 2)} <= set(result)
    parameters = {item["key"]: item["value"] for item in kept.of("param")}
    assert (parameters["rounds"], parameters["training.local_epochs"], parameters["method"]) == ("2", "1", "fedavg")
    assert {item["file"] for item in kept.of("artifact")} == {file.name for file in run.pictures}
    assert {item["run"] for item in (*kept.of("metric"), *kept.of("artifact"), *kept.of("end"))} == {"run-1"}
    assert len(kept.of("end")) == 1


def test_a_run_that_goes_on_goes_on_there(
    small_job: Callable[..., Path], tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_mlflow(monkeypatch, kept)
    simulate(small_job("fedavg", rounds=1), tmp_path / "tracked", track="mlflow=http://here")
    simulate(small_job("fedavg", rounds=2), tmp_path / "tracked", track="mlflow=http://here", resume=True)
    assert len(kept.of("run")) == 1
    assert [(item["run"], item["step"]) for item in kept.of("metric") if item["key"] == "dice"] == [
        ("run-1", 1),
        ("run-1", 2),
    ]


def test_a_server_that_does_not_answer_is_refused_before_the_first_round(
    tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_mlflow(monkeypatch, kept)
    with pytest.raises(
        JobError, match=r"^--track mlflow=http://nowhere: .* ConnectionError: nobody answers\. Expected"
    ):
        simulate("fedavg", tmp_path / "out", track="mlflow=http://nowhere")
    assert not (tmp_path / "out").exists()


def test_a_server_that_never_answers_is_waited_for_no_longer_than_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    monkeypatch.setattr(Tracking, "_ask", lambda tracking: waits.wait(timeout=10))
    monkeypatch.setattr(tracking, "_LONGEST_WAIT", 0.05)
    with pytest.raises(JobError, match=r"TimeoutError: no answer within 0\.05 s"):
        Tracking("mlflow", "http://slow").check()
    waits.set()


def test_a_server_that_stops_answering_does_not_end_the_run(
    small_job: Callable[..., Path], tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answered before the run."""
    install_mlflow(monkeypatch, kept)
    monkeypatch.setattr(Tracking, "check", lambda tracking: None)
    steps: list[ProgressStep] = []
    job = small_job("fedavg", rounds=1)
    run = simulate(job, tmp_path / "tracked", track="mlflow=http://nowhere", on_progress=steps.append)
    assert run.summary.rounds_finished == 1
    texts = [step.text for step in steps if step.stays]
    assert any("nobody answers" in text for text in texts)
    assert texts[-1] == f"warning: the run was not tracked; {tmp_path / 'tracked' / 'log.txt'} says why."


def test_numbers_settings_and_pictures_reach_weights_and_biases(
    small_job: Callable[..., Path], tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_wandb(monkeypatch, kept)
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = simulate(small_job("fedavg", rounds=2), tmp_path / "tracked", track="wandb=annotations")
    begun, pictured = kept.of("init")
    assert (begun["project"], begun["mode"], begun["config"]["rounds"]) == ("annotations", "offline", 2)
    assert (pictured["project"], pictured["id"]) == ("annotations", begun["id"])
    logged = kept.of("log")
    scores = {item["step"]: item["values"]["dice"] for item in logged if "dice" in item["values"]}
    assert scores == {record.round: record.main_score for record in run.summary.rounds}
    assert set(logged[-1]["values"].values()) == {file.name for file in run.pictures}
    assert len(kept.of("end")) == 2


@pytest.mark.parametrize("text", ["mlflow", "mlflow=", "other=here", "=here"])
def test_what_is_no_tracking_server_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"expected mlflow=URI or wandb=PROJECT\.$"):
        simulate("fedavg", tmp_path / "out", track=text)
    assert not (tmp_path / "out").exists()


def test_what_is_not_installed_is_named_with_the_command() -> None:
    if importlib.util.find_spec("mlflow") is not None:
        pytest.skip("MLflow is installed here")
    with pytest.raises(JobError, match=r"mlflow is not installed\. Install it with: pip install 'mlflow-skinny>=3'$"):
        Tracking.parse("mlflow=http://here")
