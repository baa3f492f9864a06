"""Results per case of a finished run: they say what its scores say."""

import csv
import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY

from fedannot.apps import ProgressStep, Run, export_results, simulate
from fedannot.apps.reports.case_results import FinishedRun
from fedannot.apps.reports.result_rows import RunName, classification_row
from fedannot.apps.reports.results_file import (
    COLUMNS,
    RESULTS_DESCRIPTION,
    RESULTS_FILE,
    read_description,
    read_results,
    read_round_lines,
    write_results,
)
from fedannot.apps.runs.progress import progress_of
from fedannot.apps.runs.simulate import score_cases
from fedannot.custom.data.tensor_files import write_tensors
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.run.state import ResumeError
from fedannot.custom.run.summary_record import FinalModel, ScoredRounds
from fedannot.transforms.errors import DataError

FIRST_COLUMNS = "run,arm,seed,site,case,class,dice,hd95_mm,nsd,volume_difference_ml,lesion_f1,detected"


def test_means_over_cases_are_the_scores_of_the_last_round(run: Run) -> None:
    rows = read_results(run.folder / RESULTS_FILE)
    last = run.summary.rounds[-1]
    assert {(row.run, row.arm, row.seed, row.site, row.model) for row in rows} == {
        ("small", "fedaaai", 3, "test", "global")
    }
    assert [row.case for row in rows] == ["case-1", "case-2", "case-3"]
    assert len({row.patient for row in rows}) == 3
    assert statistics.fmean(row.dice for row in rows) == pytest.approx(last.main_score, abs=1e-6)
    # Generated pictures have no millimetres.
    assert {row.unit for row in rows} == {"px"}
    assert statistics.fmean(row.hd95 for row in rows) == pytest.approx(last.hd95, abs=1e-4)


def test_lines_of_rounds_are_the_records(run: Run) -> None:
    lines = read_round_lines(run.folder / "results_rounds.csv")
    assert [(line["round"], line["class"]) for line in lines] == [
        (str(number), name) for number in (1, 2, 3) for name in ("mean", "lesion")
    ]
    means = [float(line["dice"]) for line in lines if line["class"] == "mean"]
    assert means == pytest.approx([record.main_score for record in run.summary.rounds], abs=1e-6)


def test_calibration_counts_every_pixel(run: Run) -> None:
    content = json.loads((run.folder / "calibration.json").read_text(encoding="utf-8"))
    (of_test,) = content["calibration"]
    assert (content["predictions"], of_test["site"], of_test["cases"]) == ("pixels", "test", 3)
    assert sum(of_test["count"]) == 3 * 64 * 64
    shares = [
        n * abs(accuracy - confidence)
        for n, accuracy, confidence in zip(of_test["count"], of_test["accuracy"], of_test["confidence"], strict=True)
        if n
    ]
    assert of_test["ece_pooled"] == pytest.approx(sum(shares) / sum(of_test["count"]))


def test_columns_are_as_documented_and_hold_no_name(run: Run) -> None:
    with (run.folder / RESULTS_FILE).open(encoding="utf-8") as stream:
        text = stream.read()
    assert text.startswith(f"{FIRST_COLUMNS},unit,")
    images = [file.name for file in (run.folder / "data" / "test").rglob("*.png")]
    assert images
    assert not any(name in text or Path(name).stem in text for name in images)
    assert (run.folder / RESULTS_FILE).stat().st_mode & 0o077 == 0


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    common = {"run": "r", "arm": "a", "seed": 1, "site": "site-1", "case": "case-1", "patient": "patient-1"}
    common |= {"list_name": "testing", "model": "global", "nsd_tolerance": 2.0}
    rows = [classification_row(common, "a, b", predicted, 0.25) for predicted in ("a, b", "c")]
    write_results(tmp_path / "results.csv", rows, {})
    read = read_results(tmp_path / "results.csv")
    assert [str(row) for row in read] == [str(row) for row in rows]
    assert [row.detected for row in read] == ["detected", "missed"]
    with (tmp_path / "results.csv").open(newline="") as stream:
        cells = next(csv.DictReader(stream))
    # What is not defined is empty.
    assert {name for name in COLUMNS if cells[name] == ""} >= {"dice", "hd95_mm", "nsd", "unit", "hd95_px"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run,arm\nr,a\n", "no column 'seed'"),
        (",".join(COLUMNS) + "\n" + "r,a,zero" + "," * (len(COLUMNS) - 3) + "\n", "line 2 has seed = 'zero'"),
    ],
)
def test_another_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path / "results.csv")
    with pytest.raises(DataError, match="found no such file"):
        read_results(tmp_path / "none.csv")


