"""The lowest versions that pyproject.toml claims, for `make test-lowest`: ``python tests/lowest_versions.py > FILE``.

Of each package that fedannot or its tests name, the version behind ``>=``; of all others those of constraints.txt.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
# Extras whose packages the tests import.
EXTRAS = ("xlsx", "dicom", "hdf5", "dev")
# What looks at the source, and never at what runs.
TOOLS = {"ruff", "mypy", "pre-commit", "pre-commit-hooks", "types-pyyaml", "scipy-stubs", "coverage"}
# PyTorch's other versions take gigabytes each; the tested one stands for all.
AS_TESTED = {"torch"}
# Follows a package that is named: each Pydantic needs one version of its core.
FREE = {"pydantic-core"}


def lowest(requirement: Requirement) -> str:
    """Return the version behind ``>=``.

    Raises:
        ValueError: there is none, so that nobody can say what is claimed.
    """
    bounds = [part.version for part in requirement.specifier if part.operator == ">="]
    if len(bounds) != 1:
        raise ValueError(f"pyproject.toml: found {str(requirement)!r}; expected one lowest version, as in 'numpy>=2.0'")
    return bounds[0]


def claimed(project: dict[str, Any]) -> dict[str, str]:
    """Return the lowest version of each package that runs or that tests import, from a table ``project``."""
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    named = {canonicalize_name(item.name): item for item in map(Requirement, lines)}
    return {name: lowest(one) for name, one in named.items() if name not in TOOLS | AS_TESTED}


def constraints(project: dict[str, Any], locked: str) -> dict[str, str]:
    """Return one version for each package, from a table ``project`` and the text of constraints.txt."""
    lines = [line.split("==") for line in locked.splitlines() if "==" in line]
    versions = {canonicalize_name(name): version for name, version in lines}
    return {name: version for name, version in (versions | claimed(project)).items() if name not in FREE}


if __name__ == "__main__":
    read = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = constraints(read, (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    sys.stdout.writelines(f"{name}=={version}\n" for name, version in sorted(found.items()))
