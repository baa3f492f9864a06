"""A run that is killed between two rounds and resumed ends with the weights of an undisturbed one."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedannot.apps.in_process import RunError
from fedannot.apps.job import JobError
from fedannot.apps.simulate import simulate

KILL_TIMEOUT_SECONDS = 120


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
    job = small_job("fedavg", rounds=1)
    simulate(job, tmp_path / "out")
    with pytest.raises(RunError, match=r"training=.*'batch_size': 2.*instead of"):
        simulate(
            job, tmp_path / "out", data=tmp_path / "out" / "data", overrides={"training.batch_size": 2}, resume=True
        )


def test_more_rounds_may_be_added(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = small_job("fedavg", rounds=3)
    simulate(job, tmp_path / "whole")
    simulate(job, tmp_path / "parts", overrides={"rounds": 1})
    simulate(job, tmp_path / "parts", data=tmp_path / "parts" / "data", resume=True)
    models = [torch.load(tmp_path / out / "model.pt", weights_only=True)["model"] for out in ("whole", "parts")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_a_used_output_folder_is_not_overwritten(small_job: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(JobError, match=r"empty or absent output folder"):
        simulate(small_job("fedavg"), tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").read_text(encoding="utf-8") == "precious"


def test_nothing_to_resume(small_job: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"a run to continue"):
        simulate(small_job("fedavg"), tmp_path / "out", resume=True)
