"""NVFlare's simulator and the in-process run of the same job folder."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from nvflare.recipe import SimEnv
from plain_records import collect_output, simulate

import fedannot
from fedannot.apps.reports.output import find_run_folder
from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.choice import write_embedded_federation
from fedannot.custom.run.reading import METRICS_FILE, read_metrics_file

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


def job_for(job: Path, *sites: str) -> Path:
    """Name the sites in a job, as a deployment map of NVFlare's does."""
    deployed = {"name": "small", "min_clients": 1, "deploy_map": {"app": ["server", *sites]}}
    (job / "meta.json").write_text(json.dumps(deployed))
    return job


@dataclass(frozen=True)
class Simulated:
    """A job that ran under NVFlare's simulator, without a configuration of its log."""

    job: Path
    workspace: Path
    run_folder: Path


@pytest.fixture(scope="module")
def simulated(small_job_in: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Two sites, two rounds, each site making its own embedded data."""
    folder = tmp_path_factory.mktemp("simulator")
    job = job_for(small_job_in(folder, "fedaaai", rounds=2, embedded__sites=2), "site-1", "site-2")
    run_folder = run_simulator(job, folder / "workspace", data=None, threads=2)
    return Simulated(job, folder / "workspace", run_folder)


@pytest.mark.simulator
def test_simulator_and_in_process_give_the_same_bits(simulated: Simulated, tmp_path: Path) -> None:
    in_process = simulate(simulated.job, tmp_path / "in-process")
    collected = collect_output(simulated.run_folder, tmp_path / "simulated")
    for key in ("estimate", "last_rounds", "refusals"):
        assert collected[key] == in_process[key], key
    for site, report in in_process["sites"].items():
        # In one process the phantom is written for all sites together and handed to them as data of their own.
        assert collected["sites"][site] == report | {"embedded_data": True}
    assert not collected["refusals"]
    models = [
        torch.load(tmp_path / out / "model.pt", weights_only=True)["model"] for out in ("in-process", "simulated")
    ]
    assert models[0].keys() == models[1].keys()
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert list(simulated.run_folder.glob("tb_events/*/events.out.tfevents*")), "TensorBoard scalars are written"


def other_lines(workspace: Path) -> list[str]:
    """What the console has beside the rounds; of these it has the first one's beginning and each one's end."""
    lines = (workspace.parent / "simulator.log").read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if "Round " in line]
    assert [result.group() for line in shown if (result := re.search(r"Round \d/2", line))] == ["Round 1/2"] * 2 + [
        "Round 2/2"
    ]
    assert "2 sites train" in shown[0]
    return [line for line in lines if line not in shown]


def assert_log_has_all(workspace: Path) -> None:
    log = (workspace / "server" / "log.txt").read_text(encoding="utf-8")
    assert len(log.splitlines()) > 100
    assert "End persist model on server" in log


@pytest.mark.simulator
def test_the_console_has_rounds_and_warnings_and_the_log_files_have_all(simulated: Simulated) -> None:
    """NVFlare's own lines are hundreds."""
    others = other_lines(simulated.workspace)
    assert len(others) < 10, others
    assert_log_has_all(simulated.workspace)


@pytest.fixture(scope="module")
def quantised(small_job_in: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """As above, with our configuration of the log; the second round's messages have residuals of the first one's."""
    folder = tmp_path_factory.mktemp("quantised")
    settings = {"embedded__sites": 2, "update_precision": "int8", "model_precision": "bf16"}
    job = job_for(small_job_in(folder, "fedavg", rounds=2, **settings), "site-1", "site-2")
    start_simulator(job, folder / "workspace", threads=2, options=["-l", str(SIMULATOR_LOG)])
    return Simulated(job, folder / "workspace", find_run_folder(folder / "workspace"))


@pytest.mark.simulator
def test_messages_in_fewer_bits_give_the_same_model_in_process(quantised: Simulated, tmp_path: Path) -> None:
    collected = collect_output(quantised.run_folder, tmp_path / "simulated")
    in_process = simulate(quantised.job, tmp_path / "in-process")
    assert not collected["refusals"]
    assert collected["last_rounds"] == in_process["last_rounds"]
    models = [
        torch.load(tmp_path / out / "model.pt", weights_only=True)["model"] for out in ("in-process", "simulated")
    ]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


@pytest.mark.simulator
def test_with_our_logs_configuration_the_wrong_warning_of_an_include_is_gone_too(quantised: Simulated) -> None:
    others = other_lines(quantised.workspace)
    # NVFlare says that it starts, and nothing else.
    said = ("is deprecated", "Deploy and start the Server App", "Start the clients run simulation")
    assert len(others) == len(said), others
    assert all(text in line for text, line in zip(said, others, strict=True)), others
    assert_log_has_all(quantised.workspace)


@pytest.mark.simulator
def test_a_recipe_in_nvflare_s_environment_gives_the_same_bits_at_sites_of_any_names(
    small_job: Callable[..., Path], tmp_path: Path
) -> None:
    """Sites of other names make the embedded federation's cases, in the order of their names.

    One of them is drawn in each round, with a control variate, and a server's optimizer follows.
    """
    sites = {"site-1": "hospital-a", "site-2": "hospital-b"}
    scaffold = {"drift_correction": "scaffold", "training__optimizer": "sgd", "training__momentum": 0.0}
    sampled = {"fraction": 0.5, "server_optimizer__name": "fedyogi"}
    job = small_job("fedavg", rounds=3, embedded__sites=2, **scaffold, **sampled)
    environment = SimEnv(clients=list(sites.values()), workspace_root=str(tmp_path / "workspaces"))
    fedannot.recipe(job).execute(environment)
    run_folder = find_run_folder(tmp_path / "workspaces")
    write_embedded_federation(tmp_path / "data", Job.open(job).settings().embedded)
    names = tmp_path / "data" / "federation.yaml"
    for name, other in sites.items():
        (tmp_path / "data" / name).rename(tmp_path / "data" / other)
        names.write_text(names.read_text(encoding="utf-8").replace(name, other), encoding="utf-8")
    in_process = simulate(job, tmp_path / "in-process", data=tmp_path / "data")
    collected = collect_output(run_folder, tmp_path / "simulated")
    assert set(collected["sites"]) == set(in_process["sites"]) == set(sites.values())
    assert [record.named("asked") for record in read_metrics_file(run_folder / METRICS_FILE)] == [
        ["hospital-b"],
        ["hospital-a"],
        ["hospital-b"],
    ]
    assert collected["last_rounds"] == in_process["last_rounds"]
    models = [
        torch.load(tmp_path / out / "model.pt", weights_only=True)["model"] for out in ("in-process", "simulated")
    ]
    assert models[0].keys() == models[1].keys()
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
