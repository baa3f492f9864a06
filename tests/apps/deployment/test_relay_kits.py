"""The kit of a relay, and that of a site behind it."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.deployment.check_points import State
from fedannot.apps.deployment.health import check_health
from fedannot.apps.deployment.identity_checks import check_addresses, check_certificate
from fedannot.apps.deployment.kit import Kit, KitError, approve_job, prepare_kit
from fedannot.apps.deployment.kit_check import check_kit
from fedannot.apps.deployment.startup_kit import Address

MakeKit = Callable[..., Path]


@pytest.fixture
def make_relay(tmp_path: Path, authority: Any) -> MakeKit:
    """Return a function that makes the kit of a relay, as NVFlare's provisioning lays it out."""

    def make(connects_to: str = "localhost:1", fqcn: str = "server", host: str = "localhost", port: int = 2) -> Path:
        folder = tmp_path / "kits" / "relay-1"
        authority.write(folder / "startup", "client", "relay-1")
        authority.write(folder / "startup", "server", "relay-1", host="localhost")
        security = {"connection_security": "mtls"}
        entry = {"scheme": "grpc", "identity": "any", "address": connects_to, "fqcn": fqcn} | security
        (folder / "startup" / "fed_relay.json").write_text(json.dumps({"identity": "relay-1", "connect_to": entry}))
        (folder / "local").mkdir()
        listener = {"internal": {"scheme": "grpc", "resources": {"host": host, "port": port} | security}}
        (folder / "local" / "comm_config.json").write_text(json.dumps(listener))
        return folder

    return make


def behind_a_relay(site: Path, address: str) -> Path:
    entry = {"scheme": "grpc", "identity": "relay-1", "address": address, "fqcn": "relay-1"}
    (site / "local" / "relay__resources.json").write_text(json.dumps({"relay_config": entry}))
    return site


def test_who_connects_to_whom(make_kit: MakeKit, make_relay: MakeKit) -> None:
    site = make_kit(target="server.org:8002")
    assert Kit.open(site).connects_to == Address("server", "server.org", 8002)
    assert Kit.open(behind_a_relay(site, "relay.org:8003")).connects_to == Address("relay", "relay.org", 8003)
    relay = make_relay("server.org:8002", host="relay.org", port=8003)
    assert (Kit.open(relay).role, Kit.open(relay).connects_to) == ("relay", Address("server", "server.org", 8002))
    assert Kit.open(relay).listens_at == Address("relay", "relay.org", 8003)
    server = make_kit("server", role="server", target="server.org:8002")
    assert Kit.open(server).listens_at == Address("server", "server.org", 8002)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"relay_config": {"address": "relay.org", "fqcn": "relay-1"}}',
        '{"relay_config": {"address": ":8003", "fqcn": "relay-1"}}',
        '{"relay_config": {"address": "relay.org:80030", "fqcn": "relay-1"}}',
    ],
)
def test_a_relays_address_that_cannot_be_read_names_its_file(make_kit: MakeKit, content: str) -> None:
    site = make_kit()
    (site / "local" / "relay__resources.json").write_text(content)
    with pytest.raises(KitError, match=r"relay__resources\.json: expected"):
        _ = Kit.open(site).connects_to


@pytest.mark.parametrize("changed", [{"port": 0}, {"port": 65536}, {"port": "any"}, {"host": ""}, {"host": None}])
def test_a_place_at_which_no_relay_listens_names_its_file(make_relay: MakeKit, changed: dict[str, Any]) -> None:
    with pytest.raises(KitError, match=r"comm_config\.json: expected internal\.resources\.host"):
        _ = Kit.open(make_relay(**changed)).listens_at


def test_an_address_of_version_6_has_no_brackets(make_kit: MakeKit) -> None:
    site = behind_a_relay(make_kit(), "[::1]:8003")
    assert Kit.open(site).connects_to == Address("relay", "::1", 8003)


