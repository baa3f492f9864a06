"""A run that is killed between two rounds and resumed ends with the weights of an undisturbed one."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from dying_runs import POINTS, killed
from plain_records import simulate

from fedannot.apps.runs.job import Job, JobError
from fedannot.custom.data.file_locks import locked
from fedannot.custom.run.state import ResumeError

KILL_TIMEOUT_SECONDS = 120

# A run that is killed at one of its points, and resumed.
SHORT = {"rounds": 2, "warmup_rounds": 1, "embedded__sites": 2}


@pytest.mark.simulator
def test_killed_and_resumed_equals_undisturbed(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = small_job("fedaaai", rounds=6, warmup_rounds=2)
    whole = simulate(job, tmp_path / "whole")
    killed = tmp_path / "killed"
    kill_after_round(3, job, killed)
    resumed = simulate(job, killed, data=killed / "data", resume=True)
    assert resumed["rounds_finished"] == 6
    assert [record["round"] for record in resumed["rounds"]] == [1, 2, 3, 4, 5, 6]
    for one, other in zip(whole["rounds"], resumed["rounds"], strict=True):
        assert (one["stage"], one["dice"], one["hd95"]) == (other["stage"], other["dice"], other["hd95"])
    assert resumed["estimate"] == whole["estimate"]
    models = [torch.load(tmp_path / out / "model.pt", weights_only=True)["model"] for out in ("whole", "killed")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def kill_after_round(number: int, job: Path, out: Path) -> None:
    """Start the run in a process of its own and kill it without warning once a round is finished."""
    command = [sys.executable, "-m", "fedannot.apps", "simulate", str(job), "--out", str(out)]
    metrics = out / "run" / "server" / "simulate_job" / "metrics.jsonl"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + KILL_TIMEOUT_SECONDS
        while not (metrics.is_file() and len(metrics.read_text(encoding="utf-8").splitlines()) >= number):
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline, "the run was too slow"
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=KILL_TIMEOUT_SECONDS)
    finished = [json.loads(line)["round"] for line in metrics.read_text(encoding="utf-8").splitlines()]
    assert finished[-1] < 6, "the run was over before it was killed"


def test_resuming_with_other_settings_is_refused(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = small_job("fedavg", rounds=1, embedded__sites=2)
    simulate(job, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(ResumeError, match=r"now training\.batch_size=2 instead of \d+\.$"):
        simulate(
            job, tmp_path / "out", data=tmp_path / "out" / "data", overrides={"training.batch_size": 2}, resume=True
        )
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("warmup_rounds", [1, 3])
def test_resuming_with_another_job_is_refused_before_anything_is_touched(
    small_job: Callable[..., Path], tmp_path: Path, warmup_rounds: int
) -> None:
    """Also within rounds in which both jobs do the same."""
    out = tmp_path / "out"
    simulate(small_job("fedavg", rounds=2, embedded__sites=2), out)
    (out / "summary.json").unlink()
    before = contents(out)
    with pytest.raises(ResumeError, match=r"is of 'fedavg', but the job is 'feda3i'.*an output folder of its own"):
        simulate(small_job("fedaaai", rounds=5, warmup_rounds=warmup_rounds), out, resume=True)
    assert contents(out) == before


def test_no_data_are_made_for_another_job(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """The run was begun with data that lie elsewhere, which are not named again."""
    first, out = small_job("fedavg", rounds=1, embedded__sites=2), tmp_path / "out"
    simulate(first, tmp_path / "other")
    simulate(first, out, data=tmp_path / "other" / "data")
    before = contents(out)
    with pytest.raises(ResumeError, match=r"is of 'fedavg', but the job is 'fedia'"):
        simulate(small_job("fedia"), out, resume=True)
    assert contents(out) == before


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the lock, which a killed process leaves behind."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != ".run.lock")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_more_rounds_may_be_added(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = small_job("fedavg", rounds=3, embedded__sites=2)
    whole = simulate(job, tmp_path / "whole")
    simulate(job, tmp_path / "parts", overrides={"rounds": 1})
    parts = simulate(job, tmp_path / "parts", data=tmp_path / "parts" / "data", resume=True)
    # What all cores took is known of a run that one process made.
    assert whole["cpu_seconds"] > 0
    assert "cpu_seconds" not in parts
    models = [torch.load(tmp_path / out / "model.pt", weights_only=True)["model"] for out in ("whole", "parts")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_other_data_than_those_of_the_beginning_are_reported(
    small_job: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same data may lie elsewhere by now, hence no error."""
    job = small_job("fedavg", rounds=1, embedded__sites=2)
    simulate(job, tmp_path / "out")
    shutil.copytree(tmp_path / "out" / "data", tmp_path / "moved")
    more = Job.open(job).copy_with({"rounds": 2}, tmp_path / "more").folder
    simulate(more, tmp_path / "out", data=tmp_path / "out" / "data", resume=True)
    assert "warning: the run began" not in capsys.readouterr().err
    more = Job.open(job).copy_with({"rounds": 3}, tmp_path / "still more").folder
    simulate(more, tmp_path / "out", data=tmp_path / "moved", resume=True)
    said = f"warning: the run began with the data in {tmp_path / 'out' / 'data'}, and goes on with those in "
    assert said + str(tmp_path / "moved") in capsys.readouterr().err


