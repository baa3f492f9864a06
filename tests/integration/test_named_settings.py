"""Runs with a named set of settings: what it changes, what changes it further, and what is recorded."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TINY, TINY_NOISE
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_phantom_federation(
        folder, LesionImages(noise=TINY_NOISE, exact=True), num_sites=3, images_per_site=4, test_images=4
    )
    return folder


def add_settings(job: Path, text: str) -> None:
    (job / "settings").mkdir()
    (job / "settings" / "tiny.conf").write_text(text)


def test_settings_stand_between_the_job_and_the_command_line(
    small_job: Callable[..., Path], federation: Path, tmp_path: Path
) -> None:
    job, out = small_job("fedaaai", seed=3, training__batch_size=4, embedded__seed=9), tmp_path / "out"
    add_settings(job, TINY)
    arguments = ["simulate", str(job), "--settings", "tiny", "--data", str(federation), "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--set", "training.learning_rate=0.003", "--seed", "7"])
    assert result.exit_code == 0, result.output
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert len(summary["rounds"]) == 2
    assert set(summary["sites"]) == {"site-1", "site-2", "site-3"}
    settings = summary["settings"]
    assert settings["embedded"]["seed"] == 9, "the job's"
    assert settings["training"]["batch_size"] == 2, "the set's, over the job's"
    assert settings["training"]["learning_rate"] == 0.003, "--set, over the set's"
    assert settings["seed"] == 7, "--seed, over the set's"
    assert not (out / "job" / "settings").exists()


def test_settings_for_any_data_run_on_the_phantom(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job, out = small_job("fedavg"), tmp_path / "out"
    add_settings(job, "settings { rounds = 1, embedded { sites = 2, images_per_site = 5 } }")
    result = CliRunner().invoke(app, ["simulate", str(job), "--settings", "tiny", "--out", str(out)])
    assert result.exit_code == 0, result.output
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert {site: report["num_samples"] for site, report in summary["sites"].items()} == {"site-1": 5, "site-2": 5}
