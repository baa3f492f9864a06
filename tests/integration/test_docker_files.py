"""The image and the trial federation, as far as they can be checked without Docker: files, paths and commands."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from fedannot.apps.deployment.kit import Kit

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
TIMEOUT = 300
KITS = "provisioned/fedannot/prod_00"


def dockerfile() -> list[str]:
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_is_built_from_all_that_the_wheel_is_made_of() -> None:
    copied = [words[1:-1] for line in dockerfile() if (words := line.split())[0] == "COPY" and words[1][0] != "-"]
    sources = {source for words in copied for source in words}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    links = [path.resolve().name for path in (ROOT / "src" / "fedannot").iterdir() if path.is_symlink()]
    assert len(links) >= 5
    assert {*settings["tool"]["setuptools"]["packages"]["find"]["where"], *links} <= sources
    assert {"pyproject.toml", settings["project"]["readme"], *settings["project"]["license-files"]} <= sources
    assert all((ROOT / source).exists() for source in sources)
    # What is not let in cannot be copied.
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    assert sources <= {line.removeprefix("!") for line in ignored if line.startswith("!")}


def test_the_image_runs_as_another_user_than_root() -> None:
    last_stage = dockerfile()[max(n for n, line in enumerate(dockerfile()) if line.startswith("FROM")) :]
    (user,) = [line.split()[1] for line in last_stage if line.startswith("USER")]
    assert any(line.startswith("RUN useradd") and line.split("&&")[0].split()[-1] == user for line in last_stage)
    assert last_stage[-1].startswith("CMD")
    assert [line for line in dockerfile() if line.startswith("FROM")] == ["FROM ${BASE} AS wheel", "FROM ${BASE}"]
    wanted = re.fullmatch(r"ARG BASE=python:(\d+\.\d+)-slim", dockerfile()[0])
    assert wanted is not None
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["requires-python"] == f">={wanted[1]}"


def test_the_trial_starts_what_the_script_makes() -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    assert (DOCKER / services["trial"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / services["trial"]["build"]["dockerfile"]).is_file()
    server = services["trial"]["command"][-1]
    (listed,) = re.findall(r"^sites=(.*)$", (DOCKER / "trial.sh").read_text(encoding="utf-8"), re.M)
    sites = set(listed.split(","))
    assert f"< {len(sites)})" in (DOCKER / "research.sh").read_text(encoding="utf-8")
    assert set(services) == {"trial", "researcher", server, *sites}
    for name in (server, *sites):
        command = services[name]["command"]
        assert command == ["bash", f"/federation/{KITS}/{name}/startup/sub_start.sh", "--once"]
        assert services[name]["depends_on"] == {"trial": {"condition": "service_completed_successfully"}}
    for name in ("trial", "researcher"):
        mounts = dict(volume.split(":")[:2] for volume in services[name]["volumes"])
        scripts = {inside: DOCKER / outside for outside, inside in mounts.items() if outside.startswith("./")}
        assert scripts[services[name]["command"][1]].is_file()


@pytest.mark.parametrize("script", ["trial.sh", "research.sh", "try_image.sh", "try_slurm.sh"])
def test_a_script_is_one_that_a_shell_can_read(script: str) -> None:
    assert os.access(DOCKER / script, os.X_OK)
    subprocess.run(["bash", "-n", str(DOCKER / script)], check=True, timeout=TIMEOUT)


@pytest.mark.processes
def test_the_script_makes_prepared_kits_and_a_job(tmp_path: Path) -> None:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
    }
    (tmp_path / "home").mkdir()
    folder = tmp_path / "federation"
    command = ["bash", str(DOCKER / "trial.sh"), str(folder), "server"]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, timeout=TIMEOUT)
    kits = {name: Kit.open(folder / KITS / name) for name in ("server", *(f"hospital-{n}" for n in range(1, 7)))}
    assert [kit.role for kit in kits.values()] == ["server"] + ["site"] * 6
    for kit in kits.values():
        assert (kit.local / "approved_jobs.json").is_file()
        assert (kit.startup / "sub_start.sh").is_file()
        assert (kit.local / "data.yaml").is_file() == (kit.role == "site")
    assert (folder / "job" / "meta.json").is_file()
    # Started again it keeps what is there: keys that were handed out stay valid.
    before = (kits["server"].startup / "server.key").read_bytes()
    again = subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, timeout=TIMEOUT)
    assert again.stdout.decode() == f"{folder} is ready.\n"
    assert (kits["server"].startup / "server.key").read_bytes() == before
