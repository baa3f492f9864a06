"""What is handed out: no text names an index for fedannot, the lock file holds all that runs, and the bill says so."""

import csv
import importlib.metadata
import importlib.util
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

from fedannot.apps.audit import dicom_seg
from fedannot.apps.importing.layouts import spreadsheet
from fedannot.apps.runs import ray_cluster, tracking

ROOT = Path(__file__).parents[1]
TEXTS = {".md", ".py", ".ipynb", ".sh", ".yaml", ".yml", ".toml", ".txt", ".conf", ".cff", ".json", ".html", ".j2", ""}
FOLDERS = ("apps", "custom", "docker", "docs", "jobs", "release", "site_configs", "src", "tests", "transforms")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# What ends a command, or the text around it.
COMMAND = re.compile(
    r"\b(?:pip3?|pipx|uv|uvx)\b[^\n|;&`]*?\b(?:install|download|wheel|run|add)\b(?P<rest>[^\n|;&`#)]*)"
)
OPTIONS_WITH_VALUE = {"-c", "--constraint", "-w", "--wheel-dir", "-d", "--dest", "-t", "--target"}


def load_sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "release" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sbom"] = module
    spec.loader.exec_module(module)
    return module


sbom = load_sbom()


def names_an_index(text: str) -> list[str]:
    """The commands of a text that would look for fedannot, or an extra of it, in an index."""
    result = []
    for command in COMMAND.finditer(text.replace("\\\n", " ")):
        words = re.split(r"[\s\"'\\,]+", command["rest"])
        for before, word in zip(["", *words], words, strict=False):
            if (
                re.fullmatch(r"fedannot(?:\[[^\]]*\]?)?(?:[=<>~!]=?.*)?[.:]?", word)
                and before not in OPTIONS_WITH_VALUE
            ):
                result.append(command[0].strip())
    return result


def texts() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXTS and path.name[0] != ".")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in TEXTS and "__pycache__" not in path.parts and path != Path(__file__):
                yield path


def test_no_text_names_an_index_for_fedannot() -> None:
    """Nobody but whoever registers the name there would answer; the wheel is a file with a hash."""
    read = {path: path.read_text(encoding="utf-8", errors="replace") for path in texts()}
    assert {ROOT / "README.md", ROOT / "docs" / "installation.md", ROOT / "docker" / "Dockerfile"} <= set(read)
    named = {str(path.relative_to(ROOT)): result for path, text in read.items() if (result := names_an_index(text))}
    assert named == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install fedannot",
        "pip install -c constraints.txt fedannot==0.1.0",
        "python -m pip install --upgrade 'fedannot[dicom]'",
        "it needs openpyxl: pip install 'fedannot[xlsx]', or open it",
        'pip install "fedannot[…]"',
        "pip install 'fedannot[{kind}]'",
        '"!pip install -q fedannot\\n",',
        "uv pip install fedannot>=0.1",
        "pipx run fedannot",
        "pip download fedannot",
        "pip install \\\n  fedannot",
        "What `pip install fedannot` gives",
    ],
)
def test_commands_that_name_an_index_are_found(text: str) -> None:
    assert len(names_an_index(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "pip install -c constraints.txt ./fedannot-0.1.0-py3-none-any.whl",
        "pip install './fedannot-0.1.0-py3-none-any.whl[dicom]'",
        "pip install -e '.[dev]'",
        "pip install ./calm_sites`, then `fedannot simulate fedavg",
        "pip install 'highdicom>=0.24'",
        "docker build -f docker/Dockerfile -t fedannot .",
        "pip install -q torch; fedannot jobs",
        "There is no release yet, and no package index has fedannot.",
    ],
)
def test_other_commands_are_not(text: str) -> None:
    assert names_an_index(text) == []


