"""Commands that are asked to end while they run: at once, with a word on how to go on, and nothing left running."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from plain_records import simulate
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.commands.simulation import SIMULATION
from fedannot.apps.runs.run_process import Commands

PATIENCE_SECONDS = 180
PROMPT_SECONDS = 30

# Data that are soon drawn: what is stopped is stopped after its first rounds.
FEW = {"embedded__sites": 2, "embedded__images_per_site": 2, "embedded__test_images": 1}

Start = Callable[..., "subprocess.Popen[str]"]

pytestmark = [
    pytest.mark.simulator,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"),
]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts `fedannot ARGUMENTS` in a session of its own."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "fedannot.apps", *map(str, arguments)]
        started.append(
            subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def finished_rounds(out: Path) -> int:
    places = ("run/server/*/metrics.jsonl", "runs/*/run/server/*/metrics.jsonl")
    files = [file for place in places for file in out.glob(place)]
    return max((len(file.read_text(encoding="utf-8").splitlines()) for file in files), default=0)


def wait_for(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def alive_in_session(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    result = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            result.append(int(file.parent.name))
    return result


def ended(process: "subprocess.Popen[str]", number: int) -> str:
    """Send a signal and return what was said."""
    process.send_signal(number)
    _, said = process.communicate(timeout=PROMPT_SECONDS)
    assert process.returncode == 128 + number, said
    return said


def ends_by_itself(*arguments: object, log: Path) -> bool:
    """Whether `fedannot simulate …` ends well in a process of its own; that process imports nothing again."""
    return Commands(SIMULATION).run([str(word) for word in arguments], log, timeout=PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_says_after_which_round_it_stopped_and_the_command_that_goes_on(
    number: int, start: Start, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    job, out = small_job("fedavg", **FEW, rounds=240), tmp_path / "the output"
    process = start("simulate", job, "--out", out, "--seed", 3, "--set", "training.batch_size=2")
    wait_for(lambda: finished_rounds(out) >= 2)
    said = ended(process, number)
    last = next(line for line in said.splitlines() if line.startswith("Stopped by"))
    rounds = finished_rounds(out)
    assert f"Stopped by {signal.Signals(number).name}. The last finished round is {rounds} of 240. Go on with: " in last
    assert "Traceback" not in said
    _, *arguments = shlex.split(last.partition("Go on with: ")[2])
    command = arguments[arguments.index("simulate") :]
    changed = ["--set", "training.batch_size=2", "--seed", "3"]
    assert command == ["simulate", str(job), *changed, "--out", str(out), "--resume"]
    assert ends_by_itself(*command, "--set", f"rounds={rounds + 1}", log=tmp_path / "resumed.log")
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["rounds_finished"] == rounds + 1


def test_a_run_that_is_stopped_before_its_first_round_goes_on_by_the_same_command(
    start: Start, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    job, out = small_job("fedavg", **FEW, rounds=1), tmp_path / "out"
    process = start("simulate", job, "--out", out)
    wait_for((out / "log.txt").is_file)
    said = ended(process, signal.SIGTERM)
    assert "No round is finished. Go on with:" in said
    assert ends_by_itself("simulate", job, "--out", out, "--resume", log=tmp_path / "resumed.log")


@pytest.fixture
def comparison(start: Start, small_job: Callable[..., Path], tmp_path: Path) -> "subprocess.Popen[str]":
    """A comparison whose first runs have finished a round."""
    jobs = [small_job("fedavg", **FEW, rounds=240), small_job("fedaaai", **FEW, rounds=240)]
    process = start("compare", *jobs, "--seeds", 1, "--out", tmp_path / "out", "--processes", 2)
    wait_for(lambda: finished_rounds(tmp_path / "out") >= 1)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_comparison_ends_with_its_runs_and_says_how_to_go_on(
    number: int, comparison: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    assert len(alive_in_session(comparison.pid)) > 2
    said = ended(comparison, number)
    assert f"Stopped by {signal.Signals(number).name}. Runs that are finished, and the finished rounds" in said
    assert "compare" in said.partition("Go on with: ")[2]
    assert "Traceback" not in said
    wait_for(lambda: not alive_in_session(comparison.pid), PROMPT_SECONDS)


def check_last_words(said: str) -> None:
    """After its progress a command that was stopped says so in one line, and nothing else."""
    *before, last = said.splitlines()
    assert last.startswith("Stopped by SIGINT."), said
    assert all(re.match(r"Reading the jobs|\d+ runs|\d+ of \d+ rounds|\S+, seed \d+: ", line) for line in before), said


def begun_runs(out: Path) -> list[str]:
    return sorted(folder.name for folder in out.glob("runs/*") if folder.is_dir())


def stopped_with_a_queue(
    process: "subprocess.Popen[str]", out: Path, tell: Callable[[int, int], None], *, times: int = 1
) -> str:
    """Tell a comparison that has runs waiting to end, check that all ends soon, and return what was said."""
    wait_for(lambda: finished_rounds(out) >= 1)
    signalled = time.monotonic()
    for _ in range(times):
        tell(process.pid, signal.SIGINT)
        time.sleep(0.05)
    _, said = process.communicate(timeout=PROMPT_SECONDS)
    assert time.monotonic() - signalled < PROMPT_SECONDS / 2
    assert process.returncode == 128 + signal.SIGINT, said
    check_last_words(said)
    wait_for(lambda: not alive_in_session(process.pid), PROMPT_SECONDS / 2)
    return said


def test_of_a_queue_nothing_starts_when_the_command_alone_is_signalled(
    start: Start, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    jobs = [small_job(name, **FEW, rounds=240) for name in ("fedavg", "fedaaai")]
    process = start("compare", *jobs, "--seeds", 2, "--out", tmp_path / "out", "--processes", 1)
    said = stopped_with_a_queue(process, tmp_path / "out", os.kill)
    assert "Go on with: " in said
    assert len(begun_runs(tmp_path / "out")) == 1


def test_what_an_impatient_person_stopped_ends_by_the_printed_command_with_the_bits_of_undisturbed_runs(
    start: Start, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    """At a terminal, which tells all processes; nothing of the queue starts."""
    jobs = [small_job(name, rounds=8, embedded__sites=2) for name in ("fedavg", "fedaaai")]
    arms, own, out = [f"a={jobs[0]}", f"b={jobs[1]}"], ["--set", "b:warmup_rounds=2"], tmp_path / "out"
    process = start("compare", *arms, *own, "--seeds", 2, "--out", out, "--processes", 2)
    said = stopped_with_a_queue(process, out, os.killpg, times=3)
    assert len(begun_runs(out)) == 2

    arguments = shlex.split(said.partition("Go on with: ")[2])
    resumed = CliRunner().invoke(app, arguments[arguments.index("compare") :])
    assert resumed.exit_code == 0, resumed.output
    assert begun_runs(out) == ["a-seed0", "a-seed1", "b-seed0", "b-seed1"]
    whole = simulate(jobs[1], tmp_path / "whole", overrides={"seed": 0, "warmup_rounds": 2})
    run = out / "runs" / "b-seed0"
    models = [torch.load(folder / "model.pt", weights_only=True)["model"] for folder in (tmp_path / "whole", run)]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["last_rounds"] == whole["last_rounds"]


def is_importing(process: int) -> bool:
    """Whether a process is the one that runs are forked from, and has got as far as PyTorch."""
    files = Path("/proc") / str(process)
    try:
        return "forkserver" in (files / "cmdline").read_text() and "libtorch" in (files / "maps").read_text()
    except OSError:
        return False


def test_a_comparison_ends_at_once_while_its_first_process_starts(
    start: Start, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    """That process imports for seconds what runs need; a terminal's SIGINT reaches it as well."""
    jobs = [small_job("fedavg", **FEW, rounds=240), small_job("fedaaai", **FEW, rounds=240)]
    process = start("compare", *jobs, "--seeds", 1, "--out", tmp_path / "out", "--processes", 2)
    wait_for(lambda: any(is_importing(number) for number in alive_in_session(process.pid)))
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=PROMPT_SECONDS)
    assert process.returncode == 128 + signal.SIGINT
    _, said = process.communicate(timeout=PROMPT_SECONDS)
    check_last_words(said)
    wait_for(lambda: not alive_in_session(process.pid), PROMPT_SECONDS)
    assert begun_runs(tmp_path / "out") == []


