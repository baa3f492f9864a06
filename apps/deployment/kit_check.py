"""Is a participant ready to join? What is wrong with its kit, its data and its machine, and how to mend it."""

import importlib.metadata
import os
import platform
import shutil
import socket
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from packaging.requirements import Requirement

from ...custom.data.description import DESCRIPTION_FILE
from ...custom.data.location import DATA_VARIABLE
from ..checking.checking import check_site
from .kit import Kit

_TIMEOUT = 10.0
_EXPIRES_SOON = timedelta(days=30)
_LARGEST_CLOCK_DIFFERENCE = timedelta(minutes=5)
_GIB = 2**30
# Prepared tensors, the models of a few rounds, logs.
_LEAST_SPACE, _ENOUGH_SPACE = 1 * _GIB, 10 * _GIB
_OUR_CLASSES = (
    "fedannot.custom.flare.executor.SegmentationExecutor",
    "fedannot.custom.networks.build_network",
    "nvflare.app_opt.pt.file_model_persistor.PTFileModelPersistor",
)
_FILTER = "fedannot.custom.flare.outbound_filter.OutboundFilter"


class State(StrEnum):
    """How a point of the check came out."""

    READY = "ready"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Point:
    """What was found at one point of the check.

    Attributes:
        what: the point, ``certificate``.
        state: how it came out; a problem keeps the participant from joining.
        found: what was found.
        mend: how to mend it; empty where nothing is wrong.
    """

    what: str
    state: State
    found: str
    mend: str = ""


def check_kit(folder: Path) -> list[Point]:
    """Check a startup kit and the machine that it lies on; nothing is changed, and nothing leaves the site.

    Args:
        folder: the kit of the server or of a site.

    Raises:
        KitError: if it is no such kit.
    """
    kit = Kit.open(folder)
    return [point for check in _CHECKS for point in check(kit)]


def is_ready(points: list[Point]) -> bool:
    """Return whether the participant can join."""
    return all(point.state != State.PROBLEM for point in points)


# --- certificate and server


