"""Runs in processes of their own: exit code, what is printed, environment and folder, and an end in any case."""

import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial

import pytest

from fedannot.apps.commands.cli import app
from fedannot.apps.commands.simulation import SIMULATION
from fedannot.apps.runs import run_process
from fedannot.apps.runs.run_process import Commands, RunStoppedError, RunTimeoutError

WAYS = pytest.mark.parametrize(
    "forked", [pytest.param(True, marks=pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux")), False]
)


@pytest.fixture
def way(forked, monkeypatch):
    if not forked:
        monkeypatch.setattr(run_process, "_fork_server", lambda _: None)


def run_any_command(arguments):
    app(arguments, prog_name="fedannot")


@WAYS
def test_exit_code_and_output_are_the_commands(way, tmp_path):
    log = tmp_path / "run.log"
    log.write_text("of an earlier run, " * 1000)
    assert (
        Commands(SIMULATION).run(
            ["simulate", str(tmp_path / "absent"), "--out", str(tmp_path / "out")], log, timeout=120
        )
        == 1
    )
    assert f"Found no job '{tmp_path / 'absent'}'" in log.read_text().replace("\n", "")
    assert "earlier" not in log.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux")
def test_environment_and_folder_are_those_of_the_moment(tmp_path, monkeypatch):
    """Not those of the process that runs are forked from, which is older."""
    log, commands = tmp_path / "run.log", Commands(replace(SIMULATION, entry=run_any_command))
    for name in ("first", "second"):
        monkeypatch.setenv("COLUMNS", "100" if name == "first" else "60")
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        phantom = ["data", "phantom", "--sites", "1", "--images", "1", "--test-images", "1", "--out", "made"]
        assert commands.run(phantom, log, timeout=120) == 0
        assert (tmp_path / name / "made" / "federation.yaml").is_file()
        assert commands.run(["data", "phantom", "--help"], log, timeout=120) == 0
        lines = log.read_text(encoding="utf-8").splitlines()
        assert max(len(line) for line in lines) <= (100 if name == "first" else 60)


@WAYS
def test_a_run_that_takes_too_long_is_stopped(way, tmp_path):
    started = time.monotonic()
    out = tmp_path / "out"
    with pytest.raises(
        RunTimeoutError, match=r"fedannot simulate jobs/fedaaai .*: took longer than 1 s and was stopped"
    ):
        Commands(SIMULATION).run(["simulate", "jobs/fedaaai", "--out", str(out)], tmp_path / "run.log", timeout=1)
    assert time.monotonic() - started < 60


def test_no_more_is_done_at_a_time_than_asked_and_threads_end():
    commands, busy, most = Commands(SIMULATION, 2), [], []
    together = threading.Barrier(2, timeout=30)

    def work(number):
        busy.append(number)
        most.append(len(busy))
        together.wait()
        busy.remove(number)
        if number == 5:
            raise ValueError("the last")
        return 10 * number

    before = threading.active_count()
    results = [commands.submit(partial(work, number)) for number in range(6)]
    assert [result.result(timeout=30) for result in results[:5]] == [0, 10, 20, 30, 40]
    with pytest.raises(ValueError, match="the last"):
        results[5].result(timeout=30)
    assert max(most) == 2
    commands.stop()
    deadline = time.monotonic() + 30
    while threading.active_count() > before:
        assert time.monotonic() < deadline, "threads are left"
        time.sleep(0.01)


def test_after_a_stop_nothing_is_begun(tmp_path):
    commands = Commands(SIMULATION)
    commands.stop()
    with pytest.raises(RunStoppedError, match=r"fedannot data phantom: not begun, since all runs were asked to end\."):
        commands.run(["data", "phantom"], tmp_path / "log.txt", timeout=1)
    assert not (tmp_path / "log.txt").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux")
def test_the_script_that_called_is_not_run_again_and_runs_are_forked_from_one_thread(tmp_path):
    """Python would run it, for what it defines: a script without a guard would begin everything once more, without end.

    A forked process would have neither other threads nor what they held.
    """
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from fedannot.apps.commands.simulation import SIMULATION\n"
        "from fedannot.apps.runs.run_process import Commands\n"
        "print('begun', flush=True)\n"
        "import __main__; before = __main__\n"
        "code = Commands(SIMULATION).run(['simulate', 'nowhere'], Path('run.log'), timeout=120)\n"
        "import psutil, sys; assert sys.modules['__main__'] is before\n"
        "from multiprocessing import forkserver\n"
        "print(code, psutil.Process(forkserver._forkserver._forkserver_pid).num_threads())\n",
        encoding="utf-8",
    )
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout) == (0, "begun\n1 1\n"), done.stderr
    assert "Found no job 'nowhere'" in (tmp_path / "run.log").read_text(encoding="utf-8")
