"""Real processes under NVFlare's proof of concept: a server and three sites on this machine, and some of them killed.

Deselected unless asked for, since it takes some minutes: `make test-poc`.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml
from conftest import JOBS

from fedannot.apps.job import Job
from fedannot.custom.run_state import STATE_FILE, RunState

pytestmark = pytest.mark.poc

SITES = ("site-1", "site-2", "site-3")
SMALL = {
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.latent": 3,
    "network.encoder_features": [4, 8],
    "training.batch_size": 8,
    "training.local_epochs": 1,
    "warmup_rounds": 1,
    "embedded.sites": 3,
    "embedded.protocols": "0-C-D",
    "embedded.images_per_site": 4,
    "embedded.test_images": 1,
}
COMMAND_TIMEOUT = 150
# From a death to the end of the job: NVFlare notices a site that is gone by its heartbeat.
END_TIMEOUT = 240


@dataclass(frozen=True)
class Federation:
    """A started federation; every command ends within a bound."""

    folder: Path
    environment: dict[str, str]

    def nvflare(self, *arguments: str, timeout: float = COMMAND_TIMEOUT) -> dict[str, Any]:
        """Run a command of NVFlare and return its answer."""
        finished = subprocess.run(
            [str(Path(sys.executable).parent / "nvflare"), *arguments, "--format", "json"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        answers = [line for line in finished.stdout.splitlines() if line.startswith("{")]
        assert answers, finished.stdout + finished.stderr
        answer: dict[str, Any] = json.loads(answers[-1])
        return answer

    @property
    def kits(self) -> Path:
        return self.folder / "example_project" / "prod_00"

    def submit(self, name: str, rounds: int, **settings: Any) -> str:
        """Submit a small job and return its id."""
        number = len(list(self.folder.glob("job-*")))
        job = (
            Job.open(JOBS / name).copy_with(SMALL | {"rounds": rounds} | settings, self.folder / f"job-{number}").folder
        )
        meta = {"name": name, "min_clients": 1, "deploy_map": {"app": ["server", *SITES]}}
        (job / "meta.json").write_text(json.dumps(meta))
        return str(self.nvflare("job", "submit", "-j", str(job))["data"]["job_id"])

    def wait(self, job_id: str, timeout: int) -> str:
        """Return the job's last status."""
        answer = self.nvflare("job", "wait", job_id, "--timeout", str(timeout), timeout=timeout + 60)
        return str(answer["data"]["status"])

    def log(self, site: str, job_id: str) -> str:
        """What a site has logged of a job."""
        file = self.kits / site / job_id / "log.txt"
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    def kill(self, participant: str, job_id: str | None = None) -> None:
        """Kill a participant's process of a job, or all of it: first the shell that would start it again."""
        found = [
            (process, " ".join(process.info["cmdline"] or []))
            for process in psutil.process_iter(["cmdline"])
            if f"{self.kits / participant}" in " ".join(process.info["cmdline"] or [])
        ]
        chosen = [(process, words) for process, words in found if job_id is None or job_id in words]
        assert chosen
        for process, _ in sorted(chosen, key=lambda entry: "sub_start.sh" not in entry[1]):
            process.kill()
        psutil.wait_procs([process for process, _ in chosen], timeout=30)

    def start(self) -> None:
        answer = self.nvflare("poc", "start", "--timeout", "120")
        assert answer["status"] == "ok", answer


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    folder, home = tmp_path_factory.mktemp("poc"), tmp_path_factory.mktemp("home")
    environment = os.environ | {"HOME": str(home), "NVFLARE_POC_WORKSPACE": str(folder)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    started = Federation(folder, environment)
    started.nvflare("poc", "prepare", "-c", *SITES, "--force")
    project = yaml.safe_load((folder / "project.yml").read_text(encoding="utf-8"))
    server = next(participant for participant in project["participants"] if participant["type"] == "server")
    server["fed_learn_port"], server["admin_port"] = free_ports(2)
    own = tmp_path_factory.mktemp("project") / "project.yml"
    own.write_text(yaml.safe_dump(project))
    started.nvflare("poc", "prepare", "-i", str(own), "--force")
    try:
        started.start()
        yield started
    finally:
        started.nvflare("poc", "stop")
        for process in psutil.process_iter(["cmdline"]):
            if str(folder) in " ".join(process.info["cmdline"] or []):
                process.kill()


def wait_for(condition: Callable[[], bool], what: str, timeout: float = 120) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited {timeout} s for {what}"
        time.sleep(0.2)


def aggregator_of_latest_round(federation: Federation, job_id: str) -> str | None:
    """The site whose turn it is, by the latest round that was handed on; None before the second."""
    logs = "\n".join(federation.log(site, job_id) for site in SITES)
    rounds = re.findall(r"learn task of round (\d+) to .*; aggregation happens on ([\w-]+)", logs)
    latest = max(rounds, key=lambda entry: int(entry[0]), default=None)
    return None if latest is None or int(latest[0]) < 2 else str(latest[1])


def local_model(federation: Federation, site: str, job_id: str) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(
        federation.kits / site / job_id / "personal" / "local_model.pt", weights_only=True
    )
    return content


def kept_round(federation: Federation, site: str, job_id: str) -> int:
    return int(local_model(federation, site, job_id)["round"])


def test_a_swarm_runs_to_its_end(federation: Federation) -> None:
    job_id = federation.submit("decoupled", rounds=3)
    assert federation.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    assert [kept_round(federation, site, job_id) for site in SITES] == [3, 3, 3]


@pytest.mark.parametrize("victim", ["trainer", "aggregator"])
def test_a_swarm_whose_process_dies_in_a_round_ends_with_an_error(federation: Federation, victim: str) -> None:
    """Within a minute; the others keep the model of the last round that was finished."""
    job_id = federation.submit("decoupled", rounds=200)
    wait_for(lambda: aggregator_of_latest_round(federation, job_id) is not None, "the second round")
    aggregator = aggregator_of_latest_round(federation, job_id)
    trainers = [site for site in SITES if site != aggregator]
    killed = trainers[0] if victim == "trainer" else str(aggregator)
    federation.kill(killed, job_id)
    died = time.monotonic()
    assert federation.wait(job_id, END_TIMEOUT).startswith("FINISHED:EXECUTION_EXCEPTION")
    assert time.monotonic() - died < 60
    for site in SITES:
        if site != killed:
            assert 1 <= kept_round(federation, site, job_id) < 200


def test_a_server_form_whose_trainer_dies_in_a_round_ends_with_an_error(federation: Federation) -> None:
    job_id = federation.submit("decoupled_server", rounds=200)
    wait_for(lambda: "Round 2:" in federation.log("site-2", job_id), "the second round")
    federation.kill("site-2", job_id)
    died = time.monotonic()
    assert federation.wait(job_id, END_TIMEOUT).startswith("FINISHED:EXECUTION_EXCEPTION")
    assert time.monotonic() - died < 60


def test_a_site_that_is_gone_ends_the_swarm_and_can_come_back(federation: Federation) -> None:
    job_id = federation.submit("decoupled", rounds=200)
    wait_for(lambda: aggregator_of_latest_round(federation, job_id) is not None, "the second round")
    federation.kill("site-3")
    assert federation.wait(job_id, END_TIMEOUT).startswith("FINISHED:EXECUTION_EXCEPTION")
    assert 1 <= kept_round(federation, "site-1", job_id) < 200
    federation.nvflare("poc", "start", "-p", "site-3", "--timeout", "120")
    again = federation.submit("decoupled", rounds=2)
    assert federation.wait(again, END_TIMEOUT) == "FINISHED:COMPLETED"
    assert [kept_round(federation, site, again) for site in SITES] == [2, 2, 2]


def test_after_all_processes_were_killed_a_swarm_goes_on_to_the_same_end(federation: Federation) -> None:
    whole = federation.submit("decoupled", rounds=15)
    assert federation.wait(whole, END_TIMEOUT) == "FINISHED:COMPLETED"
    job_id = federation.submit("decoupled", rounds=15)
    state = federation.kits / "site-1" / job_id / STATE_FILE
    wait_for(lambda: state.is_file() and RunState.load(state).round_number >= 3, "the state after the third round")
    for participant in (*SITES, "server"):
        federation.kill(participant)
    assert RunState.load(state).round_number < 14, "else there was little left to do"
    federation.start()
    again = federation.submit("decoupled", rounds=15, resume_from=str(state))
    assert federation.wait(again, END_TIMEOUT) == "FINISHED:COMPLETED"
    for site in SITES:
        one, other = (local_model(federation, site, each) for each in (whole, again))
        assert one["round"] == other["round"] == 15
        for part in ("shared", "personal"):
            assert all(torch.equal(one[part][name], value) for name, value in other[part].items())