def test_errors_name_the_packages_of_the_extras() -> None:
    """An error says what to install without fedannot's name, and so has to follow pyproject.toml."""
    extras = PROJECT["optional-dependencies"]
    for module, extra in ((dicom_seg, "dicom"), (spreadsheet, "xlsx"), (ray_cluster, "ray")):
        (needed,) = extras[extra]
        assert f"pip install '{needed}'" in Path(str(module.__file__)).read_text(encoding="utf-8")
    assert {kind: [needed] for kind, needed in tracking._PACKAGES.items()} == {
        kind: extras[kind] for kind in ("mlflow", "wandb")
    }


def test_the_pages_name_the_wheel_of_this_version() -> None:
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("installation.md", "deployment.md")]
    named = [item for page in pages for item in re.findall(r"fedannot-([\w.]+?)-py3-none-any\.whl", page)]
    assert len(named) >= 3
    assert set(named) == {PROJECT["version"]}


def test_the_files_of_a_release_have_this_version() -> None:
    """docs/releasing.md lists them."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.M) == [PROJECT["version"]]
    assert re.findall(r"^## ([\d.]+)", changelog, re.M)[0] == PROJECT["version"]


# --- the lock file and the bill


@pytest.fixture(scope="module")
def lock() -> dict[str, str]:
    read: dict[str, str] = sbom.read_lock(ROOT / "constraints.txt")
    return read


@pytest.fixture(scope="module")
def installed(lock: dict[str, str]) -> dict[str, importlib.metadata.Distribution]:
    """What is installed, without tools that a developer has added."""
    return {name: of for name, of in sbom.installed_packages().items() if name in {*lock, "fedannot", "pip"}}


def test_all_that_runs_is_in_the_lock_file(lock: dict[str, str], installed: Any) -> None:
    """The transitive closure, found here with another walk than the bill's: level by level, by name and extra."""
    level = {(item.name, extra) for item in map(Requirement, PROJECT["dependencies"]) for extra in ("", *item.extras)}
    seen: set[tuple[str, str]] = set()
    while level:
        seen |= level
        level = {
            (needed.name, extra)
            for name, of in level
            for needed in map(Requirement, importlib.metadata.requires(name) or [])
            if needed.marker is None or needed.marker.evaluate({"extra": of})
            for extra in ("", *needed.extras)
        } - seen
    names = {sbom.canonicalize_name(name) for name, _ in seen}
    assert len(names) > 60
    assert sorted(names - set(lock)) == []
    assert names == set(sbom.closure(map(Requirement, PROJECT["dependencies"]), installed))