def test_a_run_is_exported_with_the_data_of_its_figures(run: Run, tmp_path: Path) -> None:
    exported = export_results(run.folder, tmp_path / "paper")
    assert {file.name for file in (tmp_path / "paper").iterdir()} == {
        *(
            "results.csv",
            "results.json",
            "results_rounds.csv",
            "calibration.json",
            "table.csv",
            "table.tex",
            "tests.csv",
        ),
        *("cases.pdf", "cases.svg", "curves.pdf", "curves.svg"),
    }
    assert len(exported.figures) == 4
    assert (tmp_path / "paper" / "results.csv").read_bytes() == (run.folder / "results.csv").read_bytes()
    assert exported.table.arms == ["fedaaai"]
    assert exported.models == (FinalModel(kind="last", rounds=(3,)),)
    assert "% Scored are the models of the last round." in exported.latex.read_text(encoding="utf-8")
    assert str(exported).startswith("Means over cases, with 95 % bootstrap intervals over patients; 3 patients.\n")
    last = run.summary.rounds[-1].main_score
    assert exported.table.cells["fedaaai", "dice"].mean == pytest.approx(last, abs=1e-6)
    assert r"\toprule" in exported.latex.read_text(encoding="utf-8")
    assert "<table>" in exported._repr_html_()
    with pytest.raises(DataError, match="of the arm 'auto'"):
        export_results(run.folder, tmp_path / "other", reference="auto")
    assert not (tmp_path / "other").exists()


