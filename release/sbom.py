"""The software bill of materials of fedannot, and the licences in it: from the lock file and what is installed.

``python release/sbom.py OUT`` writes ``OUT/sbom.cdx.json`` (CycloneDX 1.6) and ``OUT/licences.csv``. It fails by name
if an installed package is not in the lock file in that version, if its licence is not known, or if what runs has a
licence that is not allowed. It lists packages, not the libraries inside of their wheels.
"""

import argparse
import csv
import datetime
import importlib.metadata
import json
import os
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
OURS = "fedannot"
# What an environment is made with.
_INSTALLERS = frozenset({OURS, "pip"})
# Extras that a participant may want, in the lock file; the others are for development.
_EXTRAS_OF_PARTICIPANTS = ("dicom", "xlsx")
_NOT_ALLOWED = re.compile(r"(?<![A-Za-z])(?:[AL]?GPL|SSPL|BUSL|GNU )", re.IGNORECASE)

# What packages write in place of an SPDX expression. A class of licences, as "BSD License", stays a name.
_SPDX_OF_TEXT = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "bsd-3-clause": "BSD-3-Clause",
    "isc license": "ISC",
    "mit": "MIT",
    "mit or apache-2.0": "MIT OR Apache-2.0",
    "mpl-2.0": "MPL-2.0",
    "psf-2.0": "PSF-2.0",
}
_SPDX_OF_CLASSIFIER = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
_LONGEST_NAME = 40


class SbomError(ValueError):
    """What is installed is not what may be handed out."""


@dataclass(frozen=True)
class Package:
    """An installed package.

    Attributes:
        name: its normalised name.
        version: its version.
        licence: an SPDX expression, or the name of a licence; empty if it is not known.
        is_expression: which of the two.
        source: the field of its metadata that says so.
        scope: ``"required"``, ``"optional"`` for an extra of participants, or ``"excluded"`` for development.
        needs: names of the packages that it needs here.
    """

    name: str
    version: str
    licence: str
    is_expression: bool
    source: str
    scope: str
    needs: tuple[str, ...]


Installed = Mapping[str, importlib.metadata.Distribution]


def read_lock(file: Path) -> dict[str, str]:
    """Return the versions of a constraints file by normalised names.

    Raises:
        SbomError: if a line is no ``name==version``, or a name stands there twice.
    """
    lock: dict[str, str] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, _, version = (part.strip() for part in text.partition("=="))
        if not version or canonicalize_name(name) in lock:
            raise SbomError(f"{file.name}, line {number}: found {text!r}, expected name==version, each name once.")
        lock[canonicalize_name(name)] = version
    return lock


def installed_packages() -> dict[str, importlib.metadata.Distribution]:
    """Return what is installed in this environment, by normalised names."""
    return {canonicalize_name(found.metadata["Name"]): found for found in importlib.metadata.distributions()}


def requirements(found: importlib.metadata.Distribution, extras: Iterable[str] = ()) -> list[Requirement]:
    """Return what a package needs in this environment, with some of its extras."""
    wanted = tuple(extras) or ("",)
    needed = map(Requirement, found.requires or [])
    return [item for item in needed if item.marker is None or any(item.marker.evaluate({"extra": e}) for e in wanted)]


def closure(roots: Iterable[Requirement], installed: Installed) -> dict[str, tuple[str, ...]]:
    """Return all packages that requirements lead to, each with the names of those that it needs itself.

    Raises:
        SbomError: if one is not installed.
    """
    extras: dict[str, set[str]] = {}
    needs: dict[str, tuple[str, ...]] = {}
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in extras and one.extras <= extras[name]:
            continue
        if name not in installed:
            raise SbomError(f"{one.name} is needed and not installed; install fedannot with constraints.txt first.")
        extras.setdefault(name, set()).update(one.extras)
        needed = requirements(installed[name], extras[name])
        needs[name] = tuple(sorted({canonicalize_name(of.name) for of in needed}))
        waiting += needed
    return needs


def licence_of(metadata: Mapping[str, Any], classifiers: Iterable[str]) -> tuple[str, bool, str]:
    """Return a package's licence, whether that is an SPDX expression, and which field says so; empty if none does.

    Args:
        metadata: the fields ``License-Expression`` and ``License``, where there are any.
        classifiers: its classifiers.
    """
    if expression := metadata.get("License-Expression"):
        return str(expression), True, "License-Expression"
    text = " ".join(str(metadata.get("License") or "").split())
    if text.lower() in _SPDX_OF_TEXT:
        return _SPDX_OF_TEXT[text.lower()], True, "License"
    named = [classifier.rpartition(" :: ")[2] for classifier in classifiers if classifier.startswith("License :: ")]
    if named and all(item in _SPDX_OF_CLASSIFIER for item in named):
        return " AND ".join(_SPDX_OF_CLASSIFIER[item] for item in named), True, "classifier"
    if named:
        return ", ".join(named), False, "classifier"
    return (text, False, "License") if len(text) <= _LONGEST_NAME else ("", False, "")


def is_allowed(licence: str) -> bool:
    """Return whether code under a licence may run with fedannot: without the GPL and its like, in one alternative.

    An expression with both ``AND`` and ``OR`` must do without them altogether.
    """
    alternatives = [licence] if re.search(r"\sAND\s", licence) else re.split(r"\s+OR\s+", licence)
    return any(not _NOT_ALLOWED.search(alternative) for alternative in alternatives)


