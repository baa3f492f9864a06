"""A provisioned federation over TLS on this machine: a server and three hospitals, as `deploy prepare` leaves them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from conftest import JOBS, SMALL
from plain_records import simulate
from real_processes import Federation, commands_environment, free_ports, nothing_left, wait_for

from fedannot.apps.deployment.deployable_job import deployable_job
from fedannot.apps.deployment.kit import prepare_kit
from fedannot.custom.aggregation.influence import deployed_influence
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.run.state import STATE_FILE, RunState
from fedannot.custom.run.threads import THREADS_VARIABLE

CONFIGS = JOBS.parent / "site_configs"
# Named as the phantom's sites are: everything random derives from the name.
SITES = ("site-1", "site-2", "site-3")
# In the project, but not started unless a test does.
NEWCOMER = "site-4"
ROUNDS = 6
SETTINGS = {key: value for key, value in SMALL.items() if not key.startswith("embedded")} | {
    "rounds": ROUNDS,
    "warmup_rounds": 2,
    "min_predicted_fraction": 0.0,
    "group_test_level": 1.0,
}
# What deployed jobs bound, where the method lets them; a simulated run has the same bits with the same bounds.
BOUNDS = {f"influence.{key}": value for key, value in deployed_influence(len(SITES)).items()}
END_TIMEOUT = 240
# Of three sites one may be missing, where the kits let it: by default they want three in every round.
MAJORITY = 2
# For tests in which sites fail and a single one is left: a federation of hospitals has no such limits.
LOWER_LIMITS: dict[str, Any] = {"smallest": {"min_sites": 1}, "largest_share": 1.0}


@dataclass(frozen=True)
class Hospitals(Federation):
    """A started federation, with the data of its sites."""

    ports: list[int] = field(kw_only=True)
    data: Path = field(kw_only=True)
    jobs: Path = field(kw_only=True)
    limits: dict[str, Any] | None = field(kw_only=True, default=None)

    def start(self, participant: str) -> None:
        """Start the server or a site."""
        folder = self.kits / participant
        for left in ("pid.fl", "daemon_pid.fl", "shutdown.fl", "restart.fl"):
            (folder / left).unlink(missing_ok=True)
        with (folder / "console.log").open("a", encoding="utf-8") as console:
            subprocess.Popen(
                ["bash", "startup/start.sh"],
                cwd=folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def members(self) -> set[str]:
        """The sites that the server knows."""
        status = self.nvflare("system", "status", "--startup-kit", str(self.kits / "admin@coordinator.org"))
        return {client["client_name"] for client in (status.get("data") or {}).get("clients", [])}

    def wait_for_sites(self, *sites: str) -> None:
        """Wait until these sites are known to the server."""
        wait_for(lambda: set(sites) <= self.members(), f"{sites} to join")

    def job(self, name: str = "fedaaai", **settings: Any) -> Path:
        """Make a deployable job."""
        out = self.jobs / f"job-{len(list(self.jobs.glob('job-*')))}"
        changes = {key: value for key, value in SETTINGS.items() if name == "fedaaai" or "." in key or key == "rounds"}
        if self.limits is not None:
            changes["min_sites"] = MAJORITY
        like = self.kits / "site-1" / "local" / "data.yaml"
        deployable_job(JOBS / name, out, sites=SITES, description=like, overrides=changes | settings)
        return out

    @contextmanager
    def with_limits(self, limits: dict[str, Any], *participants: str) -> Iterator[None]:
        """Let participants have other limits; they are read whenever a job is looked at."""
        files = [self.kits / participant / "local" / "limits.json" for participant in participants]
        before = [file.read_text(encoding="utf-8") for file in files]
        try:
            for file in files:
                file.write_text(json.dumps(limits), encoding="utf-8")
            yield
        finally:
            for file, text in zip(files, before, strict=True):
                file.write_text(text, encoding="utf-8")

    def result(self, job_id: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Download a finished job's summary and model."""
        workspace = self.download(job_id, self.jobs / "results")
        summary = json.loads((workspace / "summary.json").read_text(encoding="utf-8"))
        model = torch.load(workspace / "app_server" / "FL_global_model.pt", weights_only=True)["model"]
        return summary, model

    def rounds_done(self, job_id: str) -> int:
        """The last finished round of a running job."""
        file = self.kits / "localhost" / job_id / STATE_FILE
        return RunState.load(file).round_number if file.is_file() else 0


@dataclass(frozen=True)
class Relay:
    """A relay on this machine.

    Attributes:
        name: of the relay.
        port: at which sites and other relays reach it.
        connects_to: another relay; None for the server.
        sites: those that reach the server through it.
    """

    name: str
    port: int
    connects_to: str | None = None
    sites: tuple[str, ...] = ()

    def participant(self) -> dict[str, Any]:
        """Return its entry of a project file."""
        listening = {"default_host": "localhost", "port": self.port, "scheme": "grpc", "connection_security": "mtls"}
        entry = {"name": self.name, "type": "relay", "org": "region", "listening_host": listening}
        return entry if self.connects_to is None else entry | {"connect_to": {"name": self.connects_to}}