def test_a_run_of_an_earlier_version_is_scored_to_the_same_lines(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "small"
    shutil.copytree(run.folder, old, ignore=shutil.ignore_patterns("results*", "data"))
    shutil.move(shutil.copytree(run.folder / "data", tmp_path / "data"), tmp_path / "moved")
    rows = export_results(old, tmp_path / "paper", data=tmp_path / "moved").rows
    earlier = read_results(run.folder / RESULTS_FILE)
    assert [(row.case, row.dice, row.hd95_px) for row in rows] == [(row.case, row.dice, row.hd95_px) for row in earlier]


@pytest.mark.parametrize("again", ["resumed", "exported"])
def test_a_table_of_an_earlier_version_is_made_again(again: str, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    shutil.copytree(run.folder, folder)
    expected, whole = read_results(folder / RESULTS_FILE), (folder / RESULTS_FILE).read_bytes()
    (folder / RESULTS_FILE).write_bytes(whole[: len(whole) // 2])
    (folder / RESULTS_DESCRIPTION).unlink()
    if again == "resumed":
        simulate(folder / "job", folder, data=run.summary.data_folder, resume=True)
    else:
        export_results(folder, tmp_path / "paper")
    found = read_results(folder / RESULTS_FILE)
    assert [(row.arm, row.case, row.dice, row.hd95_px) for row in found] == [
        (row.arm, row.case, row.dice, row.hd95_px) for row in expected
    ]


def test_cases_are_scored_with_the_model_of_the_round_that_is_reported(run: Run, tmp_path: Path) -> None:
    """Here that model predicts nothing, so that whoever takes the last one is noticed."""
    other = tmp_path / "small"
    shutil.copytree(run.folder, other, ignore=shutil.ignore_patterns("results*", "run"))
    summary = json.loads((other / "summary.json").read_text(encoding="utf-8"))
    summary["scored_rounds"] = {"kind": "best", "rounds": [2]}
    (other / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    params = torch.load(run.model, weights_only=True)["model"]
    last = next(name for name, value in reversed(params.items()) if value.shape == (2,))
    write_tensors(other / "scored_model.pt", {"round": 2, "model": params | {last: torch.tensor([1e6, -1e6])}})
    exported = export_results(other, tmp_path / "paper", data=run.folder / "data")
    assert [row.dice for row in exported.rows] == [0.0, 0.0, 0.0]
    assert exported.models == (FinalModel(kind="best", rounds=(2,)),)
    assert "Scored are the models of the rounds that are the best by the sites' validation." in str(exported)


def test_a_finished_run_says_what_is_asked_for_later(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "small"
    shutil.copytree(run.folder, other)
    options: dict[str, Any] = {"seed": 3, "resume": True}
    changes = TINY | {"scored_rounds": "last", "nsd_tolerance": 1000.0}
    again = simulate("fedaaai", other, changes=changes, **options).summary
    assert again.scored_rounds == ScoredRounds(kind="last", rounds=(3,))
    assert (again.main_score, again.rounds) == (run.summary.rounds[-1].main_score, run.summary.rounds)
    before, after = (read_results(folder / RESULTS_FILE) for folder in (run.folder, other))
    assert [row.dice for row in before] == [row.dice for row in after]
    # No boundary is as far from the other as that.
    assert [(row.nsd, row.nsd_tolerance) for row in after] == [(1.0, 1000.0)] * 3
    assert all(row.nsd < 1.0 for row in before)
    assert read_description(other / RESULTS_FILE).nsd_tolerances == (1000.0,)
    with pytest.raises(ResumeError, match=r"scored_rounds='best', but the state is of a run of scored_rounds=None"):
        simulate("fedaaai", other, changes=TINY | {"scored_rounds": "best"}, **options)


def test_a_site_scores_the_model_on_its_own_cases_alone(run: Run, tmp_path: Path) -> None:
    """A hospital with the model and a folder of its own; another test set beside that folder does not count."""
    shown = tmp_path / "shown"
    shutil.copytree(run.folder, shown, ignore=shutil.ignore_patterns("results*", "data", "run"))
    for name in ("test", "hospital-a"):
        shutil.copytree(run.folder / "data" / "test", tmp_path / "own" / name)
    rows = export_results(shown, tmp_path / "paper", data=tmp_path / "own" / "hospital-a").rows
    assert {(row.site, row.list_name, row.model) for row in rows} == {("hospital-a", "testing", "global")}
    assert [row.dice for row in rows] == [row.dice for row in read_results(run.folder / RESULTS_FILE)]


def test_patients_of_two_sources_that_number_them_alike_are_several(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "small"
    shutil.copytree(run.folder, old, ignore=shutil.ignore_patterns("results*"))
    file = old / "data" / "test" / "datalist.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    for case, source in zip(values["testing"], ("a", "b", "b"), strict=True):
        case |= {"group": "1", "source": source}
    file.write_text(json.dumps(values), encoding="utf-8")
    rows = export_results(old, tmp_path / "paper", data=old / "data").rows
    assert [row.patient for row in rows] == ["patient-1", "patient-2", "patient-2"]


def test_a_run_comes_to_its_end_without_results_per_case(run: Run, tmp_path: Path) -> None:
    """Here the model is not where it should be."""
    settings = read_job_settings(run.summary.settings, of_finished_run=True)
    name = RunName("small", "fedaaai", 3)
    absent = tmp_path / "app_server" / "model.pt"
    finished = FinishedRun(
        name, tmp_path, absent, FinalModel(kind="last", rounds=(3,)), settings, run.folder / "data", ["site-1"]
    )
    steps: list[ProgressStep] = []
    score_cases(finished, tmp_path, tmp_path, progress_of(steps.append))
    assert "warning: no results per case: FileNotFoundError: " in str(steps[-1])
    assert list(tmp_path.iterdir()) == []
