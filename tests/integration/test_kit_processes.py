"""Real servers and sites over TLS on kits that lack a policy: the process ends and says why. Whole kits join.

Deselected unless asked for: `make test-processes`.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import JOBS
from hospitals import CONFIGS, END_TIMEOUT, SITES, Hospitals, provision, started_hospitals
from nvflare.tool.deploy.deploy_commands import prepare_deployment
from real_processes import commands_environment, free_ports, nothing_left

from fedannot.apps.deployment.kit import prepare_kit

pytestmark = pytest.mark.processes

START_TIMEOUT = 60
SITE, SERVER = SITES[0], "localhost"


def changed(file: Path, change: Callable[[Any], Any]) -> None:
    values = json.loads(file.read_text(encoding="utf-8"))
    change(values)
    file.write_text(json.dumps(values), encoding="utf-8")


def without_gates(kit: Path) -> None:
    changed(
        kit / "local" / "resources.json",
        lambda r: r.update(components=[entry for entry in r["components"] if "gate" not in entry["id"]]),
    )


def with_all_classes(kit: Path) -> None:
    changed(kit / "local" / "resources.json", lambda r: r["class_allow_list"].append("*"))


def with_streaming(kit: Path) -> None:
    changed(kit / "local" / "resources.json", lambda r: r.update(allow_log_streaming=True))


def without_the_check(kit: Path) -> None:
    (kit / "local" / "fedannot__resources.json").unlink()


def as_nvflare_had_it(kit: Path) -> None:
    """As NVFlare's own `deploy prepare` leaves a kit of which only this file is ours."""
    changed(kit / "local" / "resources.json.default", lambda r: r.update(components=[]))
    (kit / "local" / "resources.json").unlink()


WEAKENED = {
    "approved jobs": without_gates,
    "allow-list": with_all_classes,
    "logs": with_streaming,
    "check at start": without_the_check,
    "approved jobs: any job runs": as_nvflare_had_it,
}


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """Prepared kits that nothing was started with, and the environment of commands."""
    folder = tmp_path_factory.mktemp("kits")
    environment = commands_environment(tmp_path_factory.mktemp("home"))
    made = provision(folder, environment, free_ports(2))
    for name in (SERVER, SITE):
        prepare_kit(made / name, CONFIGS, jobs=JOBS)
    with nothing_left(folder):
        yield made, environment


def copied(kit: Path, folder: Path) -> Path:
    subprocess.run(["cp", "-a", str(kit), str(folder)], check=True)
    return folder / kit.name


def started_once(kit: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The process that the kit's own script starts; it must end by itself."""
    command = ["bash", "startup/sub_start.sh", "--once"]
    return subprocess.run(
        command,
        cwd=kit,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=START_TIMEOUT,
        check=False,
    )


@pytest.mark.parametrize("name", [SITE, SERVER])
@pytest.mark.parametrize("said", WEAKENED)
def test_a_process_of_a_weakened_kit_ends_and_says_why(
    kits: tuple[Path, dict[str, str]], tmp_path: Path, name: str, said: str
) -> None:
    folder, environment = kits
    with nothing_left(tmp_path):
        kit = copied(folder / name, tmp_path)
        WEAKENED[said](kit)
        ended = started_once(kit, environment)
    assert ended.returncode != 0
    assert f"{kit} does not start, since its policies are not in force:" in ended.stdout
    assert f"\n  {said}" in ended.stdout
    assert f"fedannot deploy prepare {kit}" in ended.stdout
    assert "Traceback" not in ended.stdout


def test_a_copy_for_slurm_of_an_unprepared_kit_ends_too(
    kits: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVFlare's own script of that copy."""
    folder, environment = kits
    (tmp_path / "slurm.yaml").write_text(
        "runtime: slurm\njob_launcher: {sandbox: none, python_path: /usr/bin/python3}\n"
    )
    arguments = {
        "kit": str(folder / SITES[1]),
        "output": str(tmp_path / "copy"),
        "config": str(tmp_path / "slurm.yaml"),
    }
    prepare_deployment(type("Arguments", (), arguments))
    with nothing_left(tmp_path):
        ended = subprocess.run(
            ["bash", "startup/start_slurm.sh"],
            cwd=tmp_path / "copy",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT,
            check=False,
        )
    assert ended.returncode != 0
    assert "does not start" in ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    with started_hospitals(tmp_path_factory) as started:
        yield started


def test_whole_kits_join_and_a_job_process_is_held_to_the_same(hospitals: Hospitals) -> None:
    """A site that is weakened while it is connected runs no further job; the others do."""
    file = hospitals.kits / SITE / "local" / "resources.json"
    before = file.read_text(encoding="utf-8")
    with_streaming(hospitals.kits / SITE)
    try:
        refused = hospitals.submit(hospitals.job("fedavg", rounds=1))
        status = hospitals.wait(refused, END_TIMEOUT)
    finally:
        file.write_text(before, encoding="utf-8")
    assert status != "FINISHED:COMPLETED"
    assert hospitals.log(SITE, refused) == "", "it has not come so far"
    console = (hospitals.kits / SITE / "console.log").read_text(encoding="utf-8")
    assert "does not start, since its policies are not in force:\n  logs: are sent" in console
    assert hospitals.wait(hospitals.submit(hospitals.job("fedavg", rounds=1)), END_TIMEOUT) == "FINISHED:COMPLETED"
