"""What pyproject.toml claims to run on, as `make test-lowest` installs it; and the claims agree with each other."""

import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from lowest_versions import AS_TESTED, FREE, TOOLS, claimed, constraints
from lowest_versions import lowest as lowest_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKED = (ROOT / "constraints.txt").read_text(encoding="utf-8")


def project(**dependencies: list[str]) -> dict[str, Any]:
    extras = {"xlsx": [], "dicom": [], "hdf5": [], "dev": []} | {
        key: of for key, of in dependencies.items() if key != "runs"
    }
    return {"dependencies": dependencies.get("runs", []), "optional-dependencies": extras}


def test_the_lowest_claim_takes_the_place_of_the_tested_version() -> None:
    needs = project(runs=["NumPy>=2.0,<3", "torch>=2.8"], xlsx=["openpyxl>=3.1"], dev=["pytest>=8", "ruff>=0.6"])
    assert claimed(needs) == {"numpy": "2.0", "openpyxl": "3.1", "pytest": "8"}
    locked = "# Tested.\nnumpy==2.4\ntorch==2.13.0\npydantic_core==2.50.4\nlazy_loader==0.6\nruff==0.17\n"
    assert constraints(needs, locked) == {
        **{"numpy": "2.0", "openpyxl": "3.1", "pytest": "8"},
        **{"torch": "2.13.0", "lazy-loader": "0.6", "ruff": "0.17"},
    }


@pytest.mark.parametrize("line", ["numpy", "numpy<3", "numpy==2.0"])
def test_a_package_without_a_lowest_version_is_refused_by_name(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"found '{line}'; expected one lowest version")):
        claimed(project(runs=[line]))


def test_no_claim_is_above_the_tested_version() -> None:
    versions = dict(line.split("==") for line in LOCKED.splitlines() if "==" in line)
    tested = {canonicalize_name(name): Version(version) for name, version in versions.items()}
    lowest = {name: Version(version) for name, version in claimed(PYPROJECT["project"]).items()}
    assert len(lowest) >= 25
    assert {name: version for name, version in lowest.items() if version > tested[name]} == {}
    assert {*AS_TESTED, *FREE, *(TOOLS - {"coverage"})} <= set(tested)


def test_the_pythons_that_are_claimed_begin_with_the_lowest_that_is_required() -> None:
    claims = PYPROJECT["project"]
    named = [line.rsplit(" ", 1)[1] for line in claims["classifiers"] if "Python :: 3." in line]
    assert f">={named[0]}" == claims["requires-python"]
    assert named == sorted(named, key=Version)
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{named[0].replace('.', '')}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == named[0]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named


def test_the_requirements_of_nvflare_and_monai_are_claimed() -> None:
    """A lower claim than theirs could not be installed beside them."""
    (torch,) = [item for item in map(Requirement, PYPROJECT["project"]["dependencies"]) if item.name == "torch"]
    lowest = claimed(PYPROJECT["project"]) | {"torch": lowest_of(torch)}
    for package in ("nvflare", "monai"):
        for needed in map(Requirement, requires(package) or []):
            name = canonicalize_name(needed.name)
            if name in lowest and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
                assert needed.specifier.contains(lowest[name]), f"{package} needs {needed}, claimed is {lowest[name]}"
