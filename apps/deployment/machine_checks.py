"""What the participant's machine has: data, packages, a processor to train on, room."""

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from packaging.requirements import Requirement

from ...custom.data.description import DESCRIPTION_FILE
from ...custom.data.federation import TEST_FOLDER
from ...custom.data.location import DATA_VARIABLE
from ...custom.data.store_location import CACHE_FILE, CACHE_VARIABLE, locate_store
from ...custom.data.whole_files import check_owner
from ...custom.run.threads import COMPUTE_FILE, number_of_threads
from ...custom.settings import SettingsError
from ...transforms.errors import DataError
from ..checking.checking import check_site
from ..checking.file_checks import DATALIST_ELSEWHERE
from ..wording.shell_words import shell_word
from .check_points import GIB, Point, State, disk_point
from .kit import Kit

_ENOUGH_SPACE = 10 * GIB


def check_data(kit: Kit) -> Iterator[Point]:
    """Can the site train on its data, and the server score on its test set, where it has one?"""
    is_test, folder = kit.role == "server", kit.local
    if named := os.environ.get(DATA_VARIABLE):
        inside = Path(named) / (TEST_FOLDER if is_test else kit.folder.name)
        folder = inside if (inside / DESCRIPTION_FILE).is_file() else Path(named)
    if not (folder / DESCRIPTION_FILE).is_file():
        if is_test and not named:
            yield Point("data", State.READY, "none: sites' own cases score the model, where they have any")
            return
        remedy = f"Fill in one of site_configs/data, then: fedannot deploy prepare {shell_word(kit.folder)} --data FILE"
        yield Point("data", State.PROBLEM, f"no {folder / DESCRIPTION_FILE}", remedy)
        return
    report = check_site(folder, kit.folder.name, is_test=is_test)
    counts = ", ".join(f"{usable} of {listed} {name}" for name, (listed, usable) in report.lists.items())
    for finding in report.findings:
        if finding.blocks_training:
            yield Point("data", State.PROBLEM, finding.found, finding.remedy)
    if report.can_train:
        # Who fills in a kit names the place of its data.
        others = sum(finding.kind != DATALIST_ELSEWHERE for finding in report.findings)
        state = State.WARNING if others else State.READY
        remedy = (
            f"fedannot data check {shell_word(folder)} names files and says what to do about them." if others else ""
        )
        yield Point("data", state, f"usable: {counts}" + (f"; {others} findings" if others else ""), remedy)


def check_versions(_: Kit) -> Iterator[Point]:
    """Are the installed packages those that fedannot is tested with?"""
    wrong = []
    for text in importlib.metadata.requires("fedannot") or []:
        needed = Requirement(text)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            result = importlib.metadata.version(needed.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{needed.name} is not installed")
            continue
        if not needed.specifier.contains(result, prereleases=True):
            wrong.append(f"{needed.name} {result}, expected {needed.specifier}")
    names = ("fedannot", "nvflare", "monai", "torch")
    installed = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    if wrong:
        remedy = "pip install -c constraints.txt ./fedannot-….whl, with the file of that version, in this environment"
        yield Point("versions", State.PROBLEM, "; ".join(wrong), remedy)
    else:
        yield Point("versions", State.READY, f"Python {platform.python_version()}, {installed}")


def check_python(_: Kit) -> Iterator[Point]:
    """Will the kit's start script, which takes whatever is called python3, find this environment?"""
    result = shutil.which("python3")
    environment = Path(sys.prefix)
    if result is not None and Path(result).parent == environment / "bin":
        yield Point("python3", State.READY, result)
    else:
        remedy = f"Before startup/start.sh: source {shell_word(environment)}/bin/activate"
        yield Point("python3", State.PROBLEM, f"startup/start.sh would take {result}, without fedannot", remedy)


def check_threads(kit: Kit) -> Iterator[Point]:
    """How many threads does a job get that leaves their number to the participant?"""
    try:
        threads = number_of_threads(0, kit.local)
    except (DataError, SettingsError) as error:
        yield Point("threads", State.PROBLEM, str(error), f"Mend {kit.local / COMPUTE_FILE} or FEDANNOT_THREADS.")
    else:
        yield Point("threads", State.READY, f"{threads} of PyTorch in a process, {os.cpu_count()} cores")


def check_prepared_images(kit: Kit) -> Iterator[Point]:
    """Can prepared copies of images be kept, where nobody else opens them?"""
    try:
        location = locate_store(kit.local)
        if os.path.lexists(location.store.root):
            check_owner(location.store.root)
    except DataError as error:
        remedy = f"Mend {kit.local / CACHE_FILE}, {CACHE_VARIABLE}, or the folder."
        yield Point("prepared images", State.PROBLEM, str(error), remedy)
    else:
        limits = location.store.limits
        result = f"{location.store.root}, at most {limits.max_bytes / GIB:g} GiB, {limits.max_age / 86400:g} days"
        yield Point("prepared images", State.READY, result)


def check_gpu(kit: Kit) -> Iterator[Point]:
    """Is there a GPU to train on?"""
    if kit.role == "server":
        return
    if not torch.cuda.is_available():
        remedy = "If there is one: is PyTorch's CUDA build installed, and does nvidia-smi show it?"
        yield Point("GPU", State.WARNING, "none; training takes the processor", remedy)
        return
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        name = torch.cuda.get_device_name(index)
        yield Point("GPU", State.READY, f"{name}, {free / GIB:.0f} of {total / GIB:.0f} GiB free")


def check_disk(kit: Kit) -> Iterator[Point]:
    """Is there room, and does what is to last lie where it lasts?"""
    yield disk_point(kit.folder, enough=_ENOUGH_SPACE)
    if kit.role == "server":
        components = {entry.get("id"): entry for entry in kit.effective("resources.json").get("components", [])}
        store = str(components.get("job_manager", {}).get("args", {}).get("uri_root", ""))
        # A trial in a temporary folder knows what it does.
        temporary = Path(tempfile.gettempdir()) in Path(store).parents and kit.folder not in Path(store).parents
        if temporary:
            remedy = f"fedannot deploy prepare {shell_word(kit.folder)}"
            yield Point("job store", State.WARNING, f"{store}, which a restart may empty", remedy)
        else:
            yield Point("job store", State.READY, store)
