"""Does the participant on this machine run, and is it connected? Cheap enough to be asked every half minute."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from cryptography import x509

from ..wording.shell_words import shell_word
from .check_points import Point, State, disk_point
from .startup_kit import Kit, KitError

_PID_FILE = "pid.fl"
_PROGRAMS = {
    "server": "nvflare.private.fed.app.server.server_train",
    "relay": "nvflare.private.fed.app.relay.relay",
    "site": "nvflare.private.fed.app.client.client_train",
}
_EXPIRES_SOON = timedelta(days=30)
_SECONDS = 1.0


def check_health(folder: Path) -> list[Point]:
    """Check the process, its connection, the certificate's end and the disk; nothing is changed, and nothing is sent.

    Args:
        folder: the kit of the server, a relay or a site, on the machine on which it runs.

    Raises:
        KitError: if it is no such kit.
    """
    kit = Kit.open(folder)
    certificates = [_certificate_point(kit, "certificate")]
    if kit.role == "relay":
        certificates.append(_certificate_point(kit, "certificate as listener", of_listener=True))
    return [*_check_process(kit), *certificates, disk_point(kit.folder)]


def _check_process(kit: Kit) -> Iterator[Point]:
    process = _process(kit)
    if process is None:
        start = f"bash {shell_word(kit.startup / 'start.sh')}"
        remedy = f"{start}, or systemctl restart; the reason is at the end of {kit.folder}/log.txt"
        yield Point("process", State.PROBLEM, "none runs with this kit", remedy)
        return
    if process.status() == psutil.STATUS_STOPPED:
        yield Point("process", State.PROBLEM, f"{process.pid} is stopped", f"kill -CONT {process.pid}")
        return
    since = datetime.fromtimestamp(process.create_time(), UTC)
    yield Point("process", State.READY, f"{process.pid}, since {since:%Y-%m-%d %H:%M} UTC")
    if kit.role != "site":
        yield _listening_point(kit)
    if kit.role != "server":
        yield _connection_point(kit, process)


def _process(kit: Kit) -> psutil.Process | None:
    """The participant's process: by the number that the start script has kept, else by the command line.

    A process that was started with the number of one that is gone is another program's.
    """
    candidates: list[psutil.Process] = []
    try:
        candidates.append(psutil.Process(int((kit.folder / _PID_FILE).read_text(encoding="utf-8"))))
    except (OSError, ValueError, psutil.Error):
        # In the foreground (--once) the script keeps no number.
        candidates += psutil.process_iter()
    return next((process for process in candidates if _is_of(kit, process)), None)


def _is_of(kit: Kit, process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
        if _PROGRAMS[kit.role] not in words or process.status() == psutil.STATUS_ZOMBIE:
            return False
        workspace = words[words.index("-m", words.index(_PROGRAMS[kit.role])) + 1]
    except (psutil.Error, ValueError, IndexError):
        return False
    return Path(workspace).resolve() == kit.folder


def _listening_point(kit: Kit) -> Point:
    """At the server or a relay: does its port take connections? What is sent over them is not looked at."""
    port = kit.listens_at.port
    try:
        with socket.create_connection(("localhost", port), _SECONDS):
            return Point("port", State.READY, f"{port} takes connections")
    except OSError as error:
        return Point("port", State.PROBLEM, f"{port}: {error}", f"The reason is at the end of {kit.folder}/log.txt")


def _connection_point(kit: Kit, process: psutil.Process) -> Point:
    """At a site or a relay: has its process a connection to the port of the server or relay, which has answered?"""
    address = kit.connects_to
    host, port = address.host, address.port
    try:
        connections = process.net_connections(kind="tcp")
    except psutil.Error as error:
        return Point("connection", State.WARNING, f"cannot be looked at: {error}", "Ask as the user who runs it.")
    for connection in connections:
        if connection.status == psutil.CONN_ESTABLISHED and connection.raddr and connection.raddr.port == port:
            return Point("connection", State.READY, f"to {host}:{port}")
    remedy = f"It tries again by itself. Is the {address.participant} up, and may this machine connect to that port?"
    return Point("connection", State.PROBLEM, f"none to {host}:{port}", remedy)


def _certificate_point(kit: Kit, what: str, *, of_listener: bool = False) -> Point:
    file = kit.certificate("certificate", of_listener=of_listener)
    try:
        end = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise KitError(f"{file} cannot be read: {error}") from error
    left, renew = end - datetime.now(UTC), "Ask the operator for a new kit (docs/deployment.md, renewal)."
    result = f"valid to {end:%Y-%m-%d}"
    if left < timedelta():
        return Point(what, State.PROBLEM, f"{result}: expired", renew)
    if left < _EXPIRES_SOON:
        return Point(what, State.WARNING, f"{result}: {left.days} days left", renew)
    return Point(what, State.READY, result)
