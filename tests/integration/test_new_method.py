"""A method in a package of its own, as docs/new-method.md walks through it: installed, run, and seen in the summary."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import JOBS, SMALL
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "new-method.md"
TIMEOUT_SECONDS = 300


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of the page, install them as its last command does, and return where they are."""
    package, target = tmp_path_factory.mktemp("nearness"), tmp_path_factory.mktemp("installed")
    for file, content in re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        (package / file).parent.mkdir(exist_ok=True)
        (package / file).write_text(content, encoding="utf-8")
    command = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(target), str(package)]
    subprocess.run([sys.executable, "-m", "pip", *command], check=True, timeout=TIMEOUT_SECONDS)
    return target


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in an environment in which the package is installed."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(installed), *environment.get("PYTHONPATH", "").split(os.pathsep)])
    folder = Path(sys.executable).parent
    command = [str(folder / arguments[0]), *arguments[1:]]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )


def small(*changes: str) -> list[str]:
    settings = SMALL | {"rounds": 2, "embedded.sites": 3}
    given = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    return [part for change in (*given, *changes) for part in ("--set", change)]


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) < 60


def summary_of(folder: Path) -> dict[str, Any]:
    (file,) = folder.rglob("summary.json")
    summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return summary


@pytest.mark.simulator
def test_an_installed_method_runs_by_its_name(installed: Path, tmp_path: Path) -> None:
    """The rule gets the models, the field leaves the sites, the setting counts, the figure is in the summary.

    Under NVFlare a process per site finds the package as well, and gives the same bits.
    """
    out, workspace = tmp_path / "out", tmp_path / "workspace"
    changes = small("method=nearness", "strength=2")
    done = run(installed, "fedannot", "simulate", str(JOBS / "fedavg"), "--out", str(out), *changes)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert (summary["method"], summary["refusals"]) == ("nearness", [])
    assert all(report["update_norm"] > 0 for report in summary["sites"].values())
    shares = summary["shares"].values()
    assert sum(shares) == pytest.approx(1)
    # Without the rule, or with a strength of 0, all would be a third; the site that is farthest has exp(-2) at least.
    assert max(shares) - min(shares) > 1e-4
    assert max(shares) / min(shares) < math.exp(2)
    arguments = ("-w", str(workspace), "-c", "site-1,site-2,site-3", "-t", "3")
    done = run(installed, "nvflare", "simulator", str(out / "job"), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    under_nvflare = summary_of(workspace)
    assert under_nvflare["shares"] == summary["shares"]
    assert under_nvflare["last_rounds"] == summary["last_rounds"]


def test_without_the_package_the_name_is_unknown(tmp_path: Path) -> None:
    arguments = ["simulate", str(JOBS / "fedavg"), "--out", str(tmp_path / "out"), "--set", "method=nearness"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code != 0
    known = "adele, audit, auto, decoupled, ditto, elr, feda3i"
    assert f"key 'method' is 'nearness'; allowed for segmentation: {known}" in " ".join(done.output.split())