def test_a_benchmark_ends_with_its_runs_and_says_how_to_go_on(
    start: Start, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    jobs, out = tmp_path / "jobs", tmp_path / "out"
    jobs.mkdir()
    for name in ("fedavg", "fedaaai"):
        small_job(name, **FEW).rename(jobs / name)
    process = start("bench", "feda3i", "--rows", "clean", "--seeds", 1, "--jobs", jobs, "--out", out)
    wait_for(lambda: finished_rounds(out / "clean" / "runs") >= 1)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=PROMPT_SECONDS)
    assert process.returncode == 128 + signal.SIGINT, said
    *_, command = said.partition("Go on with: ")
    words = shlex.split(command)
    given = ["--rows", "clean", "--seeds", "1", "--jobs", str(jobs), "--out", str(out)]
    assert words[words.index("bench") :] == ["bench", "feda3i", *given]
    wait_for(lambda: not alive_in_session(process.pid), PROMPT_SECONDS)
    assert begun_runs(out / "clean" / "runs") == ["fedavg-seed0"]


def test_runs_end_when_the_comparison_is_killed(comparison: "subprocess.Popen[str]", tmp_path: Path) -> None:
    comparison.kill()
    comparison.wait(timeout=PROMPT_SECONDS)
    wait_for(lambda: not alive_in_session(comparison.pid), PROMPT_SECONDS)
