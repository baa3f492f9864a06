"""What is shown of a swarm by what its sites stored: the rounds that each has averaged, side by side."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_records import record, report

from fedannot.apps.reports.swarm_output import collect_from_sites, print_from_sites
from fedannot.apps.terminal import Terminal
from fedannot.custom.data.personal_files import LOCAL_MODEL_FILE, PERSONAL_FOLDER
from fedannot.custom.records.record_lines import write_records
from fedannot.custom.run.reading import METRICS_FILE

SITES = {"site-1": report(num_samples=90, num_threads=4), "site-2": report(num_samples=10, num_threads=2)}


def stored(site: str, workspace: Path, rounds: dict[int, float]) -> None:
    """What a site of a swarm stores of a run of three rounds, with the effective sites of those that it averaged."""
    folder = workspace / site / "job"
    (folder / f"app_{site}" / "config").mkdir(parents=True)
    settings = "settings { method = decoupled, rounds = 3, warmup_rounds = 1 }"
    (folder / f"app_{site}" / "config" / "settings.conf").write_text(settings)
    (folder / PERSONAL_FOLDER).mkdir()
    torch.save({"round": 3, "shared": {}, "personal": {}}, folder / PERSONAL_FOLDER / LOCAL_MODEL_FILE)
    few: dict[str, Any] = {"dominant": {"site": "site-1", "weight": 0.9}}
    refused = {"site-3": "it has no model"}
    kept = [
        record(
            number,
            **{"stage": "swarm", "sites": SITES, "refused": refused, "effective_sites": sites},
            **{"weights": {"site-1": number / 4, "site-2": 1 - number / 4}},
            **(few if sites < 1.5 else {}),
        )
        for number, sites in rounds.items()
    ]
    if kept:
        write_records(folder / METRICS_FILE, kept)


def shown(workspace: Path, out: Path) -> str:
    text = io.StringIO()
    print_from_sites(collect_from_sites(workspace, out), Terminal(file=text, width=200))
    return text.getvalue()


def test_rounds_of_all_sites_make_one_summary(tmp_path: Path) -> None:
    stored("site-1", tmp_path / "workspace", {1: 2.0, 3: 1.2})
    stored("site-2", tmp_path / "workspace", {2: 1.8})
    summary = collect_from_sites(tmp_path / "workspace", tmp_path / "out")
    assert [(item.round, item.effective_sites) for item in summary.rounds] == [(1, 2.0), (2, 1.8), (3, 1.2)]
    assert {site: found.num_threads for site, found in summary.sites.items()} == {"site-1": 4, "site-2": 2}
    assert [entry.round for entry in summary.dominant] == [3]
    text = shown(tmp_path / "workspace", tmp_path / "out")
    assert "effective sites of 2: 1.2 to 2.0 (swarm, rounds 1 to 3)" in text
    assert "In 1 of 3 rounds one site nearly decided alone: in round 3 site-1 had 0.90 of the weight." in text
    (row,) = (line.split() for line in text.splitlines() if line.strip().startswith("site-1 "))
    # After round 3 the site counts a quarter in the first and three quarters in the last.
    assert row == ["site-1", "-", "3", "0.25", "to", "0.75"]
    assert "weight: of the site in the average" in text
    assert text.count("site-3 refused: it has no model") == 3


@pytest.mark.parametrize(
    ("rounds", "said"),
    [({1: 2.0, 3: 2.0}, "effective sites of 2: 2.0 (swarm, 2 of rounds 1 to 3)"), ({}, None)],
)
def test_a_site_alone_has_the_rounds_that_it_averaged(
    tmp_path: Path, rounds: dict[int, float], said: str | None
) -> None:
    stored("site-1", tmp_path / "workspace", rounds)
    text = shown(tmp_path / "workspace" / "site-1", tmp_path / "out")
    assert "hence from the files of: site-1" in text
    assert said in text if said else "effective sites" not in text and "weight:" not in text
