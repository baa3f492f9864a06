"""Comparisons over splits, with comparisons that write their results without training."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.case_rows import row
from test_comparisons import compared
from typer.testing import CliRunner

from fedannot.apps import cross_validate, read_compared
from fedannot.apps.commands.cli import app
from fedannot.apps.functions import cross_validation, results, runs
from fedannot.apps.reports.output import read_summary
from fedannot.apps.reports.results_file import read_description, read_results, write_results
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.job import JobError
from fedannot.apps.runs.run_process import Commands
from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.run.summary_record import FinalModel

JOBS = Path(__file__).parents[3] / "jobs"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of each comparison, in place of which results of its test set are written."""
    calls: list[dict[str, Any]] = []

    def write(arms: list[str], out: Path, **options: Any) -> object:
        calls.append({"arms": arms, "out": out, **options})
        if not out.exists():
            compared(out)
        rows = []
        for seed in options["seeds"]:
            folder = Path(options["data"].replace("{seed}", str(seed)))
            for number, _ in enumerate(read_datalist(folder / "test" / "datalist.json").section("testing"), 1):
                rows += [
                    row(arm, gain + 0.01 * number, seed=seed, case=number) for arm, gain in (("a", 0.5), ("b", 0.6))
                ]
            rows.append(row("a", 0.1, seed=seed, site="site-1"))
        write_results(out / "results.csv", rows, {"a-0": FinalModel(kind="last", rounds=(1,))})
        return read_compared(out)

    monkeypatch.setattr(cross_validation, "compare", write)
    return calls


def write_federation(folder: Path, seed: int = 0) -> None:
    write_phantom_federation(folder, LesionImages(), num_sites=2, images_per_site=4, test_images=1, seed=seed)


def test_cases_of_all_splits_come_together(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    write_federation(tmp_path / "data")
    out = tmp_path / "out"
    done = cross_validate(["a", "b"], out, data=str(tmp_path / "data"), folds=2, seeds=2, changes={"rounds": 1})
    assert [(call["out"].name, call["changes"], list(call["seeds"])) for call in asked] == [
        (name, {"rounds": 1}, [0, 1]) for name in ("fold-1", "fold-2")
    ]
    assert list(done.splits) == ["fold-1", "fold-2"]
    rows = read_results(out / "results.csv")
    assert list(read_description(out / "results.csv").models) == ["fold-1/a-0", "fold-2/a-0"]
    # Each of eight cases once for each seed and arm; cases of sites are in the splits' own files.
    assert len(rows) == 8 * 2 * 2
    assert len({row.patient for row in rows}) == 8
    assert {row.run.split("/")[0] for row in rows} == {"fold-1", "fold-2"}
    (test,) = [test for test in done.results.table.tests if test.metric == "dice"]
    assert (test.num_cases, test.num_patients, test.mean) == (16, 8, pytest.approx(0.1))
    assert {"table.tex", "cases.pdf", "splits.json"} <= {file.name for file in out.iterdir()}

    with pytest.raises(JobError, match="holds another cross-validation: folds was 2 and is 3"):
        cross_validate(["a", "b"], out, data=str(tmp_path / "data"), folds=3, seeds=2)


def test_each_seed_may_have_data_of_its_own(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    for seed in (4, 5):
        write_federation(tmp_path / f"data{seed}", seed)
    data = str(tmp_path / "data{seed}")
    cross_validate(["a", "b"], tmp_path / "out", data=data, leave_site_out=True, seeds=[4, 5])
    assert [call["data"] for call in asked] == [
        str(tmp_path / "out" / "data" / "seed-{seed}" / f"without-site-{number}") for number in (1, 2)
    ]
    splits = json.loads((tmp_path / "out" / "splits.json").read_text(encoding="utf-8"))
    assert splits == {"data": data, "folds": None, "leave_site_out": True, "seed": 0}


def test_each_site_is_left_out_of_training_and_tested_with_what_the_others_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs with a round of training, in this process."""
    started: list[list[str]] = []

    def run_here(_: Commands, command: list[str], log: Path, **__: Any) -> int:
        started.append(command)
        result = CliRunner().invoke(app, command)
        log.write_text(result.output)
        return result.exit_code

    monkeypatch.setattr(Commands, "run", run_here)
    # Figures are tested elsewhere.
    monkeypatch.setattr(runs, "draw_run", lambda *args: ())
    for name in ("draw_cases", "draw_curves"):
        monkeypatch.setattr(results, name, lambda *args: None)
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=3, images_per_site=2, test_images=1)
    changes = {"rounds": 1, "training.local_epochs": 1, "network.features": [4, 4, 8, 8, 8, 4]}
    other = Arm("slow", JOBS / "fedavg", {"training.learning_rate": 1e-4})
    options: dict[str, Any] = {"seeds": 1, "changes": changes, "processes": 1}
    done = cross_validate(
        ["fedavg", other], tmp_path / "out", data=str(tmp_path / "data"), leave_site_out=True, **options
    )
    assert list(done.splits) == [f"without-site-{number}" for number in (1, 2, 3)]
    assert len(started) == 6
    rows = read_results(tmp_path / "out" / "results.csv")
    # Two cases of each of three sites, with each of two arms.
    assert len(rows) == 3 * 2 * 2
    for name in done.splits:
        for arm in ("fedavg", "slow"):
            summary = read_summary(tmp_path / "out" / name / "runs" / f"{arm}-seed0")
            assert sorted(summary.sites) == [site for site in ("site-1", "site-2", "site-3") if not name.endswith(site)]
            assert [record.round for record in summary.rounds] == [1]
            # The cases are those that the round was scored on.
            of_run = [row.dice for row in rows if row.run == f"{name}/{arm}-seed0"]
            assert summary.main_score == pytest.approx(sum(of_run) / 2, abs=1e-6)


def test_one_kind_of_split_and_an_empty_folder(tmp_path: Path) -> None:
    for kind in ({}, {"folds": 2, "leave_site_out": True}):
        with pytest.raises(JobError, match="either a number of folds"):
            cross_validate(["a"], tmp_path / "out", data="x", **kind)  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with pytest.raises(JobError, match="holds other files"):
        cross_validate(["a"], tmp_path, data="x", folds=2)
