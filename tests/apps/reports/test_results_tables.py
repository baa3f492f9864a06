"""The table and the figures of a paper, from results per case."""

import csv
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.case_rows import row

from fedannot.apps.reports.case_statistics import case_tests
from fedannot.apps.reports.results_figures import draw_cases, draw_curves
from fedannot.apps.reports.results_tables import results_table, write_latex, write_table, write_tests

# Two seeds, three patients: means of 0.5 and 0.6 in the seeds of a; b is better by 0.1, c by 0.2 in two patients.
ROWS = [
    row(arm, dice + gain, seed=seed, case=case, hd95_px=math.nan if case == 3 else 2.0, unit="px", detected=state)
    for seed, of_seed in enumerate([(0.4, 0.5, 0.6), (0.5, 0.6, 0.7)])
    for case, dice in enumerate(of_seed, 1)
    for arm, gain, state in (
        *(("a", 0.0, "detected"), ("b_2 & co", 0.1, "detected")),
        ("c", 0.2 * (case < 3), "detected" if case < 3 else "missed"),
    )
]


def test_means_are_over_seeds_of_means_over_cases() -> None:
    table = results_table(ROWS)
    cell = table.cells["a", "dice"]
    assert (cell.mean, cell.seeds_sd) == (pytest.approx(0.55), pytest.approx(math.sqrt(0.005)))
    assert (cell.num_seeds, cell.num_cases, cell.num_patients, cell.num_undefined) == (2, 6, 3, 0)
    # Of 27 draws one has the first patient alone, more than 2.5 %.
    assert (cell.low, cell.high) == (pytest.approx(0.45), pytest.approx(0.65))
    distance = table.cells["a", "hd95"]
    assert (distance.mean, distance.unit, distance.num_undefined, distance.num_patients) == (2.0, "px", 2, 2)
    assert table.missed == {"a": (0, 6), "b_2 & co": (0, 6), "c": (2, 6)}
    assert {(test.arm, test.metric) for test in table.tests} == {
        (arm, metric) for arm in ("b_2 & co", "c") for metric in ("dice", "hd95")
    }
    other = results_table(ROWS, "c")
    assert other.arms[0] == "c"
    assert other.tests[0].mean == pytest.approx(-0.4 / 3)
    with pytest.raises(ValueError, match=re.escape("of the arm 'd', but found those of ['a', 'b_2 & co', 'c']")):
        results_table(ROWS, "d")
    empty = [row("a", math.nan, case=case, detected="left empty") for case in (1, 2)]
    with pytest.raises(ValueError, match="a score of a case at least, but found none: nothing is annotated"):
        results_table(empty)


def test_latex_is_a_booktabs_table(tmp_path: Path) -> None:
    lines = write_latex(results_table(ROWS), tmp_path / "table.tex").read_text(encoding="utf-8").splitlines()
    assert lines[1:4] == [
        r"\begin{tabular}{lrrrrr}",
        r"\toprule",
        r"arm & Dice \% & HD95 px & missed & Dice difference & p (Wilcoxon, Holm) \\",
    ]
    assert lines[4:] == [
        r"\midrule",
        r"a & 55.0 (45.0 to 65.0) & 2.0 (2.0 to 2.0) & 0 of 6 & - & - \\",
        r"b\_2 \& co & 65.0 (55.0 to 75.0) & 2.0 (2.0 to 2.0) & 0 of 6 & +10.0 (+10.0 to +10.0) & 0.500 \\",
        r"c & 68.3 (65.0 to 75.0) & 2.0 (2.0 to 2.0) & 2 of 6 & +13.3 (+0.0 to +20.0) & 0.500 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_tables_hold_what_is_shown(tmp_path: Path) -> None:
    table = results_table(ROWS)
    write_table(table, tmp_path / "table.csv")
    write_tests(table.tests, tmp_path / "tests.csv")
    with (tmp_path / "table.csv").open(newline="") as stream:
        cells = {(line["arm"], line["metric"]): line for line in csv.DictReader(stream)}
    assert float(cells["b_2 & co", "dice"]["mean"]) == pytest.approx(0.65)
    with (tmp_path / "tests.csv").open(newline="") as stream:
        first = next(csv.DictReader(stream))
    assert (first["arm"], float(first["mean"]), first["num_cases"]) == ("b_2 & co", pytest.approx(0.1), "6")


def test_figures_are_the_same_files_for_the_same_data(tmp_path: Path) -> None:
    lines = [
        {"class": name, "arm": arm, "round": str(number), "dice": str(0.1 * number)}
        for name in ("mean", "lesion")
        for arm in ("a", "b")
        for number in (1, 2)
    ]
    contents = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        files = draw_cases(ROWS, case_tests(ROWS, "a"), "dice", folder / "cases")
        files += draw_curves(lines, "dice", folder / "curves")
        assert [file.name for file in files] == ["cases.pdf", "cases.svg", "curves.pdf", "curves.svg"]
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1]
    pdf, svg = contents[0][:2]
    assert pdf.startswith(b"%PDF-")
    # Text stays text, and the width is that of two columns: 7 inches of 72 points.
    text = svg.decode()
    assert "b_2 &amp; co" in text
    assert 'width="504pt"' in text


def test_one_arm_has_a_figure_without_differences(tmp_path: Path) -> None:
    rows = [one for one in ROWS if one.arm == "a"]
    draw_cases(rows, [], "dice", tmp_path / "cases")
    assert "against" not in (tmp_path / "cases.svg").read_text()
    assert results_table(rows).columns()["Dice difference"] == ["-"]


def test_surface_dice_of_different_tolerances_is_not_compared() -> None:
    rows = [row("a", 0.5, nsd=0.7), row("b", 0.6, nsd=0.9, nsd_tolerance=4.0)]
    with pytest.raises(ValueError, match=r"^Expected one nsd_tolerance, .* but found 2 in a, 4 in b\.$"):
        results_table(rows)
    table = results_table([replace(one, nsd_tolerance=4.0) for one in rows])
    assert table.cells["a", "nsd"].unit == "4 mm"
    assert "NSD % (4 mm)" in table.columns()
