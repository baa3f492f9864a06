"""How far runs are, by what they have written."""

import io
import json
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from plain_records import summary_values

from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.watched_runs import RunsProgress, WatchedRun
from fedannot.apps.terminal import Terminal


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def run_of(folder: Path, name: str, *, done: int = 0, finished: bool = False) -> WatchedRun:
    """A run of four rounds."""
    metrics = folder / name / "run" / "server" / "simulate_job" / "metrics.jsonl"
    metrics.parent.mkdir(parents=True, exist_ok=True)
    metrics.write_text("{}\n" * done)
    if finished:
        finish(folder / name)
    return WatchedRun(f"{name}, seed 0", folder / name, 4)


def finish(folder: Path) -> None:
    summary = summary_values(seconds=62.4, last_rounds={"dice": 0.8123, "hd95": 1.0})
    (folder / "summary.json").write_text(json.dumps(summary))


@pytest.mark.parametrize(("done", "finished", "expected"), [(0, False, 0), (3, False, 3), (9, False, 4), (1, True, 4)])
def test_rounds_are_counted(tmp_path: Path, done: int, finished: bool, expected: int) -> None:
    assert run_of(tmp_path, "a", done=done, finished=finished).rounds_done == expected


def test_a_run_that_has_not_begun_has_no_rounds(tmp_path: Path) -> None:
    assert WatchedRun("a", tmp_path / "a", 4).rounds_done == 0


def test_the_time_left_follows_from_the_rounds_since_the_start(tmp_path: Path) -> None:
    """Of twelve rounds five were done before; three more took 60 s, so that the last four take 80."""
    clock = Clock()
    runs = [run_of(tmp_path, "a", finished=True), run_of(tmp_path, "b", done=1), run_of(tmp_path, "c")]
    progress = RunsProgress(runs, Progress(Terminal(file=io.StringIO())), clock)
    assert progress.describe() == "5 of 12 rounds (b, seed 0 1/4)"
    clock.now = 60.0
    run_of(tmp_path, "b", done=3)
    run_of(tmp_path, "c", done=1)
    assert progress.describe() == "8 of 12 rounds, about 80 s left (b, seed 0 3/4; c, seed 0 1/4)"


def test_what_ends_is_reported_and_what_had_ended_before_is_not(tmp_path: Path) -> None:
    text = io.StringIO()
    runs = [run_of(tmp_path, "a", finished=True), run_of(tmp_path, "b", done=1), run_of(tmp_path, "c")]
    progress = RunsProgress(runs, Progress(Terminal(file=text)))
    progress.begin(2)
    results: dict[Future[str | None], WatchedRun] = {Future(): run for run in runs}
    first, second, third = results
    first.set_result(None)

    def end() -> None:
        finish(tmp_path / "b")
        second.set_result(None)
        third.set_result("c, seed 0: no data")

    ending = threading.Timer(0.2, end)
    ending.start()
    assert progress.wait(results) == [None, None, "c, seed 0: no data"]
    ending.join()
    lines = text.getvalue().splitlines()
    assert lines[0] == "3 runs (1 finished before), 2 at a time."
    assert sorted(lines[1:]) == ["b, seed 0: Dice 81.2 % in 62 s; 2 of 3 runs", "c, seed 0: failed"]
