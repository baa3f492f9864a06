"""A federation of real processes on this machine: commands with bounds, logs, and how to kill a process."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from conftest import JOBS

from fedannot.apps.runs.job import Job
from fedannot.custom.data.participant_folder import PRIVATE_FOLDER

COMMAND_TIMEOUT = 150


@dataclass(frozen=True)
class Federation:
    """Every command ends within a bound.

    Attributes:
        kits: the folder with the startup kits, one for each participant.
        environment: of the commands.
        who: arguments that say as whom commands are given.
    """

    kits: Path
    environment: dict[str, str]
    who: tuple[str, ...] = ()

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

    def submit(self, job: Path) -> str:
        """Submit a job's folder and return the job's id."""
        answer = self.nvflare("job", "submit", "-j", str(job), *self.who)
        assert answer["status"] == "ok", answer
        return str(answer["data"]["job_id"])

    def wait(self, job_id: str, timeout: int) -> str:
        """Return the job's last status."""
        answer = self.nvflare("job", "wait", job_id, "--timeout", str(timeout), *self.who, timeout=timeout + 60)
        return str(answer["data"]["status"])

    def download(self, job_id: str, out: Path) -> Path:
        """Download a finished job's results and return the server's workspace."""
        self.nvflare("job", "download", job_id, "-o", str(out), *self.who)
        return out / job_id / "workspace"

    def log(self, site: str, job_id: str) -> str:
        """What a participant has logged of a job, in NVFlare's log and in its own."""
        files = [self.kits / site / job_id / "log.txt", *self.private(site, job_id).glob("fedannot_*.log")]
        return "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())

    def private(self, participant: str, job_id: str) -> Path:
        """A participant's own folder of a job."""
        return self.kits / participant / PRIVATE_FOLDER / job_id

    def processes(self, participant: str) -> list[tuple[psutil.Process, str]]:
        """The processes that were started with a participant's kit, with their command lines."""
        result = [(process, " ".join(process.info["cmdline"] or [])) for process in psutil.process_iter(["cmdline"])]
        return [(process, words) for process, words in result if f"{self.kits / participant}" in words]

    def task_process(self, site: str, job_id: str) -> psutil.Process:
        """The process in which a site does the tasks of a job."""
        parents = [process for process, words in self.processes(site) if job_id in words]
        (child,) = [
            child for parent in parents for child in parent.children() if "spawn_main" in " ".join(child.cmdline())
        ]
        return child

    def kill(self, participant: str, job_id: str | None = None) -> None:
        """Kill a participant's process of a job, or all of it: first the shell that would start it again."""
        chosen = [
            (process, words) for process, words in self.processes(participant) if job_id is None or job_id in words
        ]
        assert chosen
        for process, _ in sorted(chosen, key=lambda entry: "sub_start.sh" not in entry[1]):
            process.kill()
        psutil.wait_procs([process for process, _ in chosen], timeout=30)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """Kill at the end whatever still runs with files of a folder."""
    try:
        yield
    finally:
        for process in psutil.process_iter(["cmdline"]):
            if str(folder) in " ".join(process.info["cmdline"] or []):
                process.kill()


def commands_environment(home: Path) -> dict[str, str]:
    """The environment of NVFlare's commands and scripts: this Python's, with a home of its own.

    Prepared images lie where they do in a hospital: in each kit, else below the home.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in ("FEDANNOT_CACHE", "XDG_CACHE_HOME")}
    return inherited | {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def wait_for(condition: Callable[[], bool], what: str, timeout: float = 120, every: float = 0.2) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited {timeout} s for {what}"
        time.sleep(every)


@dataclass(frozen=True)
class Poc(Federation):
    """NVFlare's proof of concept: no TLS, and kits that allow everything.

    Attributes:
        sites: names of the sites.
        jobs: folder for copies of jobs.
    """

    sites: tuple[str, ...] = field(kw_only=True)
    jobs: Path = field(kw_only=True)

    def submit_with(self, name: str, settings: dict[str, Any]) -> str:
        """Submit a job of the project with other settings and return its id."""
        number = len(list(self.jobs.glob("job-*")))
        job = Job.open(JOBS / name).copy_with(settings, self.jobs / f"job-{number}").folder
        meta = {"name": name, "min_clients": 1, "deploy_map": {"app": ["server", *self.sites]}}
        (job / "meta.json").write_text(json.dumps(meta))
        return self.submit(job)

    def start(self) -> None:
        answer = self.nvflare("poc", "start", "--timeout", "120")
        assert answer["status"] == "ok", answer


@contextmanager
def started_poc(sites: tuple[str, ...], folders: pytest.TempPathFactory) -> Iterator[Poc]:
    """Prepare and start a proof of concept on free ports, and stop it at the end."""
    folder = folders.mktemp("poc")
    environment = commands_environment(folders.mktemp("home")) | {"NVFLARE_POC_WORKSPACE": str(folder)}
    kits = folder / "example_project" / "prod_00"
    made = Poc(kits, environment, sites=sites, jobs=folders.mktemp("jobs"))
    made.nvflare("poc", "prepare", "-c", *sites, "--force")
    project = yaml.safe_load((folder / "project.yml").read_text(encoding="utf-8"))
    server = next(participant for participant in project["participants"] if participant["type"] == "server")
    server["fed_learn_port"], server["admin_port"] = free_ports(2)
    own = folders.mktemp("project") / "project.yml"
    own.write_text(yaml.safe_dump(project))
    made.nvflare("poc", "prepare", "-i", str(own), "--force")
    with nothing_left(folder):
        try:
            made.start()
            yield made
        finally:
            made.nvflare("poc", "stop")