def packages_of(lock: Mapping[str, str], installed: Installed) -> list[Package]:
    """Return what is installed, sorted by name, without fedannot and the installer.

    Raises:
        SbomError: if it is not what the lock file says, or a licence is not known or not allowed; with all reasons.
    """
    required = closure(_own_requirements(()), installed)
    optional = closure(_own_requirements(_EXTRAS_OF_PARTICIPANTS), installed)
    scopes = dict.fromkeys(optional, "optional") | dict.fromkeys(required, "required")
    packages = [
        _package(name, installed[name], scopes.get(name, "excluded"), optional.get(name, ()))
        for name in sorted(set(installed) - _INSTALLERS)
    ]
    if faults := [fault for package in packages for fault in _faults(package, lock)]:
        raise SbomError("\n".join(faults))
    return packages


def _own_requirements(extras: Iterable[str]) -> list[Requirement]:
    """What fedannot needs, as pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    return [Requirement(text) for text in texts]


def _package(name: str, found: importlib.metadata.Distribution, scope: str, needs: tuple[str, ...]) -> Package:
    fields = {key: found.metadata[key] for key in ("License-Expression", "License") if key in found.metadata}
    licence = licence_of(fields, found.metadata.get_all("Classifier") or [])
    return Package(name, found.version, *licence, scope=scope, needs=needs)


def _faults(package: Package, lock: Mapping[str, str]) -> list[str]:
    """What is wrong with a package. A build of PyTorch for a processor, as 2.13.0+cpu, is of the version before it."""
    faults, expected = [], lock.get(package.name)
    if expected is None:
        faults.append(f"{package.name} {package.version} is installed and not in constraints.txt.")
    elif Version(package.version).public != Version(expected).public:
        faults.append(f"{package.name}: installed is {package.version}, constraints.txt has {expected}.")
    if not package.licence:
        faults.append(f"{package.name} {package.version}: its metadata name no licence.")
    elif package.scope != "excluded" and not is_allowed(package.licence):
        faults.append(f"{package.name} {package.version}: the licence {package.licence!r} is not allowed.")
    return faults


def bill(packages: Iterable[Package], version: str, made: int | None) -> dict[str, Any]:
    """Return the bill as CycloneDX 1.6 has it; the same for the same packages.

    Args:
        packages: what is installed.
        version: fedannot's.
        made: seconds since 1970 of the commit; None for no time.
    """
    listed = list(packages)
    ours: dict[str, Any] = {"type": "application", "bom-ref": OURS, "name": OURS, "version": version}
    ours["licenses"] = [{"expression": "Apache-2.0"}]
    own = [_purl(item) for item in listed if item.name in {canonicalize_name(of.name) for of in _own_requirements(())}]
    places = {item.name: _purl(item) for item in listed}
    depend = [{"ref": OURS, "dependsOn": own}]
    depend += [{"ref": _purl(item), "dependsOn": [places[name] for name in item.needs]} for item in listed]
    metadata: dict[str, Any] = {"component": ours}
    if made is not None:
        metadata["timestamp"] = datetime.datetime.fromtimestamp(made, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": [_component(item) for item in listed],
        "dependencies": depend,
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return content | {"serialNumber": f"urn:uuid:{serial}"}


def _purl(package: Package) -> str:
    return f"pkg:pypi/{package.name}@{package.version.replace('+', '%2B')}"


def _component(package: Package) -> dict[str, Any]:
    licence = {"expression": package.licence} if package.is_expression else {"license": {"name": package.licence}}
    return {
        "type": "library",
        "bom-ref": _purl(package),
        "name": package.name,
        "version": package.version,
        "scope": package.scope,
        "licenses": [licence],
        "purl": _purl(package),
    }


def write(packages: Iterable[Package], out: Path, version: str, made: int | None) -> None:
    """Write both files into a folder, which is made if need be."""
    out.mkdir(parents=True, exist_ok=True)
    listed = list(packages)
    text = json.dumps(bill(listed, version, made), indent=2, sort_keys=True, ensure_ascii=False)
    (out / "sbom.cdx.json").write_text(text + "\n", encoding="utf-8")
    with (out / "licences.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("package", "version", "licence", "said by", "scope"))
        table.writerows((item.name, item.version, item.licence, item.source, item.scope) for item in listed)


def main() -> int:
    """Write the bill of this environment, or say what is wrong with it."""
    parser = argparse.ArgumentParser(description="Write the bill of materials of this environment, and its licences.")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of sbom.cdx.json and licences.csv")
    out: Path = parser.parse_args().out
    made = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        lock, installed = read_lock(ROOT / "constraints.txt"), installed_packages()
        packages = packages_of(lock, installed)
    except SbomError as error:
        print(f"No bill was written:\n{error}", file=sys.stderr)
        return 1
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    write(packages, out, version, None if made is None else int(made))
    print(f"{len(packages)} packages: {out / 'sbom.cdx.json'}, {out / 'licences.csv'}")
    if absent := sorted(set(lock) - set(installed)):
        print(f"Not installed here, and not listed: {', '.join(absent)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