def check_certificate(kit: Kit) -> Iterator[Point]:
    """Is the certificate the authority's, valid now, and does the private key belong to it?"""
    what, again = "certificate", "Ask the operator for a new kit."
    try:
        files = [kit.certificate(name) for name in ("certificate", "key", "authority")]
        certificate, authority = (x509.load_pem_x509_certificate(file.read_bytes()) for file in (files[0], files[2]))
        key = load_pem_private_key(files[1].read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        yield Point(what, State.PROBLEM, f"cannot be read: {error}", again)
        return
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(names[0].value) if names else "nobody"
    if key.public_key() != certificate.public_key():
        yield Point(what, State.PROBLEM, f"{files[1]} is not the key of {files[0]}", again)
        return
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        yield Point(what, State.PROBLEM, f"{files[0]} is not signed by {files[2]}", again)
        return
    now, start, end = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    period = f"{name}, valid {start:%Y-%m-%d} to {end:%Y-%m-%d}"
    if now < start:
        found = f"{period}, but this machine's clock says {now:%Y-%m-%d %H:%M} UTC"
        yield Point(what, State.PROBLEM, found, "Set the clock right.")
    elif now > end:
        yield Point(what, State.PROBLEM, f"{period}: expired", again)
    elif now > end - _EXPIRES_SOON:
        yield Point(what, State.WARNING, f"{period}: expires soon", again)
    else:
        yield Point(what, State.READY, period)


def check_server_address(kit: Kit) -> Iterator[Point]:
    """Does the server's name lead to a machine that answers, proves that name, and has the same time?"""
    what = "server"
    host, port = kit.server_address
    if kit.role == "server":
        yield from _check_own_name(kit, host)
        return
    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError as error:
        mend = "Is the name right? Ask the operator; a name for this machine alone goes into its hosts file."
        yield Point(what, State.PROBLEM, f"{host} is not known: {error}", mend)
        return
    where = f"{host}:{port} ({', '.join(sorted(addresses))})"
    try:
        context = ssl.create_default_context(cafile=str(kit.certificate("authority")))
        context.load_cert_chain(kit.certificate("certificate"), kit.certificate("key"))
        with (
            socket.create_connection((host, port), _TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            yield Point(what, State.READY, f"{where} answers, {secure.version()}")
    except ssl.SSLCertVerificationError as error:
        mend = "That is another server, or the kit is of another federation. Do not start; ask the operator."
        yield Point(what, State.PROBLEM, f"{where} shows a wrong certificate: {error.verify_message}", mend)
        return
    except ssl.SSLError as error:
        mend = "Something between here and there breaks TLS, or the port is another program's. Ask the operator."
        yield Point(what, State.PROBLEM, f"{where} does not speak TLS with this kit: {error.reason or error}", mend)
        return
    except OSError as error:
        mend = "Started later? Else a firewall: this machine must be allowed to connect to that port."
        yield Point(what, State.WARNING, f"{where} does not answer: {error}", mend)
        return
    yield from _check_clock(host, port, context)


def _check_own_name(kit: Kit, host: str) -> Iterator[Point]:
    """At the server: is it the name that its certificate proves?"""
    try:
        certificate = x509.load_pem_x509_certificate(kit.certificate("certificate").read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        known = [str(name.value) for name in names.value]
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        yield Point("server", State.PROBLEM, f"the certificate names no host: {error}", "Provision the project anew.")
        return
    if host not in known:
        mend = "Provision with the host name under which sites reach this machine as the server's name."
        yield Point("server", State.PROBLEM, f"{host} is not in the certificate, which has {known}", mend)
    else:
        yield Point("server", State.READY, f"sites reach it as {host}:{kit.server_address[1]}")


def _check_clock(host: str, port: int, context: ssl.SSLContext) -> Iterator[Point]:
    """Compare with the time in the server's answer to a plain request; whatever else it answers."""
    try:
        with urllib.request.urlopen(f"https://{host}:{port}/", timeout=_TIMEOUT, context=context) as answer:
            told = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        told = error.headers.get("Date")
    except OSError:
        told = None
    if told is None:
        yield Point("clock", State.READY, "within the certificate's period; the server does not tell its time")
        return
    difference = abs(datetime.now(UTC) - parsedate_to_datetime(told))
    found = f"{difference.total_seconds():.0f} s from the server's"
    if difference > _LARGEST_CLOCK_DIFFERENCE:
        yield Point("clock", State.PROBLEM, found, "Set the clock right, by NTP for instance.")
    else:
        yield Point("clock", State.READY, found)


# --- policies


def check_allow_list(kit: Kit) -> Iterator[Point]:
    """May jobs use the classes of fedannot, and no others?"""
    resources = kit.effective("resources.json")
    allowed = [str(entry) for entry in resources.get("class_allow_list", DEFAULT_CLASS_ALLOW_LIST)]
    refused = [path for path in _OUR_CLASSES if not any(_is_listed(path, entry) for entry in allowed)]
    prepare = f"fedannot deploy prepare {kit.folder}"
    if "*" in allowed or resources.get("class_list_enforcement_mode") == "warn":
        yield Point("allow-list", State.WARNING, "jobs may use any installed class", f"{prepare}, after removing '*'.")
    elif refused:
        yield Point("allow-list", State.PROBLEM, f"jobs may not use {', '.join(refused)}", prepare)
    else:
        yield Point("allow-list", State.READY, "fedannot's classes and NVFlare's own")


def _is_listed(path: str, entry: str) -> bool:
    return path == entry or path.startswith(entry if entry.endswith(".") else f"{entry}.")


def check_policies(kit: Kit) -> Iterator[Point]:
    """May jobs carry code, and is there a filter at the exit that no job can leave out?"""
    prepare = f"fedannot deploy prepare {kit.folder}"
    rights = kit.effective("authorization.json").get("permissions", {}).get("lead", {})
    if rights == "any" or (isinstance(rights, dict) and rights.get("byoc", "none") != "none"):
        yield Point("code in jobs", State.WARNING, "the researcher's jobs may bring code and run it here", prepare)
    else:
        yield Point("code in jobs", State.READY, "refused")
    if kit.role == "server":
        return
    privacy = kit.effective("privacy.json")
    scopes = {scope.get("name"): scope for scope in privacy.get("scopes", []) if isinstance(scope, dict)}
    default = scopes.get(privacy.get("default_scope"), {})
    if _FILTER in [entry.get("path") for entry in default.get("task_result_filters", [])]:
        yield Point("outbound filter", State.READY, "whatever a job says, only registered fields leave")
    else:
        yield Point("outbound filter", State.WARNING, "only jobs that have it use the outbound filter", prepare)


# --- data and machine


def check_data(kit: Kit) -> Iterator[Point]:
    """Can the site train on its data?"""
    if kit.role == "server":
        return
    folder = kit.local
    if named := os.environ.get(DATA_VARIABLE):
        inside = Path(named) / kit.folder.name
        folder = inside if (inside / DESCRIPTION_FILE).is_file() else Path(named)
    if not (folder / DESCRIPTION_FILE).is_file():
        mend = f"Fill in one of site_configs/data, then: fedannot deploy prepare {kit.folder} --data FILE"
        yield Point("data", State.PROBLEM, f"no {folder / DESCRIPTION_FILE}", mend)
        return
    report = check_site(folder, kit.folder.name)
    counts = ", ".join(f"{usable} of {listed} {name}" for name, (listed, usable) in report.lists.items())
    for finding in report.findings:
        if finding.blocks_training:
            yield Point("data", State.PROBLEM, finding.found, finding.mend)
    if report.can_train:
        others = len(report.findings)
        state = State.WARNING if others else State.READY
        mend = f"fedannot data check {folder} names files and says how to mend them." if others else ""
        yield Point("data", state, f"usable: {counts}" + (f"; {others} findings" if others else ""), mend)


def check_versions(_: Kit) -> Iterator[Point]:
    """Are the installed packages those that fedannot is tested with?"""
    wrong = []
    for text in importlib.metadata.requires("fedannot") or []:
        needed = Requirement(text)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            found = importlib.metadata.version(needed.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{needed.name} is not installed")
            continue
        if not needed.specifier.contains(found, prereleases=True):
            wrong.append(f"{needed.name} {found}, expected {needed.specifier}")
    names = ("fedannot", "nvflare", "monai", "torch")
    installed = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    if wrong:
        mend = "pip install -c constraints.txt -e . in fedannot's folder, in this environment"
        yield Point("versions", State.PROBLEM, "; ".join(wrong), mend)
    else:
        yield Point("versions", State.READY, f"Python {platform.python_version()}, {installed}")


def check_python(_: Kit) -> Iterator[Point]:
    """Will the kit's start script, which takes whatever is called python3, find this environment?"""
    found = shutil.which("python3")
    environment = Path(sys.prefix)
    if found is not None and Path(found).parent == environment / "bin":
        yield Point("python3", State.READY, found)
    else:
        mend = f"Before startup/start.sh: source {environment}/bin/activate"
        yield Point("python3", State.PROBLEM, f"startup/start.sh would take {found}, without fedannot", mend)


def check_gpu(kit: Kit) -> Iterator[Point]:
    """Is there a GPU to train on?"""
    if kit.role == "server":
        return
    import torch

    if not torch.cuda.is_available():
        mend = "If there is one: is PyTorch's CUDA build installed, and does nvidia-smi show it?"
        yield Point("GPU", State.WARNING, "none; training takes the processor", mend)
        return
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        name = torch.cuda.get_device_name(index)
        yield Point("GPU", State.READY, f"{name}, {free / _GIB:.0f} of {total / _GIB:.0f} GiB free")


def check_disk(kit: Kit) -> Iterator[Point]:
    """Is there room, and does what is to last lie where it lasts?"""
    free = shutil.disk_usage(kit.folder).free
    found = f"{free / _GIB:.0f} GiB free at {kit.folder}"
    if not os.access(kit.folder, os.W_OK):
        yield Point("disk", State.PROBLEM, f"{kit.folder} cannot be written to", "Start as the user who owns the kit.")
    elif free < _LEAST_SPACE:
        yield Point("disk", State.PROBLEM, found, "Prepared images, models and logs go there: make room.")
    elif free < _ENOUGH_SPACE:
        yield Point("disk", State.WARNING, found, "Prepared images, models and logs go there.")
    else:
        yield Point("disk", State.READY, found)
    if kit.role == "server":
        components = {entry.get("id"): entry for entry in kit.effective("resources.json").get("components", [])}
        store = str(components.get("job_manager", {}).get("args", {}).get("uri_root", ""))
        # A trial in a temporary folder knows what it does.
        temporary = Path(tempfile.gettempdir()) in Path(store).parents and kit.folder not in Path(store).parents
        if temporary:
            mend = f"fedannot deploy prepare {kit.folder}"
            yield Point("job store", State.WARNING, f"{store}, which a restart may empty", mend)
        else:
            yield Point("job store", State.READY, store)


_CHECKS: tuple[Callable[[Kit], Iterator[Point]], ...] = (
    check_versions,
    check_python,
    check_certificate,
    check_server_address,
    check_allow_list,
    check_policies,
    check_data,
    check_gpu,
    check_disk,
)
