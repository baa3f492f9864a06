"""NVFlare's startup kit of the server or of a site, and what is written into it before it is used."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...custom.approval.approved import (
    APPROVED_FILE,
    ApprovedJob,
    ApprovedJobs,
    installed_version,
    read_approved,
    write_approved,
)
from ...custom.approval.configuration import JobConfiguration
from ...custom.data.description import DESCRIPTION_FILE, read_description_file
from ...custom.data.whole_files import replaced, write_text
from ...custom.flare.kept_files import MODELS_FOLDER
from ...transforms.errors import DataError
from ...transforms.strict_files import JsonObject, read_yaml
from ..runs.installed import installed_configs, jobs_folder
from ..wording.shell_words import shell_word
from .deployable_job import read_configuration
from .private_files import close_to_others
from .provisioning import write_start_check
from .startup_kit import Kit, KitError, read_json

__all__ = ["Kit", "KitError", "approve_job", "merged", "prepare_kit", "read_json"]

_RESOURCES = "resources.json"
_ALLOW_LIST = "class_allow_list"
# What NVFlare takes for a class; of names without a dot it finds the class itself.
_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def prepare_kit(
    folder: Path, configs: Path | None = None, data: Path | None = None, jobs: Path | None = None
) -> list[Path]:
    """Write a participant's policies into its kit, and return the files.

    What is there already stays, but for the keys that the policies have. The jobs that come with fedannot are approved;
    the participant builds the classes that approved jobs name and no others. Others on the machine lose their rights on
    the kit. A relay runs no jobs: of its kit that is all.

    Args:
        folder: the kit.
        configs: a folder with ``site.yaml`` and ``server.yaml``; None for the policies that are installed.
        data: a filled-in description of the site's data, which becomes ``local/data.yaml``.
        jobs: a folder with the jobs of fedannot; None for those that are installed.

    Raises:
        KitError: if the kit or the policies cannot be used, or there are no jobs.
        JobError: if a job cannot be read.
        DataError: if the description cannot be used.
    """
    kit = Kit.open(folder)
    if kit.role == "relay":
        _close_relay(kit, data)
        return []
    policies = _read_policies((configs or installed_configs()) / f"{kit.role}.yaml", kit)
    if data is not None:
        if kit.role == "server":
            raise KitError(f"{folder} is the server's kit; data are described at the sites.")
        read_description_file(data)
    others = _approved(kit).others if (kit.local / APPROVED_FILE).is_file() else ()
    approved = ApprovedJobs(fedannot=installed_version(), installed=_jobs_in(jobs_folder(jobs)), others=others)
    written = []
    for name, values in policies.items():
        # Resources are added to NVFlare's; the others are the participant's alone.
        if name == _RESOURCES:
            written += _write_resources(kit, merged(kit.effective(name), values))
        else:
            written.append(_write_json(kit.local / name, values))
    written.append(write_start_check(kit.local))
    written.append(_write_approved(kit, approved))
    if kit.role == "server":
        (kit.folder / MODELS_FOLDER).mkdir(exist_ok=True)
    if data is not None and data.resolve() != (kit.local / DESCRIPTION_FILE).resolve():
        with replaced(kit.local / DESCRIPTION_FILE) as temporary:
            shutil.copyfile(data, temporary)
        written.append(kit.local / DESCRIPTION_FILE)
    _close(kit)
    return written


def _close_relay(kit: Kit, data: Path | None) -> None:
    if data is not None:
        raise KitError(f"{kit.folder} is a relay's kit; data are described at the sites.")
    _close(kit)


def _close(kit: Kit) -> None:
    try:
        close_to_others(kit.folder)
    except OSError as error:
        raise KitError(f"{kit.folder}: expected a kit of this user, but {error}.") from error


def approve_job(folder: Path, name: str, configuration: JobConfiguration) -> ApprovedJob:
    """Approve a job for a participant, besides those that come with fedannot.

    Args:
        folder: the participant's kit.
        name: the job's name.
        configuration: what was looked at. No file is read again, so that nothing else is approved.

    Raises:
        KitError: if the kit is none, or has not been prepared.
    """
    kit = Kit.open(folder)
    if kit.role == "relay":
        raise KitError(f"{folder} is a relay's kit; a relay runs no jobs, and approves none.")
    approved = ApprovedJob.of(name, configuration)
    _write_approved(kit, _approved(kit).with_other(approved))
    return approved


def _approved(kit: Kit) -> ApprovedJobs:
    try:
        approved = read_approved(kit.local)
    except DataError as error:
        raise KitError(str(error)) from error
    if approved is None:
        raise KitError(
            f"{kit.local}: found no {APPROVED_FILE}; first: fedannot deploy prepare {shell_word(kit.folder)}"
        )
    return approved


def _jobs_in(folder: Path) -> tuple[ApprovedJob, ...]:
    jobs = sorted(meta.parent for meta in folder.glob("*/meta.json"))
    if not jobs:
        raise KitError(f"Expected the jobs of fedannot in {folder}, but found none.")
    return tuple(ApprovedJob.of(*read_configuration(job)) for job in jobs)


def _write_approved(kit: Kit, approved: ApprovedJobs) -> Path:
    """Write what is approved, and the list of classes that follows from it."""
    resources = kit.effective(_RESOURCES)
    resources[_ALLOW_LIST] = [name for name in approved.classes if _CLASS_PATH.fullmatch(name)]
    _write_resources(kit, resources)
    return write_approved(kit.local, approved)


def _write_resources(kit: Kit, content: JsonObject) -> list[Path]:
    """Write the resources under both names: NVFlare's own `deploy prepare` drops the one, keeps the default."""
    return [_write_json(kit.local / name, content) for name in (_RESOURCES, f"{_RESOURCES}.default")]


def _write_json(file: Path, content: JsonObject) -> Path:
    write_text(file, json.dumps(content, indent=2) + "\n")
    return file


def merged(given: Any, added: Any) -> Any:
    """Add values to a configuration: groups by key, lists of components by id, lists of texts without doubles.

    A component whose path is null is taken out.
    """
    if isinstance(given, Mapping) and isinstance(added, Mapping):
        return dict(given) | {key: merged(given[key], value) if key in given else value for key, value in added.items()}
    if isinstance(given, list) and isinstance(added, list):
        if not all(isinstance(entry, Mapping) for entry in added):
            return [*given, *(entry for entry in added if entry not in given)]
        changes = {entry["id"]: entry for entry in added}
        present = [merged(entry, changes.pop(entry["id"], {})) for entry in given]
        return [entry for entry in (*present, *changes.values()) if entry.get("path", "") is not None]
    return added


def _read_policies(file: Path, kit: Kit) -> JsonObject:
    try:
        values = read_yaml(file, "a participant's policies")
    except DataError as error:
        raise KitError(str(error)) from error
    if not isinstance(values, dict) or not all(
        str(name).endswith(".json") and isinstance(content, dict) for name, content in values.items()
    ):
        raise KitError(f"{file}: expected names of JSON files with what they are to hold.")
    filled: JsonObject = json.loads(json.dumps(values).replace("{kit}", json.dumps(str(kit.folder))[1:-1]))
    if kit.is_for_runtime and _RESOURCES in filled:
        # Jobs and snapshots stay where NVFlare has put them: in the kit, by its path in a container.
        resources = filled[_RESOURCES]
        resources.pop("snapshot_persistor", None)
        resources["components"] = [entry for entry in resources["components"] if entry["id"] != "job_manager"]
    return filled
