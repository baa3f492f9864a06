"""Commands that are told to end while they run: at once, with a word on how to go on, and nothing left running."""

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PATIENCE_SECONDS = 180
PROMPT_SECONDS = 30

Start = Callable[..., "subprocess.Popen[str]"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


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
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(file.parent.name))
    return found


def ended(process: "subprocess.Popen[str]", number: int) -> str:
    """Send a signal and return what was said."""
    process.send_signal(number)
    _, said = process.communicate(timeout=PROMPT_SECONDS)
    assert process.returncode == 128 + number, said
    return said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_says_after_which_round_it_stopped_and_the_command_that_goes_on(
    number: int, start: Start, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    job, out = small_job("fedavg", rounds=60), tmp_path / "the output"
    process = start("simulate", job, "--out", out, "--seed", 3, "--set", "training.batch_size=2")
    wait_for(lambda: finished_rounds(out) >= 2)
    said = ended(process, number)
    last = next(line for line in said.splitlines() if line.startswith("Stopped by"))
    rounds = finished_rounds(out)
    assert f"Stopped by {signal.Signals(number).name}. The last finished round is {rounds} of 60. Go on with: " in last
    assert "Traceback" not in said
    _, *arguments = shlex.split(last.partition("Go on with: ")[2])
    command = arguments[arguments.index("simulate") :]
    changed = ["--set", "training.batch_size=2", "--seed", "3"]
    assert command == ["simulate", str(job), *changed, "--out", str(out), "--resume"]
    resumed = start(*command, "--set", f"rounds={rounds + 1}")
    resumed.communicate(timeout=PATIENCE_SECONDS)
    assert resumed.returncode == 0
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["rounds_finished"] == rounds + 1


def test_a_run_that_is_stopped_before_its_first_round_goes_on_by_the_same_command(
    start: Start, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    job, out = small_job("fedavg", rounds=1), tmp_path / "out"
    process = start("simulate", job, "--out", out)
    wait_for((out / "log.txt").is_file)
    said = ended(process, signal.SIGTERM)
    assert "No round is finished. Go on with:" in said
    resumed = start("simulate", job, "--out", out, "--resume")
    resumed.communicate(timeout=PATIENCE_SECONDS)
    assert resumed.returncode == 0


@pytest.fixture
def comparison(start: Start, small_job: Callable[..., Path], tmp_path: Path) -> "subprocess.Popen[str]":
    """A comparison whose first runs have finished a round."""
    jobs = [small_job("fedavg", rounds=60), small_job("fedaaai", rounds=60)]
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


def test_runs_end_when_the_comparison_is_killed(comparison: "subprocess.Popen[str]", tmp_path: Path) -> None:
    comparison.kill()
    comparison.wait(timeout=PROMPT_SECONDS)
    wait_for(lambda: not alive_in_session(comparison.pid), PROMPT_SECONDS)