def test_this_environment_has_a_bill_that_is_the_same_each_time(
    tmp_path: Path, lock: dict[str, str], installed: Any
) -> None:
    for name in ("first", "second"):
        sbom.write(sbom.packages_of(lock, installed), tmp_path / name, PROJECT["version"], 1_790_000_000)
    files = ("sbom.cdx.json", "licences.csv")
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    bill = json.loads((tmp_path / "first" / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert bill["metadata"]["timestamp"] == "2026-09-21T14:13:20Z"
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    components = {item["bom-ref"]: item for item in bill["components"]}
    assert {item["name"] for item in bill["components"]} == set(installed) - {"fedannot", "pip"}
    assert components[f"pkg:pypi/nvflare@{lock['nvflare']}"]["licenses"] == [{"expression": "Apache-2.0"}]
    # Every reference is one of a component, and every component but development's is reached from fedannot's extras.
    refs = [item["ref"] for item in bill["dependencies"]]
    assert len(refs) == len(set(refs)) == len(components) + 1
    assert {of for item in bill["dependencies"] for of in item["dependsOn"]} <= set(components)
    scopes = {item["name"]: item["scope"] for item in bill["components"]}
    assert (scopes["torch"], scopes["highdicom"], scopes["pytest"]) == ("required", "optional", "excluded")
    with (tmp_path / "first" / "licences.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["package"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(scopes)
    assert all(row["licence"] and row["said by"] for row in rows.values())


@pytest.mark.parametrize(
    ("fields", "classifiers", "expected"),
    [
        ({"License-Expression": "MIT", "License": "odd"}, ["License :: OSI Approved :: BSD License"], ("MIT", True)),
        ({"License": "Apache 2.0"}, [], ("Apache-2.0", True)),
        (
            {"License": "BSD 3-Clause\n\nCopyright " + "x" * 99},
            ["License :: OSI Approved :: BSD License"],
            ("BSD License", False),
        ),
        ({}, ["License :: OSI Approved :: MIT License"], ("MIT", True)),
        ({"License": "Beer-ware"}, ["Topic :: X"], ("Beer-ware", False)),
        ({"License": "Copyright " + "x" * 99}, [], ("", False)),
        ({}, [], ("", False)),
    ],
)
def test_a_licence_is_read_from_the_best_field(
    fields: dict[str, str], classifiers: list[str], expected: tuple[str, bool]
) -> None:
    assert sbom.licence_of(fields, classifiers)[:2] == expected


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MPL-2.0", True),
        ("MIT OR GPL-2.0-only", True),
        ("LGPL-3.0-or-later", False),
        ("MIT AND AGPL-3.0", False),
        ("(MIT OR GPL-3.0) AND GPL-3.0", False),
        ("GNU General Public License v3 (GPLv3)", False),
        ("GNU Lesser General Public License v2 or later", False),
        ("GPLv2", False),
        ("SSPL-1.0", False),
    ],
)
def test_copyleft_for_the_whole_is_not_allowed(licence: str, allowed: bool) -> None:
    assert sbom.is_allowed(licence) is allowed


class Other(importlib.metadata.Distribution):
    """A package that is not installed, with the fields that it is made with."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("fields", "version", "named"),
    [
        ("License-Expression: MIT", None, "stranger 1.0 is installed and not in constraints.txt."),
        ("License-Expression: MIT", "2.0", "stranger: installed is 1.0, constraints.txt has 2.0."),
        ("Summary: no word of a licence", "1.0", "stranger 1.0: its metadata name no licence."),
        ("License-Expression: LGPL-3.0-only", "1.0", "stranger 1.0: the licence 'LGPL-3.0-only' is not allowed."),
    ],
)
def test_what_may_not_be_handed_out_is_named(
    lock: dict[str, str], installed: Any, monkeypatch: pytest.MonkeyPatch, fields: str, version: str | None, named: str
) -> None:
    other = Other(f"Metadata-Version: 2.4\nName: Stranger\nVersion: 1.0\n{fields}\n")
    own = sbom._own_requirements
    monkeypatch.setattr(sbom, "_own_requirements", lambda extras: [*own(extras), Requirement("stranger")])
    locked = lock | ({} if version is None else {"stranger": version})
    with pytest.raises(sbom.SbomError) as caught:
        sbom.packages_of(locked, {**installed, "stranger": other})
    assert str(caught.value) == named


def test_a_tool_of_development_may_have_any_licence(lock: dict[str, str], installed: Any) -> None:
    tool = Other("Metadata-Version: 2.4\nName: tool\nVersion: 1.0\nLicense-Expression: GPL-3.0-only\n")
    packages = sbom.packages_of(lock | {"tool": "1.0"}, {**installed, "tool": tool})
    assert [package.scope for package in packages if package.name == "tool"] == ["excluded"]


@pytest.mark.parametrize("line", ["numpy>=2", "numpy", "numpy==1.0\nNumPy==2.0"])
def test_a_lock_file_with_another_line_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "constraints.txt"
    file.write_text(f"# said\n{line}\n", encoding="utf-8")
    with pytest.raises(sbom.SbomError, match=r"constraints\.txt, line \d: found"):
        sbom.read_lock(file)


def test_the_script_of_the_wheel_is_one_that_a_shell_can_read_and_says_how_it_is_used() -> None:
    text = (ROOT / "release" / "wheel.sh").read_text(encoding="utf-8")
    assert "sha256sum fedannot-*.whl constraints.txt > SHA256SUMS" in text
    made = [line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "release/wheel.sh" in line]
    assert [shlex.split(line)[1] for line in made] == ["release/wheel.sh"]
