"""A paper's table made again: its means, gains, times, and what its files and a later call keep of it."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plain_records
import pytest
from support.paper_tables import without_arm

from fedannot.apps.papers import running
from fedannot.apps.papers.data import check_sources
from fedannot.apps.papers.output import CSV_FILE, JSON_FILE, MARKDOWN_FILE, print_table, read_earlier, write_outputs
from fedannot.apps.papers.reading import NamedTable, PaperError, find_table, known_tables, restricted
from fedannot.apps.papers.records import PaperRow
from fedannot.apps.papers.results import (
    RowResult,
    RowStatus,
    TimeToBest,
    centre_score,
    run_row,
    table_result,
    time_to_best,
    unrun_row,
)
from fedannot.apps.papers.running import TableRequest, make_table
from fedannot.apps.reports.centre_scores import CentreScores
from fedannot.apps.reports.compared_runs import Comparison
from fedannot.apps.reports.comparison_page import run_folder
from fedannot.apps.runs.job import JobError
from fedannot.apps.runs.progress import Reported
from fedannot.apps.terminal import Terminal

SCORES = {"FedAvg": ([0.5, 0.75, 0.625], [0.25, 0.5, 0.5]), "FedA3I": ([0.5, 0.875, 0.75], [0.25, 0.375, 0.375])}


def compared(folder: Path, scores: Mapping[str, Sequence[Sequence[float]]] = SCORES) -> Comparison:
    """Arms with a list of Dice for each seed, a round of two minutes each; the last round counts."""
    runs = []
    for arm, seeds in scores.items():
        for seed, values in enumerate(seeds):
            rounds = [{"dice": value, "seconds": 120.0} for value in values]
            run = run_folder(folder, arm, seed)
            run.mkdir(parents=True)
            summary = plain_records.summary_values(seed=seed, rounds=rounds, last_rounds={"dice": values[-1]})
            (run / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
            compact = [{"dice": value} for value in values]
            runs.append({"arm": arm, "seed": seed, "last_rounds": {"dice": values[-1]}, "rounds": compact})
    return plain_records.comparison(runs, seeds=tuple(range(len(next(iter(scores.values()))))), data="nowhere")


def row_of(named: NamedTable, name: str, group: int = 0) -> PaperRow:
    return next(row for row in named.table.groups[group].rows if row.name == name)


def made_row(folder: Path, name: str) -> RowResult:
    named = known_tables()["feda3i-table2"]
    group = named.table.groups[0]
    comparison = compared(folder)
    return run_row(named, "skin-ns", group, row_of(named, name), comparison, folder)


def test_a_row_has_its_mean_and_the_gain_of_each_seed(tmp_path: Path) -> None:
    row = made_row(tmp_path, "FedA3I")
    dice = row.metrics["dice"]
    assert row.status is RowStatus.RUN
    assert row.seeds == (0, 1)
    assert dice.here == (75.0, 37.5)
    assert dice.gain == (12.5, -12.5)
    # (75 - 56.25)² · 2 / (2 - 1), of which the root is 18.75 √2.
    assert (dice.mean, dice.spread, dice.mean_gain) == (56.25, pytest.approx(18.75 * 2**0.5), 0.0)
    assert dice.published is not None
    assert (dice.published.mean, dice.published.spread) == (72.69, 1.28)
    # Published: 72.69 of FedA³I and 63.85 of FedAvg.
    assert dice.published_gain == 8.84


def test_a_row_has_its_time_to_the_best_round_of_federated_averaging(tmp_path: Path) -> None:
    """Seed by seed: 0.875 is above 0.75 in round 2; 0.375 is never 0.5."""
    row = made_row(tmp_path, "FedA3I")
    assert row.time_to_best == (TimeToBest(round=2, minutes=4.0), TimeToBest())


def test_the_reference_reaches_its_own_best_and_gains_nothing(tmp_path: Path) -> None:
    row = made_row(tmp_path, "FedAvg")
    assert row.time_to_best == (TimeToBest(round=2, minutes=4.0), TimeToBest(round=2, minutes=4.0))
    assert row.metrics["dice"].gain == ()
    assert row.metrics["dice"].published_gain is None


@pytest.mark.parametrize(
    ("best", "scores", "reached"),
    [(0.5, [0.2, None, 0.5], 3), (0.6, [0.2, 0.5], None), (None, [0.2], None), (0.1, [0.2, 0.0], 1)],
)
def test_the_first_round_that_reaches_a_score(best: float | None, scores: list[float], reached: int | None) -> None:
    seconds = [60.0 * 2**index for index in range(len(scores))]
    # Rounds of 1, 2 and 4 minutes: 2^n - 1 until the end of the n-th.
    assert time_to_best(best, scores, seconds) == TimeToBest(round=reached, minutes=reached and 2**reached - 1)


@pytest.mark.parametrize(("metric", "value"), [("generic", 0.9), ("centre A", 0.5), ("centre D", None), ("own", 0.6)])
def test_scores_of_centres_are_in_the_order_of_the_sites(metric: Any, value: float | None) -> None:
    centres = CentreScores(generic=0.9, own={"b": 0.5, "a": 0.7})
    result = centre_score(centres, metric, ["b", "a", "c", "d"])
    assert result == (value if value is None else pytest.approx(value))


def test_a_method_that_is_not_implemented_has_the_published_figures_alone() -> None:
    named = without_arm("fedgsca-table7", "FedProx")
    group = named.table.groups[0]
    row = unrun_row(named, "kvasir-0-S40-P20-C20", group, row_of(named, "FedProx"))
    assert row.status is RowStatus.NOT_IMPLEMENTED
    assert row.metrics["f1"].here == ()
    # 75.09 of FedProx and 75.16 of FedAvg.
    assert row.metrics["f1"].published_gain == -0.07
    own = unrun_row(named, "kvasir-0-S40-P20-C20", group, row_of(named, "FedGSCA"))
    assert (own.status, own.published_minutes) == (RowStatus.NOT_RUN, 96.78)


def written(folder: Path) -> dict[tuple[str, str, str], RowResult]:
    named = known_tables()["feda3i-table2"]
    made = {("skin-ns", "ce", name): made_row(folder / name, name) for name in ("FedAvg", "FedA3I")}
    write_outputs(table_result(named, made, small=False, differs=["It differs."]), folder)
    return made


def test_the_files_have_here_beside_published(tmp_path: Path) -> None:
    made = written(tmp_path)
    text = (tmp_path / MARKDOWN_FILE).read_text(encoding="utf-8")
    assert "| FedA³I | 2 seeds | 56.2 ± 26.5 | 72.69 ± 1.28 | +0.0 | +8.84 | 2 (1 of 2 seeds) | 4.00 |" in text
    assert "| GCE | not run | - | 66.43 ± 2.21 | - | +2.58 | - | - | table 2, line 158 |" in text
    assert "Score of a run: mean of the last three rounds." in text
    assert "- It differs." in text
    rows = list(csv.DictReader(io.StringIO((tmp_path / CSV_FILE).read_text(encoding="utf-8"))))
    # Four conditions, eleven rows with cross entropy and four with Dice.
    assert len(rows) == 4 * (11 + 4)
    (own,) = [row for row in rows if row["status"] == "run" and row["row"] == "FedA3I"]
    assert (own["mean"], own["paper_mean"], own["paper_gain"]) == ("56.25", "72.69", "8.84")
    assert (own["rounds_to_fedavg_best"], own["seeds_that_reach_it"]) == ("2.0", "1")
    assert json.loads((tmp_path / JSON_FILE).read_text(encoding="utf-8"))["table"] == "feda3i-table2"
    assert read_earlier(tmp_path) == made
    assert read_earlier(tmp_path / "nowhere") == {}


def test_the_printed_table_names_what_was_not_run(tmp_path: Path) -> None:
    named = without_arm("fedgsca-table4", "FedProx")
    group = named.table.groups[0]
    row = unrun_row(named, "kvasir-S40", group, row_of(named, "FedGSCA")).model_copy(update={"status": RowStatus.RUN})
    stream = io.StringIO()
    result = table_result(named, {("kvasir-S40", "all", "FedGSCA"): row}, small=False, differs=[])
    print_table(result, Terminal(file=stream, width=100))
    assert "not implemented here" in stream.getvalue()
    assert "Not run: 1 of 2 blocks." in stream.getvalue()
    assert "precision" in stream.getvalue()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """Runs and generated images are not made; what is asked for is noted."""
    noted: list[dict[str, Any]] = []

    def compare(arms: Any, out: Path, **options: Any) -> Comparison:
        noted.append({"arms": [arm.name for arm in arms], "out": out.name, **options})
        return compared(tmp_path / f"call{len(noted)}", {arm.name: SCORES["FedAvg"] for arm in arms})

    def row(named: Any, key: str, group: Any, row: PaperRow, comparison: Comparison, runs: Path) -> RowResult:
        return run_row(named, key, group, row, comparison, tmp_path / f"call{len(noted)}")

    monkeypatch.setattr(running, "compare", compare)
    monkeypatch.setattr(running, "run_row", row)
    monkeypatch.setattr(running, "make_phantom", lambda named, key, out, progress: out / key)
    return noted


def run_statuses(out: Path) -> dict[tuple[str, str, str], int]:
    return {key: len(row.seeds) for key, row in read_earlier(out).items()}


def test_every_group_is_run_on_every_condition_and_later_calls_add_rows(
    calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    named, out = find_table("feda3i-table3"), tmp_path / "out"
    first = restricted(named, ["skin-ns", "breast-ne", "IntraGW"])
    make_table(TableRequest(first, out, small=True, changes={"threads": 2}), Reported(None))
    assert [call["out"] for call in calls] == ["skin-ns-ce", "skin-ns-dc", "breast-ne-ce", "breast-ne-dc"]
    assert calls[0]["arms"] == ["FedAvg", "IntraGW"]
    assert calls[0]["seeds"] == range(1)
    assert calls[0]["overrides"] == {"threads": 2}
    second = restricted(named, ["skin-ns", "FedA3I"])
    result = make_table(TableRequest(second, out, small=True, seeds=2, changes={"threads": 2}), Reported(None))
    blocks = {(block.condition, block.group): block for block in result.blocks}
    statuses = [row.status for row in blocks["skin-ns", "ce"].rows]
    assert statuses == [RowStatus.RUN] * 3
    assert [row.status for row in blocks["skin-ne", "ce"].rows] == [RowStatus.NOT_RUN] * 3
    assert ("breast-ne", "dc", "IntraGW") in run_statuses(out)
    assert any("Generated images" in text for text in result.differs)
    assert "threads = 2 in all rows." in result.differs


def test_another_table_in_the_folder_is_refused(calls: list[dict[str, Any]], tmp_path: Path) -> None:
    out = tmp_path / "out"
    make_table(TableRequest(restricted(find_table("fedia-table2"), ["ms-m0"]), out, small=True), Reported(None))
    with pytest.raises(JobError, match="table was fedia-table2 and is fedia-table3"):
        make_table(TableRequest(find_table("fedia-table3"), out, small=True), Reported(None))
    with pytest.raises(JobError, match=r"changes was \{\} and is \{'rounds': 9\}"):
        make_table(TableRequest(find_table("fedia-table2"), out, small=True, changes={"rounds": 9}), Reported(None))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(JobError, match="holds other files"):
        make_table(TableRequest(find_table("fedia-table2"), tmp_path / "full", small=True), Reported(None))
    assert len(calls) == 1


def test_what_a_table_needs_is_asked_for_before_anything_is_made(tmp_path: Path) -> None:
    named = find_table("fedgsca-table4")
    with pytest.raises(PaperError, match="needs --data DIR with a folder for each of kvasir-capsule"):
        make_table(TableRequest(named, tmp_path / "out"), Reported(None))
    with pytest.raises(PaperError, match=re.escape("needs --set network.checkpoint=…")):
        make_table(TableRequest(named, tmp_path / "out", tmp_path), Reported(None))
    with pytest.raises(PaperError, match="either --small or --data"):
        make_table(TableRequest(named, tmp_path / "out", tmp_path, small=True), Reported(None))
    assert not (tmp_path / "out").exists()


def test_data_that_are_absent_are_named_with_their_layout(tmp_path: Path) -> None:
    (tmp_path / "busi").mkdir()
    named = restricted(find_table("feda3i-table2"), ["breast-ns"])
    with pytest.raises(PaperError, match="lacks busis, udiat") as refused:
        check_sources(named, tmp_path)
    assert f"{tmp_path / 'udiat'}: UDIAT" in str(refused.value)
    # Of a single data set its own folder will do.
    check_sources(find_table("fedgsca-table10"), tmp_path)
    with pytest.raises(PaperError, match="lacks chaoyang"):
        check_sources(find_table("fedgsca-table10"), tmp_path / "nowhere")
