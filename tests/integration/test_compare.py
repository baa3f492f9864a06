"""`fedannot compare`: the same data and start weights for all, finished runs are kept, comparisons are not mixed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedannot.apps.cli import app
from fedannot.apps.compare import Arm, compare
from fedannot.apps.job import JobError
from fedannot.custom.data.embedded import write_phantom_federation


def test_compare_runs_pairs_and_keeps_what_is_done(small_job: Callable[..., Path], tmp_path: Path) -> None:
    for seed in (0, 1):
        write_phantom_federation(
            tmp_path / f"data{seed}",
            num_sites=3,
            images_per_site=4,
            test_images=4,
            seed=seed,
            noise="M(25,-25,10,0.34)",
            exact=True,
        )
    jobs = [small_job("fedavg", rounds=2), small_job("fedaaai", rounds=2, group_test_level=1.0)]
    out = tmp_path / "out"
    arguments = ["compare", *map(str, jobs), "--data", str(tmp_path / "data{seed}"), "--out", str(out)]
    first = CliRunner().invoke(app, [*arguments, "--seeds", "2", "--set", "balance=0.4"])
    assert first.exit_code == 0, first.output
    comparison = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    runs = {(run["method"], run["seed"]): run for run in comparison["runs"]}
    assert set(runs) == {("fedavg", 0), ("fedavg", 1), ("feda3i", 0), ("feda3i", 1)}
    (paired,) = comparison["paired"]
    for seed in (0, 1):
        one, other = runs["fedavg", seed], runs["feda3i", seed]
        # The first round is federated averaging from the same start weights on the same data.
        assert one["rounds"][0] == other["rounds"][0]
        difference = other["last_rounds"]["dice"] - one["last_rounds"]["dice"]
        assert paired["differences"][seed] == pytest.approx(difference)
        assert one["seconds"] > 0
        assert one["peak_memory_mb"] > 100
    assert runs["feda3i", 0]["groups_as_drawn"] in (True, False)
    assert runs["fedavg", 0]["groups_as_drawn"] is None
    settings = json.loads((out / "runs" / f"{jobs[1].name}-seed0" / "summary.json").read_text(encoding="utf-8"))[
        "settings"
    ]
    assert settings["balance"] == 0.4
    assert (out / "comparison.png").read_bytes()[:4] == b"\x89PNG"

    models = {file: file.stat().st_mtime_ns for file in out.glob("runs/*/model.pt")}
    again = CliRunner().invoke(app, [*arguments, "--seeds", "2", "--set", "balance=0.4"])
    assert again.exit_code == 0
    assert {file: file.stat().st_mtime_ns for file in out.glob("runs/*/model.pt")} == models

    other_settings = CliRunner().invoke(app, [*arguments, "--seeds", "2", "--set", "balance=0.6"])
    assert other_settings.exit_code == 1
    assert "holds another comparison" in other_settings.output


def test_a_failing_run_is_named(small_job: Callable[..., Path], tmp_path: Path) -> None:
    arguments = ["compare", str(small_job("fedavg")), str(small_job("fedaaai")), "--seeds", "1"]
    result = CliRunner().invoke(app, [*arguments, "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "2 of 2 runs failed" in result.output
    assert "found no such file" in result.output


def test_a_comparison_needs_jobs_of_different_names(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = str(small_job("fedavg"))
    for jobs, message in (([job], "at least two jobs"), ([job, job], "of different names")):
        result = CliRunner().invoke(app, ["compare", *jobs, "--out", str(tmp_path / "out")])
        assert result.exit_code == 1
        assert message in result.output
    assert not (tmp_path / "out").exists()


def test_arms_of_one_job_can_be_added_and_not_changed(small_job: Callable[..., Path], tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_phantom_federation(data, num_sites=3, images_per_site=4, test_images=4, noise="M(25,-25,10,0.34)")
    job = small_job("fedaaai", rounds=2, group_test_level=1.0)
    options: dict[str, Any] = {"data": str(data), "seeds": [0], "overrides": {}}
    even, uneven = Arm("even", job, {"balance": 0.5}), Arm("uneven", job, {"balance": 0.9})
    compare([even], tmp_path / "out", **options)
    model = tmp_path / "out" / "runs" / "even-seed0" / "model.pt"
    written = model.stat().st_mtime_ns

    comparison = compare([even, uneven], tmp_path / "out", **options)
    assert model.stat().st_mtime_ns == written
    assert [run["arm"] for run in comparison["runs"]] == ["even", "uneven"]
    assert [(pair["arm"], pair["reference"]) for pair in comparison["paired"]] == [("uneven", "even")]
    summary = json.loads((tmp_path / "out" / "runs" / "uneven-seed0" / "summary.json").read_text(encoding="utf-8"))
    assert summary["settings"]["balance"] == 0.9

    with pytest.raises(JobError, match="holds another comparison"):
        compare([Arm("even", job, {"balance": 0.4})], tmp_path / "out", **options)
    with pytest.raises(JobError, match=r"strange: the job .* has no settings \['balanse'\]"):
        compare([even, Arm("strange", job, {"balanse": 0.4})], tmp_path / "out", **options)


@pytest.mark.parametrize(
    "command", ["simulate", "compare", "show", "data phantom", "data import", "data noise", "bench feda3i"]
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert "Example: fedannot" in " ".join(result.output.split())
