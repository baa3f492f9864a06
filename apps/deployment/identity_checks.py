"""Who the participant is, and whom it will talk to: certificate, server, clock."""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from .check_points import Point, State
from .kit import Kit
from .startup_kit import Address

_TIMEOUT = 10.0
_EXPIRES_SOON = timedelta(days=30)
_LARGEST_CLOCK_DIFFERENCE = timedelta(minutes=5)


def check_certificate(kit: Kit) -> Iterator[Point]:
    """Is the certificate the authority's, valid now, and does the private key belong to it? A relay has two."""
    yield _certificate_point(kit, "certificate")
    if kit.role == "relay":
        yield _certificate_point(kit, "certificate as listener", of_listener=True)


def _certificate_point(kit: Kit, what: str, *, of_listener: bool = False) -> Point:
    again = "Ask the operator for a new kit."
    try:
        files = [kit.certificate(name, of_listener=of_listener) for name in ("certificate", "key", "authority")]
        certificate, authority = (x509.load_pem_x509_certificate(file.read_bytes()) for file in (files[0], files[2]))
        key = load_pem_private_key(files[1].read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        return Point(what, State.PROBLEM, f"cannot be read: {error}", again)
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(names[0].value) if names else "nobody"
    if key.public_key() != certificate.public_key():
        return Point(what, State.PROBLEM, f"{files[1]} is not the key of {files[0]}", again)
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return Point(what, State.PROBLEM, f"{files[0]} is not signed by {files[2]}", again)
    now, start, end = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    period = f"{name}, valid {start:%Y-%m-%d} to {end:%Y-%m-%d}"
    if now < start:
        result = f"{period}, but this machine's clock says {now:%Y-%m-%d %H:%M} UTC"
        return Point(what, State.PROBLEM, result, "Set the clock right.")
    if now > end:
        return Point(what, State.PROBLEM, f"{period}: expired", again)
    if now > end - _EXPIRES_SOON:
        return Point(what, State.WARNING, f"{period}: expires soon", again)
    return Point(what, State.READY, period)


def check_addresses(kit: Kit) -> Iterator[Point]:
    """Is the participant reached by a name that it can prove, and does it reach the server, or the relay before it?"""
    if kit.role != "site":
        yield _own_name_point(kit)
    if kit.role == "relay":
        yield from _protection_points("protection as listener", kit.listens_at)
    if kit.role != "server":
        yield from _protection_points("protection", kit.connects_to)
        yield from _check_connection(kit)


def _protection_points(what: str, address: Address) -> Iterator[Point]:
    """Do both sides of connections prove who they are, and can nobody on the way read? NVFlare needs neither."""
    if address.security == "mtls":
        return
    whose = "the server" if address.participant == "server" else "the relay's listening_host"
    found = f"connections to {address.host}:{address.port} have connection_security {address.security!r}, not 'mtls'"
    remedy = f"Do not start: provision again with connection_security: mtls of {whose} (docs/deployment.md, Relays)."
    yield Point(what, State.PROBLEM, found, remedy)


def _check_connection(kit: Kit) -> Iterator[Point]:
    """Does the name lead to a machine that answers, proves that name, and has the same time?"""
    address = kit.connects_to
    what, host, port = address.participant, address.host, address.port
    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError as error:
        remedy = "Is the name right? Ask the operator; a name for this machine alone goes into its hosts file."
        yield Point(what, State.PROBLEM, f"{host} is not known: {error}", remedy)
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
        remedy = "That is another server, or the kit is of another federation. Do not start; ask the operator."
        yield Point(what, State.PROBLEM, f"{where} shows a wrong certificate: {error.verify_message}", remedy)
        return
    except ssl.SSLError as error:
        remedy = "Something between here and there breaks TLS, or the port is another program's. Ask the operator."
        yield Point(what, State.PROBLEM, f"{where} does not speak TLS with this kit: {error.reason or error}", remedy)
        return
    except OSError as error:
        remedy = "Started later? Else a firewall: this machine must be allowed to connect to that port."
        yield Point(what, State.WARNING, f"{where} does not answer: {error}", remedy)
        return
    yield from _check_clock(host, port, context)


def _own_name_point(kit: Kit) -> Point:
    """At the server or a relay: is it reached by a name that its certificate proves?"""
    address = kit.listens_at
    what, host = "server" if kit.role == "server" else "own name", address.host
    try:
        certificate = x509.load_pem_x509_certificate(kit.certificate("certificate", of_listener=True).read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        known = [str(name.value) for name in names.value]
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        return Point(what, State.PROBLEM, f"the certificate names no host: {error}", "Provision the project again.")
    if host not in known:
        by_what = "the server's name" if kit.role == "server" else "listening_host.default_host"
        remedy = f"Provision with the host name under which sites reach this machine as {by_what}."
        return Point(what, State.PROBLEM, f"{host} is not in the certificate, which has {known}", remedy)
    return Point(what, State.READY, f"sites reach it as {host}:{address.port}")


def _check_clock(host: str, port: int, context: ssl.SSLContext) -> Iterator[Point]:
    """Compare with the clock of the server or relay."""
    server_clock = server_time(host, port, context)
    if server_clock is None:
        yield Point("clock", State.READY, "within the certificate's period; the other side does not tell its time")
        return
    difference = abs(datetime.now(UTC) - server_clock)
    result = f"{difference.total_seconds():.0f} s from that of {host}"
    if difference > _LARGEST_CLOCK_DIFFERENCE:
        yield Point("clock", State.PROBLEM, result, "Set the clock right, by NTP for instance.")
    else:
        yield Point("clock", State.READY, result)


def server_time(host: str, port: int, context: ssl.SSLContext, timeout: float = _TIMEOUT) -> datetime | None:
    """Return what the server's clock says, to the second, by its answer to a plain request, whatever it answers.

    Args:
        host: the server's name.
        port: its port.
        context: with the certificates of a kit.
        timeout: seconds to wait.

    Returns:
        The time; None if there is no answer, or none with a time.
    """
    try:
        with urllib.request.urlopen(f"https://{host}:{port}/", timeout=timeout, context=context) as answer:
            server_clock = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        server_clock = error.headers.get("Date")
    except OSError:
        return None
    return None if server_clock is None else parsedate_to_datetime(server_clock)
