"""`fedannot paper … --small`, one table of each paper, as a whole command: data, noise, runs, and the table's files.

All four papers are apart from CI, since they take minutes: `make test-processes`. One is in `make test-simulator`.
"""

import csv
import json
import subprocess
from pathlib import Path

import pytest
from support.python_processes import run_python

TIMEOUT = 300
# The table, what of it is run, and the rows that are run then; one condition, so that each takes half a minute.
TABLES = {
    "feda3i-table3": ("skin-ns,FedA3I", {"FedAvg", "FedA3I"}),
    "fedia-table2": ("ms-m3,CAC", {"FedAvg", "CAC"}),
    "fedgsca-table10": ("chaoyang", {"FedAvg", "FedGSCA"}),
    "decoupled-table1": ("decoupled", {"Swarm", "decoupled"}),
}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_python(folder, "-m", "fedannot", "paper", *words, timeout=TIMEOUT)


@pytest.mark.processes
@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_each_paper_is_made_small(name: str, tmp_path: Path) -> None:
    only, rows = TABLES[name]
    done = run(tmp_path, name, "--small", "--only", only)
    out = tmp_path / "runs" / "papers" / f"{name}-small"
    assert f"{name}:" in done.stdout
    assert "Generated images" in done.stdout
    with (out / "table.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    made = [row for row in table if row["status"] == "run"]
    assert {row["row"] for row in made} == rows
    # Of every score that the paper has, a figure here stands beside the paper's.
    assert all(row["mean"] and row["paper_mean"] for row in made)
    reference = {row["rounds_to_fedavg_best"] for row in made if not row["gain"]}
    assert reference.isdisjoint({""})
    assert all(row["gain"] for row in made if row["row"] != made[0]["row"])
    result = json.loads((out / "table.json").read_text(encoding="utf-8"))
    assert result["small"] is True
    assert "## What differs from the paper" in (out / "table.md").read_text(encoding="utf-8")


@pytest.mark.simulator
def test_the_same_command_goes_on_and_a_row_may_be_added(tmp_path: Path) -> None:
    words = ("fedia-table3", "--small", "--out", "made", "--only")
    run(tmp_path, *words, "lung-m2,T10")
    run_file = tmp_path / "made" / "runs" / "lung-m2-all" / "runs" / "T10-seed0" / "model.pt"
    first = run_file.stat().st_mtime_ns
    done = run(tmp_path, *words, "lung-m2,T20")
    assert "1 finished before" in done.stderr
    assert run_file.stat().st_mtime_ns == first
    with (tmp_path / "made" / "table.csv").open(encoding="utf-8", newline="") as file:
        made = {row["row"] for row in csv.DictReader(file) if row["status"] == "run"}
    assert made == {"FedAvg", "T10", "T20"}