def test_a_used_output_folder_is_not_overwritten(small_job: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(JobError, match=r"empty or absent output folder"):
        simulate(small_job("fedavg"), tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").read_text(encoding="utf-8") == "precious"


def test_nothing_to_resume(small_job: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"a run to continue"):
        simulate(small_job("fedavg"), tmp_path / "out", resume=True)


def test_a_run_that_another_process_makes_is_left_alone(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """It would go on in a folder that was moved, or write into that of this one."""
    job, out = small_job("fedavg"), tmp_path / "out"
    (out / "run").mkdir(parents=True)
    with locked(out / ".run.lock"), pytest.raises(JobError, match=rf"{out}: another process makes the run"):
        simulate(job, out, resume=True)
    assert [entry.name for entry in out.rglob("*") if entry.name != ".run.lock"] == ["run"]


@pytest.fixture(scope="module")
def undisturbed(
    small_job_in: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """The summary and the output of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    job = small_job_in(folder, "fedaaai", **SHORT)
    return simulate(job, folder / "out"), folder / "out"


def assert_same_result(summary: dict[str, Any], out: Path, undisturbed: tuple[dict[str, Any], Path]) -> None:
    whole, whole_out = undisturbed
    measured = {"data", "wall_seconds", "peak_memory_mb", "seconds", "settings"}
    for item in (summary, whole):
        assert measured <= set(item)
    measured.add("cpu_seconds")
    assert without_times(summary, measured) == without_times(whole, measured)
    models = [torch.load(folder / "model.pt", weights_only=True)["model"] for folder in (whole_out, out)]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert json.loads((out / "summary.json").read_text(encoding="utf-8")) == summary
    assert len((out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert not (out / "resumed").exists()


def without_times(summary: dict[str, Any], measured: set[str]) -> dict[str, Any]:
    rounds = [{key: value for key, value in record.items() if key != "seconds"} for record in summary["rounds"]]
    return {key: value for key, value in summary.items() if key not in measured} | {"rounds": rounds}


@pytest.mark.simulator
@pytest.mark.parametrize("point", POINTS)
def test_a_run_killed_anywhere_is_finished_by_resuming(
    point: str, small_job: Callable[..., Path], tmp_path: Path, undisturbed: tuple[dict[str, Any], Path]
) -> None:
    job, out = small_job("fedaaai", **SHORT), tmp_path / "out"
    killed(point, job, out)
    summary = simulate(job, out, resume=True)
    assert_same_result(summary, out, undisturbed)


@pytest.mark.simulator
def test_a_run_killed_again_and_again_is_finished_by_resuming(
    small_job: Callable[..., Path], tmp_path: Path, undisturbed: tuple[dict[str, Any], Path]
) -> None:
    job, out = small_job("fedaaai", **SHORT), tmp_path / "out"
    killed("after the first round", job, out)
    for point in (
        "before the job is copied",
        "before the first round",
        "after the last round, before its model is written",
        "before the first round",
        "while collecting",
    ):
        killed(point, job, out, resume=True)
    summary = simulate(job, out, resume=True)
    assert_same_result(summary, out, undisturbed)


def test_workspaces_that_a_failed_resumption_moved_are_rolled_back(
    small_job: Callable[..., Path], tmp_path: Path, undisturbed: tuple[dict[str, Any], Path]
) -> None:
    """So had a run to end that was killed after its last round, before its result could be collected without one."""
    job, out = small_job("fedaaai", **SHORT), tmp_path / "out"
    killed("before collecting", job, out)
    (out / "run").rename(out / "resumed")
    (out / "run" / "server").mkdir(parents=True)
    summary = simulate(job, out, resume=True)
    assert_same_result(summary, out, undisturbed)


def test_a_finished_run_says_so_and_stays_as_it_is(
    small_job: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, out = small_job("fedavg", rounds=1, embedded__sites=2), tmp_path / "out"
    summary = simulate(job, out)
    before = {name: content for name, content in contents(out).items() if name != "log.txt"}
    capsys.readouterr()
    assert simulate(job, out, resume=True) == summary
    assert f"Finished already: the run in {out}, after round 1." in capsys.readouterr().err
    assert {name: content for name, content in contents(out).items() if name != "log.txt"} == before


def test_other_settings_are_refused_before_the_first_round_too(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job, out = small_job("fedaaai", **SHORT), tmp_path / "out"
    killed("before the first round", job, out)
    before = contents(out)
    with pytest.raises(ResumeError, match=r"seed=7 instead of"):
        simulate(job, out, overrides={"seed": 7}, resume=True)
    assert contents(out) == before


def test_a_folder_of_something_else_is_not_resumed(small_job: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(JobError, match=r"a run to continue in .*, but it holds thesis\.txt"):
        simulate(small_job("fedavg"), tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == {"thesis.txt": b"precious"}
