"""Runs that Ray places: what is asked of it, what it is sent, what a worker refuses; and, with Ray, the same bits."""

import importlib.util
import os
import pickle
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from typer.testing import CliRunner

from fedannot.apps.commands.bench import bench_app
from fedannot.apps.commands.cli import app
from fedannot.apps.runs import locked_run, ray_cluster, ray_worker
from fedannot.apps.runs.arm_run import is_run_elsewhere
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.compare import compare
from fedannot.apps.runs.job import Job, JobError
from fedannot.apps.runs.ray_engine import RayEngine, RunBudget, chosen_engine, run_budget, runs_at_a_time
from fedannot.apps.runs.ray_runs import RayRuns
from fedannot.apps.runs.ray_worker import RunKilledError, RunOrder, check_worker, digest_of_contents, installed_versions
from fedannot.apps.runs.run_placer import PlacementError, RunStoppedError
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.file_locks import locked

ROOT = Path(__file__).parents[3]
TINY = {"rounds": 2, "network.features": [4, 4, 8, 8, 8, 4], "training.local_epochs": 1, "min_sites": 2}
TINY |= {"embedded.sites": 2, "embedded.images_per_site": 2, "embedded.test_images": 2}
ASKED: dict[str, Any] = {"data": None, "seeds": [3], "overrides": {}}
HAS_RAY = importlib.util.find_spec("ray") is not None
with_ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed")