def rewrite(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize("new", ["", ', "connection_security": "clear"', ', "connection_security": "tls"'])
def test_a_relay_that_listens_without_mutual_tls_is_a_problem(make_relay: MakeKit, new: str) -> None:
    """Without a word NVFlare takes connections in clear text."""
    relay = make_relay()
    rewrite(relay / "local" / "comm_config.json", ', "connection_security": "mtls"', new)
    points = {point.what: point for point in check_addresses(Kit.open(relay))}
    assert points["protection as listener"].state == State.PROBLEM
    assert "protection" not in points


def test_connections_without_mutual_tls_are_a_problem(make_relay: MakeKit, make_kit: MakeKit) -> None:
    """NVFlare writes ``None`` where the server's entry says nothing: then the relay does not ask who the server is."""
    relay = make_relay()
    rewrite(relay / "startup" / "fed_relay.json", '"mtls"', '"None"')
    site = behind_a_relay(make_kit(), "localhost:2")
    rewrite(site / "local" / "relay__resources.json", '"fqcn"', '"connection_security": "clear", "fqcn"')
    for kit, whose in ((relay, "the server"), (site, "the relay's listening_host")):
        (point,) = [point for point in check_addresses(Kit.open(kit)) if point.what == "protection"]
        assert point.state == State.PROBLEM
        assert f"connection_security: mtls of {whose}" in point.remedy


def test_a_relays_kit_is_closed_and_has_no_policies(make_relay: MakeKit, tmp_path: Path) -> None:
    relay = make_relay()
    (relay / "startup" / "client.key").chmod(0o644)
    before = set(relay.rglob("*"))
    assert prepare_kit(relay) == []
    assert set(relay.rglob("*")) == before
    assert [file for file in (relay, *relay.rglob("*")) if file.stat().st_mode & 0o077] == []
    with pytest.raises(KitError, match="is a relay's kit; data are described at the sites"):
        prepare_kit(relay, data=tmp_path / "data.yaml")
    with pytest.raises(KitError, match="a relay runs no jobs"):
        approve_job(relay, "mine", SimpleNamespace())  # type: ignore[arg-type]


def test_the_check_of_a_relay(
    make_relay: MakeKit, tls_server: SimpleNamespace, other_authority: Any, tmp_path: Path
) -> None:
    relay = make_relay(f"localhost:{tls_server.port}")
    prepare_kit(relay)
    points = {point.what: point for point in check_kit(relay)}
    assert {"certificate", "certificate as listener", "own name", "server", "disk"} <= points.keys()
    assert not {"data", "approved jobs", "GPU"} & points.keys()
    assert points["own name"].found == "sites reach it as localhost:2"
    assert points["server"].state == State.READY
    other_authority.write(tmp_path / "other", "server", "relay-1", host="elsewhere.org")
    for name in ("server.crt", "server.key"):
        (relay / "startup" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    assert [point.state for point in check_certificate(Kit.open(relay))] == [State.READY, State.PROBLEM]
    own_name = next(check_addresses(Kit.open(relay)))
    assert own_name.found == "localhost is not in the certificate, which has ['elsewhere.org']"
    assert "listening_host.default_host" in own_name.remedy
    result = CliRunner().invoke(app, ["deploy", "check", str(relay)])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, "Not ready.")


def test_a_site_behind_a_relay_is_checked_against_the_relay(make_kit: MakeKit, tls_server: SimpleNamespace) -> None:
    """Its server answers nobody here."""
    site = behind_a_relay(make_kit(target="server.invalid:8002"), f"localhost:{tls_server.port}")
    point, _ = check_addresses(Kit.open(site))
    assert (point.what, point.state) == ("relay", State.READY)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_the_health_of_a_relay(make_relay: MakeKit, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process takes connections, and has one to what it connects to."""
    port = listener.getsockname()[1]
    relay = make_relay(f"localhost:{port}", port=port)
    assert {point.what for point in check_health(relay)} == {
        "process",
        "certificate",
        "certificate as listener",
        "disk",
    }
    with socket.create_connection(("127.0.0.1", port)):
        monkeypatch.setattr("fedannot.apps.deployment.health._process", lambda kit: psutil.Process())
        points = {point.what: point for point in check_health(relay)}
    assert points["port"].found == f"{port} takes connections"
    assert points["connection"].found == f"to localhost:{port}"