def simulated_model(hospitals: Hospitals, out: Path) -> dict[str, torch.Tensor]:
    """Return the model of FedA³I on the same data in one process; a test set at the server changes no weight."""
    simulate(JOBS / "fedaaai", out, data=hospitals.data, overrides=SETTINGS | BOUNDS)
    model: dict[str, torch.Tensor] = torch.load(out / "model.pt", weights_only=True)["model"]
    return model


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def provision(folder: Path, environment: dict[str, str], ports: list[int], relays: Sequence[Relay] = ()) -> Path:
    """Make the kits of a federation and return their folder."""
    text = (CONFIGS / "project.yml").read_text(encoding="utf-8").replace("hospital-", "site-")
    project = yaml.safe_load(text)
    server = next(participant for participant in project["participants"] if participant["type"] == "server")
    server["fed_learn_port"], server["admin_port"] = ports
    # As a careless operator might: of the server's organisation. The researcher may not operate it all the same.
    lead = next(participant for participant in project["participants"] if participant.get("role") == "lead")
    lead["org"] = server["org"]
    project["participants"].append({"name": NEWCOMER, "type": "client", "org": "hospital_4"})
    for relay in relays:
        project["participants"].append(relay.participant())
        for participant in project["participants"]:
            if participant["name"] in relay.sites:
                participant["connect_to"] = {"name": relay.name}
    folder.mkdir(exist_ok=True)
    (folder / "project.yml").write_text(yaml.safe_dump(project))
    nvflare = [str(Path(sys.executable).parent / "nvflare"), "provision", "-p", "project.yml", "-w", "made"]
    subprocess.run(nvflare, cwd=folder, env=environment, check=True, capture_output=True, timeout=60)
    return folder / "made" / "fedannot" / "prod_00"


@contextmanager
def started_hospitals(
    tmp_path_factory: pytest.TempPathFactory,
    capture: Path | None = None,
    limits: dict[str, Any] | None = None,
    relays: Sequence[Relay] = (),
) -> Iterator[Hospitals]:
    """Provision, prepare and start a server and three hospitals, and stop them at the end.

    Args:
        tmp_path_factory: where their files go.
        capture: folder for what the sites send; see capture/sitecustomize.py.
        limits: of server and sites, in place of those that `deploy prepare` writes.
        relays: between sites and server, each after the one that it connects to.
    """
    folder = tmp_path_factory.mktemp("hospitals")
    environment = commands_environment(tmp_path_factory.mktemp("home"))
    # As in the simulator, whose bits they are compared with.
    environment[THREADS_VARIABLE] = "1"
    # Where the sites find the broken executors.
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    if capture is not None:
        paths.append(str(Path(__file__).parent / "capture"))
        environment["FEDANNOT_CAPTURE"] = str(capture)
    environment["PYTHONPATH"] = ":".join(path for path in paths if path)
    ports = free_ports(2)
    kits = provision(folder, environment, ports, relays)
    data = folder / "data"
    write_phantom_federation(
        data, LesionImages(noise="M(25,-25,10,0.34)", exact=True), num_sites=3, seed=0, images_per_site=8
    )
    prepare_kit(kits / "localhost", CONFIGS, jobs=JOBS)
    for site in SITES:
        description = yaml.safe_load((data / site / "data.yaml").read_text(encoding="utf-8"))
        description["datalist"] = str(data / site / "datalist.json")
        (folder / f"{site}.yaml").write_text(yaml.safe_dump(description))
        prepare_kit(kits / site, CONFIGS, folder / f"{site}.yaml", JOBS)
    for relay in relays:
        prepare_kit(kits / relay.name)
    prepare_kit(kits / NEWCOMER, CONFIGS, folder / "site-1.yaml", JOBS)
    if limits is not None:
        for participant in ("localhost", *SITES, NEWCOMER):
            (kits / participant / "local" / "limits.json").write_text(json.dumps(limits), encoding="utf-8")
    who = ("--startup-kit", str(kits / "lead@research.org"))
    jobs = tmp_path_factory.mktemp("jobs")
    made = Hospitals(kits, environment, who, data=data, jobs=jobs, ports=ports, limits=limits)
    with nothing_left(folder):
        for participant in ("localhost", *(relay.name for relay in relays), *SITES):
            made.start(participant)
        made.wait_for_sites(*SITES)
        yield made
        made.nvflare("system", "shutdown", "all", "--force", "--startup-kit", str(kits / "admin@coordinator.org"))
