"""What an installation of the wheel gives: the wheel alone, in an environment of its own, outside the repository."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What lies at the root, and in src by links.
LINKED = ("transforms", "custom", "apps", "jobs", "site_configs")
TIMEOUT = 300
SMALL = [
    "rounds=2",
    "warmup_rounds=1",
    "network.features=[4,4,8,8,8,4]",
    "training.local_epochs=1",
    "embedded.sites=3",
    "embedded.noise='M(25,-25,10,0.34)'",
    "embedded.stratified=null",
    "embedded.images_per_site=4",
    "embedded.test_images=4",
]


def copied_tree(source: Path) -> None:
    """What a wheel is made of, with its links, where no earlier build can add to it."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("src", *LINKED):
        shutil.copytree(
            ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )


def built(source: Path, kind: str) -> Path:
    program = f"from setuptools import build_meta; print(build_meta.build_{kind}('.'))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=source, capture_output=True, text=True, check=True, timeout=TIMEOUT
    )
    return source / done.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    copied_tree(source)
    return built(source, "wheel")


def test_an_installation_for_developers_is_the_path_of_src(tmp_path: Path) -> None:
    """A new file is seen without a new installation; a hook that imports would be followed by no type checker."""
    copied_tree(tmp_path)
    with zipfile.ZipFile(built(tmp_path, "editable")) as archive:
        (path_file,) = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert path_file.endswith(".pth")
        assert archive.read(path_file).decode().strip() == str(tmp_path / "src")
        assert carries_the_licence(archive, tmp_path / "installed")
    room = tmp_path / "custom" / "room"
    room.mkdir()
    (room / "__init__.py").write_text("ANSWER = 42\n", encoding="utf-8")
    program = "from fedannot.custom.room import ANSWER; print(ANSWER)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT,
    )
    assert done.stdout == "42\n"


def carries_the_licence(archive: zipfile.ZipFile, folder: Path) -> bool:
    """Whether it is where :func:`export_bundle` looks for it, also where nothing but what is installed is."""
    archive.extractall(folder)
    (found,) = distributions(name="fedannot", path=[str(folder)])
    return found.read_text("licenses/LICENSE") == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_wheel_carries_the_licence(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert carries_the_licence(archive, tmp_path)


def test_the_wheel_holds_everything_of_the_tree(wheel: Path) -> None:
    """Modules, pages, tables, jobs, settings and site configurations; no tests."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("fedannot/")}
    files = [file for folder in LINKED for file in (ROOT / folder).rglob("*")]
    wanted = {
        f"fedannot/{file.relative_to(ROOT)}" for file in files if file.is_file() and "__pycache__" not in file.parts
    }
    wanted |= {f"fedannot/{file.name}" for file in (ROOT / "src" / "fedannot").iterdir() if file.is_file()}
    assert {"fedannot/jobs/fedaaai/settings/skin-ns.conf", "fedannot/site_configs/data/volume.yaml"} <= wanted
    assert sorted(wanted ^ held) == []


@pytest.mark.simulator
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the wheel that is handed out is made of a commit")
def test_the_wheel_that_is_handed_out_has_the_same_bits_whoever_makes_it(tmp_path: Path) -> None:
    """From the same commit, under another umask and at another time; SHA256SUMS says which file it is."""
    for umask in ("022", "077"):
        command = f"umask {umask}; exec sh {shlex.quote(str(ROOT / 'release' / 'wheel.sh'))} {sys.executable} {umask}"
        subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True, timeout=TIMEOUT)
    first, second = (
        {file.name: file.read_bytes() for file in (tmp_path / umask).iterdir()} for umask in ("022", "077")
    )
    assert first == second
    assert len(first) == 3
    sums = dict(reversed(line.split()) for line in first["SHA256SUMS"].decode().splitlines())
    assert sums == {name: hashlib.sha256(of).hexdigest() for name, of in first.items() if name != "SHA256SUMS"}


Run = Callable[..., str]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a command of an environment that holds the wheel, with the tested environment's packages to import."""
    folder = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=TIMEOUT)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True, timeout=TIMEOUT)
    # Files of that kind in a folder that is named by one are not read, so that the tree's own installation is not seen.
    (python.parents[1] / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "packages.pth").write_text(
        sysconfig.get_path("purelib") + "\n", encoding="utf-8"
    )
    work = folder / "work"
    work.mkdir()

    def run(*words: str) -> str:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "OMP_NUM_THREADS", "FEDANNOT_CACHE")
            if name in os.environ
        }
        done = subprocess.run(
            [str(python.parent / words[0]), *words[1:]],
            cwd=work,
            env=kept,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    return run


@pytest.mark.simulator
def test_the_quick_start_runs_outside_the_repository(installed: Run) -> None:
    module = installed("python", "-c", "import fedannot.apps; print(fedannot.apps.__file__)")
    assert "elsewhere" in module
    assert str(ROOT) not in module
    assert installed("fedannot", "--version") == installed("python", "-m", "fedannot", "--version")
    assert "fedaaai" in installed("fedannot", "jobs")
    changes = [word for item in SMALL for word in ("--set", item)]
    said = installed("fedannot", "simulate", "fedaaai", *changes, "--out", "run")
    assert "Model, summary and figures: run" in said
    read = "import json; print(json.load(open('run/summary.json'))['method'])"
    assert installed("python", "-c", read).strip() == "feda3i"
    installed("fedannot", "bundle", "export", "run", "--out", "bundle")
    result = installed("python", "-c", "print(open('bundle/configs/metadata.json').read())")
    assert json.loads(result)["fedannot"]["method"] == "feda3i"
    # A copy to change, which NVFlare's own simulator takes as well.
    assert "mine/fedavg" in installed("fedannot", "jobs", "copy", "fedavg", "mine")
    installed("fedannot", "deploy", "job", "mine/fedavg", "--sites", "a,b", "--out", "deployed")
    assert "site_configs/project.yml" in installed("fedannot", "deploy", "configs", "site_configs")
    # Research code lies in the repository alone.
    with pytest.raises(AssertionError, match="the benchmarks are in the repository"):
        installed("fedannot", "bench", "auto", "--list")


@pytest.mark.simulator
def test_a_shell_completes_the_names_of_jobs(installed: Run) -> None:
    complete = (
        "import os, subprocess, sys; "
        "print(subprocess.run([os.path.join(os.path.dirname(sys.executable), 'fedannot')], capture_output=True, "
        "text=True, env=os.environ | {'_FEDANNOT_COMPLETE': 'complete_bash', 'COMP_WORDS': 'fedannot simulate fedi', "
        "'COMP_CWORD': '2'}).stdout)"
    )
    assert installed("python", "-c", complete).split() == ["fedia"]