# --- what is asked


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--engine", "dask"], "--engine: found 'dask', expected processes or ray."),
        (["--cpus-per-run", "2"], "--cpus-per-run: expected only with --engine ray."),
        (["--gpus-per-run", "1", "--ray-address", "a:1"], "--gpus-per-run, --ray-address: expected only with --engine"),
        (["--engine", "ray", "--cpus-per-run", "0"], "--cpus-per-run: found 0, expected a whole number from 1"),
        (["--engine", "ray", "--gpus-per-run", "1.5"], "--gpus-per-run: found 1.5, expected a whole number up to 64"),
        (["--engine", "ray", "--gpus-per-run", "nan"], "--gpus-per-run: found nan, expected a whole number up to 64"),
        (["--engine", "ray", "--ray-address", "auto"], "--ray-address: found 'auto', expected HOST:PORT"),
        (["--engine", "ray", "--ray-address", "ray://head:10001"], "found 'ray://head:10001', expected HOST:PORT"),
        (["--engine", "ray", "--ray-address", "head:70000"], "found 'head:70000', expected HOST:PORT"),
    ],
)
@pytest.mark.parametrize("command", ["compare", "league"])
def test_what_cannot_be_meant_is_refused(command: str, options: list[str], text: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["compare", "fedavg", "elr", *options] if command == "compare" else ["league", *options]
    result = CliRunner().invoke(app if command == "compare" else bench_app, [*arguments, "--out", str(out)])
    assert result.exit_code == 1
    assert text in " ".join(result.output.split())
    assert not out.exists()


def test_without_ray_an_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(JobError, match=r"ray is not installed. Install it with: ") as refused:
        compare([Arm("fedavg", ROOT / "jobs" / "fedavg")], tmp_path / "out", **ASKED, engine=RayEngine())
    assert str(refused.value).endswith(f"pip install '{extras['ray'][0]}'")
    assert not (tmp_path / "out").exists()


def test_an_address_of_the_environment_is_checked_as_one_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` would take a cluster of whoever has written a file in a folder that all accounts write."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setitem(sys.modules, "ray", fake_ray())
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(JobError, match="RAY_ADDRESS: found 'auto', expected HOST:PORT"), ray_cluster.connected(None):
        pass
    silent = pytest.raises(JobError, match=r"Ray at 127.0.0.1:1: no answer within 10 s .*ray start --head")
    with silent, ray_cluster.connected("127.0.0.1:1"):
        pass


NODES = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 3.0}]


@pytest.mark.parametrize(
    ("engine", "threads", "budget", "at_a_time"),
    [
        (RayEngine(), 1, RunBudget(1, 1.0), 2),
        (RayEngine(gpus_per_run=0), 1, RunBudget(1, 0), 11),
        (RayEngine(gpus_per_run=0), 2, RunBudget(2, 0), 5),
        (RayEngine(4, 0.5), 1, RunBudget(4, 0.5), 2),
        (RayEngine(1, 0.4), 1, RunBudget(1, 0.4), 4),
        (RayEngine(1, 2), 1, RunBudget(1, 2), 1),
    ],
)
def test_budgets(engine: RayEngine, threads: int, budget: RunBudget, at_a_time: int) -> None:
    assert run_budget(engine, threads, NODES) == budget
    assert runs_at_a_time(budget, NODES) == at_a_time


def test_a_run_that_fits_nowhere_is_refused() -> None:
    """Ray would wait without an end."""
    assert run_budget(RayEngine(), 3, NODES[1:]) == RunBudget(3, 0.0)
    for budget in (RunBudget(9, 0), RunBudget(1, 3), RunBudget(4, 1)):
        with pytest.raises(JobError, match=r"no machine of Ray has as many \(found: 3 CPUs, 0 GPUs\)"):
            runs_at_a_time(budget, NODES[1:])


# --- what is sent, and what a worker refuses


class RayError(Exception):
    pass


class TaskCancelledError(RayError):
    pass


def fake_ray(**attributes: Any) -> Any:
    module: Any = ModuleType("ray")
    module.is_initialized = lambda: False
    module.exceptions = SimpleNamespace(RayError=RayError, TaskCancelledError=TaskCancelledError)
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


class Task:
    """A remote function that is only noted."""

    def __init__(self) -> None:
        self.options_given: dict[str, Any] = {}
        self.orders: list[RunOrder] = []

    def decorator(self, **options: Any) -> Callable[[object], "Task"]:
        self.options_given = options
        return lambda _: self

    def remote(self, order: RunOrder) -> "Reference":
        self.orders.append(order)
        return Reference(order.log)


class Reference:
    """To a run that was handed over."""

    def __init__(self, log: str) -> None:
        self.log = log


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    file = tmp_path / "shared" / ".probe.lock"
    file.parent.mkdir()
    file.write_text("text")
    return file


@pytest.fixture
def order(probe: Path, tmp_path: Path) -> RunOrder:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "meta.json").write_text("{}")
    runs = RayRuns(fake_ray(remote=Task().decorator), RunBudget(1, 0), probe, 1)
    return runs.order(["simulate", str(tmp_path / "job"), "--out", str(tmp_path / "out")], tmp_path / "log", 9.0)


def test_nothing_of_the_environment_is_sent(order: RunOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, f"hidden of {name}")
    sent = pickle.dumps(order)
    values = {name for name, value in os.environ.items() if len(value) > 8 and value.encode() in sent}
    # Paths that the run needs may be those of variables as well.
    assert {name for name in values if not os.environ[name].startswith("/")} == set()
    assert set(order.variables) == {"FEDANNOT_THREADS", "OMP_NUM_THREADS"}
    assert set(order.inputs) == {order.arguments[1]}


def test_a_run_has_neither_rays_variables_nor_a_gpu_that_it_was_not_given(
    order: RunOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("HOME_OF_WORKER", "here")
    without, own = (ray_worker._environment(replace(order, sees_gpus=sees)) for sees in (False, True))
    assert not any(name.startswith("RAY_") for name in without | own)
    assert (without["CUDA_VISIBLE_DEVICES"], own["CUDA_VISIBLE_DEVICES"]) == ("", "3")
    assert without["HOME_OF_WORKER"] == "here"


def test_only_runs_whose_worker_died_are_made_again(probe: Path, tmp_path: Path) -> None:
    task, answers = (
        Task(),
        [1, PlacementError("elsewhere"), RunKilledError("killed"), RayError("lost"), TaskCancelledError()],
    )

    def get(_: Reference) -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    runs = RayRuns(fake_ray(remote=task.decorator, get=get), RunBudget(2, 0.5), probe, 1)
    given = task.options_given
    assert (given["num_cpus"], given["num_gpus"], given["max_retries"]) == (2, 0.5, 3)
    assert given["retry_exceptions"] == [RunKilledError]
    arguments = ["simulate", "job", "--out", "out"]
    assert runs.run(arguments, tmp_path / "log", timeout=1) == 1
    for text in ("elsewhere", "killed It was begun 4 times", "Ray could not make the run: RayError: lost"):
        with pytest.raises(PlacementError, match=text):
            runs.run(arguments, tmp_path / "log", timeout=1)
    with pytest.raises(RunStoppedError):
        runs.run(arguments, tmp_path / "log", timeout=1)
    runs.stop()
    with pytest.raises(RunStoppedError, match="not begun"):
        runs.run(arguments, tmp_path / "log", timeout=1)
    assert len(task.orders) == 5


def test_a_stop_cancels_what_runs_and_then_by_force(probe: Path, tmp_path: Path) -> None:
    cancelled: list[tuple[str, bool]] = []
    ray = fake_ray(
        remote=Task().decorator,
        is_initialized=lambda: True,
        cancel=lambda task, force=False: cancelled.append((task.log, force)),
        wait=lambda tasks, **_: ([], list(tasks)),
    )
    runs = RayRuns(ray, RunBudget(1, 0), probe, 1)
    runs._begin(runs.order(["simulate", "job", "--out", "out"], Path("a.log"), 1.0))
    runs.stop()
    assert cancelled == [("a.log", False), ("a.log", True)]


def test_a_worker_that_sees_the_same_makes_the_run(order: RunOrder) -> None:
    with locked(Path(order.probe)):
        check_worker(order)


def test_a_worker_refuses_what_would_not_be_the_same_run(order: RunOrder, tmp_path: Path) -> None:
    local, job = tmp_path / "local" / ".probe.lock", order.arguments[1]
    local.parent.mkdir()
    local.write_text("of another disk")
    cases = {
        rf"does not see {local.parent} as the machine of the command": replace(order, probe=str(local)),
        r"does not see .*absent as": replace(order, probe=str(tmp_path / "absent" / ".probe.lock")),
        r"found no folder .*gone": replace(order, working_folder=str(tmp_path / "gone")),
        rf"{job} is absent or has other content": replace(order, inputs={job: "0" * 64}),
        r"found torch .* in place of 0.1;": replace(order, versions={**installed_versions(), "torch": "0.1"}),
    }
    with locked(Path(order.probe)):
        for text, wrong in cases.items():
            with pytest.raises(PlacementError, match=text):
                check_worker(wrong)
    assert not (tmp_path / "absent").exists()
    # Nobody holds the lock that the command holds: the machines do not share it.
    with pytest.raises(PlacementError, match="does not share its locks"):
        check_worker(order)


def test_digests_see_names_sizes_and_settings(tmp_path: Path) -> None:
    assert digest_of_contents(tmp_path / "absent") == ""
    (tmp_path / "a").mkdir()
    for name in ("a/x.png", "a/data.json", ".hidden"):
        (tmp_path / name).write_text("12")
    digests = [digest_of_contents(tmp_path)]
    (tmp_path / ".hidden").write_text("other")
    assert digest_of_contents(tmp_path) == digests[0]
    for name, text in (("a/data.json", "21"), ("a/x.png", "123"), ("a/y.png", "")):
        (tmp_path / name).write_text(text)
        digests.append(digest_of_contents(tmp_path))
    (tmp_path / "loop").symlink_to(tmp_path)
    assert digest_of_contents(tmp_path) == digests[-1]
    assert len(set(digests)) == 4


# --- one writer of a run


def test_a_run_is_left_to_a_worker_that_outlived_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locked_run, "_LOCK_SECONDS", 0.1)
    monkeypatch.setattr(locked_run, "run_simulation", lambda _: pytest.fail("a second process writes the run"))
    folder = tmp_path / "run"
    with locked(locked_run.worker_lock(folder)):
        assert is_run_elsewhere(folder)
        with pytest.raises(SystemExit) as ended:
            locked_run.run_locked(["simulate", "job", "--out", str(folder)])
    assert ended.value.code == 1
    assert "another process works on the run" in " ".join(capsys.readouterr().err.split())
    assert not is_run_elsewhere(folder)


def test_a_run_goes_on_where_it_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(locked_run, "run_simulation", lambda arguments: given.append(list(arguments)))
    arguments = ["simulate", "job", "--out", str(tmp_path / "run")]
    locked_run.run_locked(arguments)
    (tmp_path / "run").mkdir()
    locked_run.run_locked(arguments)
    (tmp_path / "run" / "log.txt").touch()
    locked_run.run_locked(arguments)
    assert given == [arguments, arguments, [*arguments, "--resume"]]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


# --- with Ray, on the loopback device


@with_ray
def test_a_killed_worker_is_replaced_and_the_bits_are_those_of_a_plain_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    job = Job.open(ROOT / "jobs" / "fedavg").copy_with(TINY, tmp_path / "tiny").folder
    simulate(job, tmp_path / "plain", overrides={"seed": 3})
    folder = tmp_path / "out" / "runs" / "tiny-seed3"
    killed: list[int] = []

    def kill_once() -> None:
        while not locked_run.worker_lock(folder).exists():
            time.sleep(0.01)
        (worker,) = [one for one in psutil.Process().children(recursive=True) if "ray::fedannot" in one.name()]
        killed.append(worker.pid)
        os.kill(worker.pid, signal.SIGKILL)

    before, terminated = dict(os.environ), signal.getsignal(signal.SIGTERM)
    engine = chosen_engine("ray", cpus_per_run=1, address="local")
    threading.Thread(target=kill_once, daemon=True).start()
    compare([Arm("tiny", job)], tmp_path / "out", **ASKED, engine=engine)
    assert len(killed) == 1
    assert (dict(os.environ), signal.getsignal(signal.SIGTERM)) == (before, terminated)
    models = [torch.load(run / "model.pt")["model"] for run in (tmp_path / "plain", folder)]
    assert all(torch.equal(models[0][key], tensor) for key, tensor in models[1].items())
    left = [entry.name for entry in [*(tmp_path / "out").iterdir(), *folder.parent.iterdir()] if entry.name[0] == "."]
    assert left == []
    deadline = time.monotonic() + 20
    while any("ray" in one.name() for one in psutil.Process().children(recursive=True)):
        assert time.monotonic() < deadline, "processes of Ray are left"
        time.sleep(0.1)
