"""Results per case on disk: what is no such file is refused, and no text of it becomes a formula."""

import json
import math
from pathlib import Path

import pytest
from support.case_rows import row

from fedannot.apps.reports import results_file
from fedannot.apps.reports.results_file import (
    ROUND_COLUMNS,
    is_written,
    read_description,
    read_results,
    read_round_lines,
    write_results,
)
from fedannot.custom.run.summary_record import FinalModel
from fedannot.transforms.errors import DataError

LINE = row("a", 0.25, hd95_mm=3.5, volume_difference_ml=-2.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"0.25", b"7.5", "line 2 has dice = '7.5'; expected a number from 0 to 1"),
        (b"0.25", b"nan", "line 2 has dice = 'nan'; expected a number from 0 to 1"),
        (b"3.5", b"-3.5", "line 2 has hd95_mm = '-3.5'; expected a number"),
        (b"3.5", b"inf", "line 2 has hd95_mm = 'inf'"),
        (b",global,,,,\n", b"", "line 2 has not as many cells as the heading"),
        (b",global,,", b",global,,,x", "line 2 has not as many cells as the heading"),
        (b"lesion", b"\xff\xfe", "found what is no table"),
        (b"lesion", b'"lesion', "found what is no table"),
    ],
)
def test_a_damaged_file_is_refused_by_its_line(tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    file = tmp_path / "results.csv"
    write_results(file, [LINE], {})
    assert read_results(file)[0].volume_difference_ml == -2.0
    content = file.read_bytes()
    head, line = content.split(b"\n", 1)
    file.write_bytes(head + b"\n" + line.replace(old, new))
    with pytest.raises(DataError) as caught:
        read_results(file)
    assert said in str(caught.value)


def test_a_file_that_was_cut_off_at_the_end_of_a_line_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    models = {"a-0": FinalModel(kind="best", rounds=(3,))}
    write_results(file, [row("a", 0.1 * case, case=case) for case in (1, 2, 3)], models)
    assert len(read_results(file)) == 3
    assert read_description(file).models == models
    whole = file.read_bytes()
    for kept in (1, 2, 3):
        file.write_bytes(b"".join(whole.splitlines(keepends=True)[:kept]))
        with pytest.raises(DataError, match=rf"results.csv: found {kept - 1} lines, expected 3 as in results.json; "):
            read_results(file)
    file.write_bytes(whole + whole.splitlines(keepends=True)[1])
    with pytest.raises(DataError, match="found 4 lines, expected 3"):
        read_results(file)
    # Without its description nobody knows, and a run is scored again.
    file.write_bytes(whole)
    assert is_written(file)
    (tmp_path / "results.json").unlink()
    assert not is_written(file)
    with pytest.raises(DataError, match=r"results.json: found no such file; expected the number of lines of results"):
        read_results(file)
    (tmp_path / "results.json").write_text('{"version": 1, "lines": "many"}')
    with pytest.raises(DataError, match=r"results.json"):
        read_results(file)


def test_whoever_is_killed_while_writing_leaves_no_table_with_another_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.csv"
    write_results(file, [LINE, LINE], {})

    def stop(target: Path, _: str) -> None:
        raise KeyboardInterrupt(target.name)

    monkeypatch.setattr(results_file, "write_text", stop)
    with pytest.raises(KeyboardInterrupt, match="results"):
        write_results(file, [LINE], {})
    assert not is_written(file)


def test_a_damaged_table_of_rounds_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results_rounds.csv"
    assert read_round_lines(file) == []
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="no table"):
        read_round_lines(file)


def test_a_table_of_rounds_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    file, description = tmp_path / "results_rounds.csv", tmp_path / "results.json"
    lines = [dict.fromkeys(ROUND_COLUMNS, "") | {"run": "a-0", "round": str(number)} for number in (1, 2, 3)]
    write_results(tmp_path / "results.csv", [LINE], {}, lines)
    assert read_round_lines(file) == lines
    whole = file.read_bytes()
    file.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    with pytest.raises(DataError, match=r"results_rounds.csv: found 2 lines, expected 3 as in results.json; "):
        read_round_lines(file)
    file.unlink()
    with pytest.raises(DataError, match=r"results_rounds.csv: found no such file; expected 3 lines as in results.json"):
        read_round_lines(file)
    # Earlier versions did not count them.
    values = json.loads(description.read_text(encoding="utf-8"))
    description.write_text(json.dumps({key: values[key] for key in values if key != "round_lines"}), encoding="utf-8")
    assert read_round_lines(file) == []
    assert len(read_results(tmp_path / "results.csv")) == 1


def test_names_are_neither_formulas_nor_obeyed_by_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    names = ["=cmd|' /C calc'!A0", "+1", "@SUM(A1)", "a=b"]
    write_results(file, [row("a", math.nan, class_name=name, run=name) for name in names], {})
    found = read_results(file)
    assert [line.class_name for line in found] == ["'=cmd|' /C calc'!A0", "'+1", "'@SUM(A1)", "a=b"]
    write_results(file, found, {})
    assert list(map(str, read_results(file))) == list(map(str, found))
    file.write_text(file.read_text(encoding="utf-8").replace("a=b", "\x1b[31m"), encoding="utf-8")
    assert read_results(file)[-1].run == r"\x1b[31m"


def test_a_table_without_the_later_columns_is_read(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    write_results(file, [LINE], {})
    lines = [line.rsplit(",", 2)[0] for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines[0].endswith(",confidence")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read_results(file)[0].dice == LINE.dice
    assert math.isnan(read_results(file)[0].foreground_f1)
