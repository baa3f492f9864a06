"""Startup kits as NVFlare's provisioning lays them out, with certificates of our own, and a server that speaks TLS."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST

DAY = timedelta(days=1)


class Authority:
    """Signs certificates; elliptic curves, since they are made in no time."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._make("authority", self.key.public_key(), "authority", -DAY, 30 * DAY, None)

    def _make(self, name: str, key: Any, issuer: str, start: timedelta, end: timedelta, host: str | None) -> Any:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + start)
            .not_valid_after(now + end)
            .add_extension(x509.BasicConstraints(ca=name == "authority", path_length=None), critical=True)
        )
        if host is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def write(
        self, folder: Path, stem: str, name: str, start: timedelta = -DAY, end: timedelta = 100 * DAY, host: str = ""
    ) -> None:
        """Write a certificate, its key and the authority's certificate."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._make(name, key.public_key(), "authority", start, end, host or None)
        (folder / f"{stem}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
        (folder / f"{stem}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (folder / "rootCA.pem").write_bytes(self.certificate.public_bytes(Encoding.PEM))


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def other_authority() -> Authority:
    """The authority of another federation."""
    return Authority()


@pytest.fixture
def make_kit(tmp_path: Path, authority: Authority) -> Callable[..., Path]:
    """Return a function that makes a kit of a site or of the server."""

    def make(name: str = "hospital-1", target: str = "localhost:1", role: str = "site", **certificate: Any) -> Path:
        folder = tmp_path / "kits" / name
        side, stem = ("server", "server") if role == "server" else ("client", "client")
        authority.write(folder / "startup", stem, name, host=name, **certificate)
        config = {"servers": [{"service": {"target": target, "scheme": "http"}}]}
        (folder / "startup" / f"fed_{side}.json").write_text(json.dumps(config))
        (folder / "local").mkdir()
        resources: dict[str, Any] = {
            "class_list_enforcement_mode": "enforce",
            "class_allow_list": list(DEFAULT_CLASS_ALLOW_LIST),
            "components": [{"id": "process_launcher", "args": {}}],
        }
        if role == "server":
            resources["components"] = [
                {"id": "job_manager", "path": "a.JobManager", "args": {"uri_root": "/tmp/jobs", "store": "job_store"}},
                {"id": "job_store", "args": {}},
            ]
        (folder / "local" / "resources.json.default").write_text(json.dumps(resources))
        rights = {"permissions": {"lead": {"submit_job": "any", "byoc": "any"}}}
        (folder / "local" / "authorization.json.default").write_text(json.dumps(rights))
        return folder

    return make


@pytest.fixture
def tls_server(tmp_path: Path, authority: Authority) -> Iterator[SimpleNamespace]:
    """A server named localhost that wants a certificate of the same authority and tells the time as `date` says."""
    authority.write(tmp_path / "tls", "server", "localhost", host="localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls" / "server.crt", tmp_path / "tls" / "server.key")
    context.load_verify_locations(tmp_path / "tls" / "rootCA.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    state = SimpleNamespace(port=listener.getsockname()[1], date=datetime.now(UTC), stop=False)

    def serve() -> None:
        while not state.stop:
            try:
                plain, _ = listener.accept()
                plain.settimeout(2)
                with context.wrap_socket(plain, server_side=True) as secure:
                    if secure.recv(4096):
                        date = f"{state.date:%a, %d %b %Y %H:%M:%S} GMT"
                        secure.sendall(f"HTTP/1.1 426 no\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n".encode())
            except OSError:
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield state
    state.stop = True
    thread.join(timeout=5)
    listener.close()
