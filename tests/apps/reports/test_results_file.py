"""Results per case on disk: what is no such file is refused, and no text of it becomes a formula."""

import math
from pathlib import Path

import pytest
from support.case_rows import row

from fedannot.apps.reports.results_file import read_results, read_round_lines, write_results
from fedannot.transforms.errors import DataError

LINE = row("a", 0.25, hd95_mm=3.5, volume_difference_ml=-2.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"0.25", b"7.5", "line 2 has dice = '7.5'; expected a number from 0 to 1"),
        (b"0.25", b"nan", "line 2 has dice = 'nan'; expected a number from 0 to 1"),
        (b"3.5", b"-3.5", "line 2 has hd95_mm = '-3.5'; expected a number"),
        (b"3.5", b"inf", "line 2 has hd95_mm = 'inf'"),
        (b",global,,\n", b"", "line 2 has not as many cells as the heading"),
        (b",global,,", b",global,,,x", "line 2 has not as many cells as the heading"),
        (b"lesion", b"\xff\xfe", "found what is no table"),
        (b"lesion", b'"lesion', "found what is no table"),
    ],
)
def test_a_damaged_file_is_refused_by_its_line(tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    file = tmp_path / "results.csv"
    write_results(file, [LINE])
    assert read_results(file)[0].volume_difference_ml == -2.0
    content = file.read_bytes()
    head, line = content.split(b"\n", 1)
    file.write_bytes(head + b"\n" + line.replace(old, new))
    with pytest.raises(DataError) as caught:
        read_results(file)
    assert said in str(caught.value)


def test_a_damaged_table_of_rounds_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results_rounds.csv"
    assert read_round_lines(file) == []
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="no table"):
        read_round_lines(file)


def test_names_are_neither_formulas_nor_obeyed_by_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    names = ["=cmd|' /C calc'!A0", "+1", "@SUM(A1)", "a=b"]
    write_results(file, [row("a", math.nan, class_name=name, run=name) for name in names])
    found = read_results(file)
    assert [line.class_name for line in found] == ["'=cmd|' /C calc'!A0", "'+1", "'@SUM(A1)", "a=b"]
    write_results(file, found)
    assert list(map(str, read_results(file))) == list(map(str, found))
    file.write_text(file.read_text(encoding="utf-8").replace("a=b", "\x1b[31m"), encoding="utf-8")
    assert read_results(file)[-1].run == r"\x1b[31m"
