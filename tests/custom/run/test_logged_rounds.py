"""What grows with the rounds is appended, and no finished round is lost where a run is killed meanwhile."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.loop_runs import SCORES, Run
from support.memory_link import MemoryLink, StepSite, link_of

from fedannot.custom.data.whole_files import private_file
from fedannot.custom.records.record_lines import RecordLog
from fedannot.custom.records.round_records import Record
from fedannot.custom.run.reading import METRICS_FILE, read_metrics_file, read_summary_file
from fedannot.custom.run.state import STATE_FILE, SUMMARY_FILE, ResumeError, RunState
from fedannot.custom.run.summary import complete_summary_file, write_unfinished_summary
from fedannot.transforms.errors import DataError


class Killed(BaseException):
    """In place of a signal that nothing outlives."""


def sites() -> MemoryLink:
    # A drift that no float of four digits holds.
    return link_of(StepSite("a", 0.1, 10, scores=SCORES), StepSite("b", 1 / 3, 20, scores=SCORES))


def without_times(run: Run) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key not in ("seconds", "calls")} for record in run.records]


@pytest.mark.parametrize("written", [0, 1, 40, -1, None])
def test_a_run_killed_while_a_line_is_appended_loses_no_finished_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int | None
) -> None:
    """Killed before the line of round 3, after some of its bytes, before its end, and after it."""
    options: dict[str, Any] = {"rounds": 5, "validate_every": 1}
    whole = Run(tmp_path / "whole", sites(), **options).begin()
    first = Run(tmp_path / "first", sites(), **options)
    file, append = tmp_path / "first" / "run" / METRICS_FILE, RecordLog.append

    def append_and_die(log: RecordLog, record: Record) -> None:
        before = file.read_bytes()
        append(log, record)
        if log.count == 3:
            line = file.read_bytes()[len(before) :]
            private_file(file).write_bytes(before + line[:written])
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(RecordLog, "append", append_and_die)
        # What is killed puts nothing in order.
        patch.setattr("fedannot.custom.run.round_loop.complete_summary_file", lambda _: None)
        with pytest.raises(Killed):
            first.begin()
    # Whoever looks at it meanwhile sees whole records alone.
    whole_lines = 3 if written is None or written == -1 else 2
    assert [record.round for record in read_metrics_file(file)] == list(range(1, whole_lines + 1))
    unfinished = read_summary_file(file.with_name(SUMMARY_FILE))
    assert (unfinished.rounds_finished, [record.round for record in unfinished.rounds]) == (2, [1, 2])
    state = RunState.load(file.with_name(STATE_FILE))
    assert (state.round_number, [record.round for record in state.history]) == (3, [1, 2, 3])
    again = Run(tmp_path / "again", sites(), **options).begin(state=file.with_name(STATE_FILE))
    assert without_times(again) == without_times(whole)
    # What was written of finished rounds is as it was, to the byte.
    assert (tmp_path / "again" / "run" / METRICS_FILE).read_bytes().startswith(state_lines(state, file))
    assert all(torch.equal(value, again.course.state.params[name]) for name, value in whole.course.state.params.items())
    result, expected = again.summary, whole.summary
    for values in (result, expected):
        for record in values["rounds"]:
            del record["seconds"]
    assert result["rounds"] == expected["rounds"]
    assert result["last_rounds"] == expected["last_rounds"]


def state_lines(state: RunState, file: Path) -> bytes:
    assert state.logged is not None
    return file.read_bytes()[: state.logged.size]


def test_a_run_goes_on_in_the_folder_of_its_state(tmp_path: Path) -> None:
    """As one does that was killed after its last round, and is collected."""
    Run(tmp_path / "first", sites()).begin()
    folder = tmp_path / "first" / "run"
    before = (folder / METRICS_FILE).read_bytes()
    Run(tmp_path / "again", sites()).begin(state=folder / STATE_FILE, run_folder=folder)
    assert (folder / METRICS_FILE).read_bytes() == before
    assert len(RunState.load(folder / STATE_FILE).history) == 2


def _lead_elsewhere(file: Path) -> None:
    elsewhere = file.with_name("elsewhere")
    elsewhere.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(elsewhere)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "removed": lambda file: file.unlink(),
    "shortened": lambda file: os.truncate(file, 40),
    "lengthened": lambda file: file.write_bytes(file.read_bytes() + b"{}\n"),
    "of other content": lambda file: file.write_bytes(b"0" * file.stat().st_size),
    "a link": _lead_elsewhere,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("number", [2, 3])
def test_records_that_are_changed_while_a_run_goes_on_are_written_again(
    tmp_path: Path, change: Callable[[Path], Any], number: int
) -> None:
    """After the first round, or after the last one."""
    whole = Run(tmp_path / "whole", sites(), rounds=3).begin()
    run = Run(tmp_path / "changed", sites(), rounds=3)
    folder = tmp_path / "changed" / "run"
    write, written = run.link.write_model, 0

    def write_model(params: Any) -> None:
        nonlocal written
        write(params)
        written += 1
        if written == number:
            change(folder / METRICS_FILE)

    run.link.write_model = write_model  # type: ignore[method-assign]
    run.begin()
    assert without_times(run) == without_times(whole)
    assert not (folder / METRICS_FILE).is_symlink()
    assert len(RunState.load(folder / STATE_FILE).history) == len(run.summary["rounds"]) == 3
    if (folder / "elsewhere").exists():
        assert (folder / "elsewhere").read_bytes().count(b"\n") == number


def test_a_state_without_the_records_of_its_run_is_refused(tmp_path: Path) -> None:
    Run(tmp_path / "first", sites(), rounds=3).begin()
    file = tmp_path / "first" / "run" / METRICS_FILE
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines).replace('"round": 1', '"round": 7'), encoding="utf-8")
    with pytest.raises(
        ResumeError, match=rf"{file}: found \d+ bytes of other records; expected the \d+ bytes of the run"
    ):
        RunState.load(file.with_name(STATE_FILE))
    file.write_text(lines[0], encoding="utf-8")
    with pytest.raises(ResumeError, match=rf"{file}: found {len(lines[0])} bytes of other records; expected the \d+"):
        RunState.load(file.with_name(STATE_FILE))
    file.unlink()
    with pytest.raises(ResumeError, match=rf"{file}: cannot be read \(No such file"):
        RunState.load(file.with_name(STATE_FILE))
    os.mkfifo(file)
    with pytest.raises(ResumeError, match=rf"{file}: cannot be read \(no regular file"):
        RunState.load(file.with_name(STATE_FILE))
    with pytest.raises(DataError, match=rf"{file}: cannot be read .*no regular file"):
        read_metrics_file(file)


def test_a_summary_of_a_run_that_goes_on_takes_its_rounds_from_the_metrics(tmp_path: Path) -> None:
    link = sites()
    link.there["c"] = lambda request: "broken" if request.round_number == 2 else StepSite("c")(request)
    Run(tmp_path, link, rounds=3).begin()
    file = tmp_path / "run" / SUMMARY_FILE
    whole, text = read_summary_file(file), file.read_text(encoding="utf-8")
    assert [(refusal.round, refusal.site) for refusal in whole.refusals] == [(2, "c")]
    log = RecordLog(tmp_path / "run" / METRICS_FILE)
    log.begin((tmp_path / "run" / METRICS_FILE).read_bytes())
    write_unfinished_summary(file, whole, log.position)
    values = json.loads(file.read_text(encoding="utf-8"))
    # Other programs miss the rounds, and do not take them for none.
    assert not {"rounds", "refusals", "bounded", "dominant"} & values.keys()
    assert read_summary_file(file) == whole
    complete_summary_file(file)
    assert file.read_text(encoding="utf-8") == text
    complete_summary_file(tmp_path / "run" / "absent.json")
    for size in (2**62, 2**70):
        file.write_text(json.dumps(values | {"unfinished": {"size": size, "sha256": ""}}), encoding="utf-8")
        with pytest.raises(DataError, match=rf"{METRICS_FILE}: found \d+ bytes of other records; expected the {size}"):
            read_summary_file(file)
    for wrong in (7, {"size": -1, "sha256": ""}, {"size": 1}):
        file.write_text(json.dumps(values | {"unfinished": wrong}), encoding="utf-8")
        with pytest.raises(DataError, match=rf"{file}: key 'unfinished' is .* expected size and sha256"):
            read_summary_file(file)


def test_what_is_written_of_a_round_does_not_grow_with_the_rounds(tmp_path: Path) -> None:
    """A method whose state does not grow: of the recorded one it does, by its calls."""
    run = Run(tmp_path, sites(), rounds=60)
    run.method.state = lambda: {}  # type: ignore[method-assign]
    sizes: dict[int, int] = {}
    write = run.link.write_model

    def note(params: Any) -> None:
        write(params)
        sizes[len(run.link.models)] = sum(
            (tmp_path / "run" / name).stat().st_size for name in (STATE_FILE, SUMMARY_FILE) if len(run.link.models) > 1
        )

    run.link.write_model = note  # type: ignore[method-assign]
    run.begin()
    # Digits of numbers, and what a file of tensors is padded with.
    assert abs(sizes[59] - sizes[10]) <= 256
    assert len(run.records) == len(run.summary["rounds"]) == 60


def test_a_number_that_json_has_not_is_none_before_a_restart_as_after_it(tmp_path: Path) -> None:
    run = Run(tmp_path, sites(), rounds=1)
    run.method.record = lambda _: {"gap": float("nan"), "calls": 1}  # type: ignore[method-assign]
    run.begin()
    assert run.course.state.history[0].named("gap") is None
    assert RunState.load(tmp_path / "run" / STATE_FILE).history == run.course.state.history
