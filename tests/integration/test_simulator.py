"""NVFlare's simulator and the in-process run of the same job folder."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from plain_records import collect_output, simulate

from fedannot.apps.reports.output import find_run_folder

SIMULATOR_LOG = Path(__file__).parents[2] / "site_configs" / "simulator_log.json"

SIMULATOR_TIMEOUT_SECONDS = 300


def run_simulator(job: Path, workspace: Path, data: Path | None, threads: int) -> Path:
    """Run `nvflare simulator` and return the server's run folder."""
    start_simulator(job, workspace, threads, data)
    return find_run_folder(workspace)


def start_simulator(
    job: Path, workspace: Path, threads: int, data: Path | None = None, options: Sequence[str] = ()
) -> None:
    """Run `nvflare simulator` to its end; what it prints lies beside the workspace."""
    environment = os.environ | ({} if data is None else {"FEDANNOT_DATA": str(data)})
    command = [
        str(Path(sys.executable).parent / "nvflare"),
        "simulator",
        str(job),
        "-w",
        str(workspace),
        "-t",
        str(threads),
        *options,
    ]
    with (workspace.parent / "simulator.log").open("w") as log:
        finished = subprocess.run(
            command,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=SIMULATOR_TIMEOUT_SECONDS,
            check=False,
        )
    text = (workspace.parent / "simulator.log").read_text(encoding="utf-8")
    assert finished.returncode == 0, text[-4000:]


@pytest.mark.simulator
def test_simulator_and_in_process_give_the_same_bits(small_job: Callable[..., Path], tmp_path: Path) -> None:
    """Two sites, two rounds, each site making its own embedded data under NVFlare."""
    job = small_job("fedaaai", rounds=2, embedded__sites=2)
    meta = job / "meta.json"
    meta.write_text('{"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", "site-1", "site-2"]}}')
    in_process = simulate(job, tmp_path / "in-process")
    run_folder = run_simulator(job, tmp_path / "workspace", data=None, threads=2)
    simulated = collect_output(run_folder, tmp_path / "simulated")
    for key in ("estimate", "last_rounds", "refusals"):
        assert simulated[key] == in_process[key], key
    for site, report in in_process["sites"].items():
        # In one process the phantom is written for all sites together and handed to them as data of their own.
        assert simulated["sites"][site] == report | {"embedded_data": True}
    assert not simulated["refusals"]
    models = [
        torch.load(tmp_path / out / "model.pt", weights_only=True)["model"] for out in ("in-process", "simulated")
    ]
    assert models[0].keys() == models[1].keys()
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert list(run_folder.glob("tb_events/*/events.out.tfevents*")), "TensorBoard scalars are written"


@pytest.mark.simulator
@pytest.mark.parametrize("has_log_config", [True, False])
def test_the_console_has_rounds_and_warnings_and_the_log_files_have_all(
    small_job: Callable[..., Path], tmp_path: Path, has_log_config: bool
) -> None:
    """NVFlare's own lines are hundreds; with our log's configuration the wrong warning of an include is gone, too."""
    job = small_job("fedavg", rounds=2, embedded__sites=2)
    meta = job / "meta.json"
    meta.write_text('{"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", "site-1", "site-2"]}}')
    options = ["-l", str(SIMULATOR_LOG)] if has_log_config else []
    start_simulator(job, tmp_path / "workspace", threads=2, options=options)
    lines = (tmp_path / "simulator.log").read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if "Round " in line]
    assert [found.group() for line in shown if (found := re.search(r"Round \d/2", line))] == ["Round 1/2"] * 2 + [
        "Round 2/2"
    ]
    assert "2 sites train" in shown[0]
    others = [line for line in lines if line not in shown]
    if has_log_config:
        assert len(others) == 1, others
        assert "is deprecated" in others[0]
    else:
        assert len(others) < 10, others
    log = (tmp_path / "workspace" / "server" / "log.txt").read_text(encoding="utf-8")
    assert len(log.splitlines()) > 100
    assert "End persist model on server" in log
