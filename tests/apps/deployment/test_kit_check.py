"""Every point of the check, on kits in which that point is wrong."""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.deployment import check_points, identity_checks, machine_checks
from fedannot.apps.deployment.check_points import Point, State
from fedannot.apps.deployment.kit import Kit, KitError, prepare_kit
from fedannot.apps.deployment.kit_check import check_kit
from fedannot.apps.deployment.policy_checks import check_minimum, check_policies
from fedannot.custom.data.location import DATA_VARIABLE
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.run.threads import THREADS_VARIABLE

CONFIGS = Path(__file__).parents[3] / "site_configs"
DAY = timedelta(days=1)

MakeKit = Callable[..., Path]
Check = Callable[[Kit], Iterator[Point]]


def only(check: Check, folder: Path) -> Point:
    (point,) = check(Kit.open(folder))
    return point


@pytest.mark.parametrize(
    ("period", "state", "found"),
    [
        ({}, State.READY, "hospital-1, valid "),
        ({"end": 5 * DAY}, State.WARNING, "expires soon"),
        ({"start": -9 * DAY, "end": -DAY}, State.PROBLEM, "expired"),
        ({"start": DAY}, State.PROBLEM, "but this machine's clock says"),
    ],
)
def test_a_certificates_period(make_kit: MakeKit, period: dict[str, timedelta], state: State, found: str) -> None:
    point = only(identity_checks.check_certificate, make_kit(**period))
    assert point.state == state
    assert found in point.found


def test_a_certificate_of_another_authority(make_kit: MakeKit, other_authority: Any, tmp_path: Path) -> None:
    folder = make_kit()
    other_authority.write(tmp_path / "other", "client", "hospital-1")
    (folder / "startup" / "rootCA.pem").write_bytes((tmp_path / "other" / "rootCA.pem").read_bytes())
    point = only(identity_checks.check_certificate, folder)
    assert (point.state, point.remedy) == (State.PROBLEM, "Ask the operator for a new kit.")
    assert "is not signed by" in point.found


def test_a_key_of_another_certificate(make_kit: MakeKit) -> None:
    folder, other = make_kit(), make_kit("hospital-2")
    (folder / "startup" / "client.key").write_bytes((other / "startup" / "client.key").read_bytes())
    assert "is not the key of" in only(identity_checks.check_certificate, folder).found
    (folder / "startup" / "client.key").write_text("-----")
    assert "cannot be read" in only(identity_checks.check_certificate, folder).found


def test_the_right_server_and_its_clock(make_kit: MakeKit, tls_server: SimpleNamespace) -> None:
    kit = Kit.open(make_kit(target=f"localhost:{tls_server.port}"))
    server, clock = identity_checks.check_addresses(kit)
    assert (server.state, clock.state) == (State.READY, State.READY)
    assert "answers, TLSv1" in server.found
    tls_server.date = datetime.now(UTC) - timedelta(hours=2)
    _, clock = identity_checks.check_addresses(kit)
    assert clock.state == State.PROBLEM
    assert 7190 < float(clock.found.split()[0]) < 7220


def test_a_server_of_another_name(make_kit: MakeKit, tls_server: SimpleNamespace) -> None:
    point = only(identity_checks.check_addresses, make_kit(target=f"127.0.0.1:{tls_server.port}"))
    assert point.state == State.PROBLEM
    assert "shows a wrong certificate: IP address mismatch" in point.found


def test_a_server_of_another_federation(
    make_kit: MakeKit, tls_server: SimpleNamespace, other_authority: Any, tmp_path: Path
) -> None:
    folder = make_kit(target=f"localhost:{tls_server.port}")
    other_authority.write(tmp_path / "other", "client", "hospital-1")
    for name in ("client.crt", "client.key", "rootCA.pem"):
        (folder / "startup" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    point = only(identity_checks.check_addresses, folder)
    assert point.state == State.PROBLEM
    assert "shows a wrong certificate" in point.found


def test_a_server_that_is_not_there(make_kit: MakeKit) -> None:
    assert only(identity_checks.check_addresses, make_kit(target="localhost:1")).state == State.WARNING
    unknown = only(identity_checks.check_addresses, make_kit("b", target="nobody.invalid:8002"))
    assert unknown.state == State.PROBLEM
    assert "nobody.invalid is not known" in unknown.found


def test_a_servers_own_name(make_kit: MakeKit) -> None:
    assert only(identity_checks.check_addresses, make_kit("localhost", role="server")).state == State.READY
    other = only(identity_checks.check_addresses, make_kit("fl.hospital.org", role="server", target="localhost:1"))
    assert (other.state, other.found) == (
        State.PROBLEM,
        "localhost is not in the certificate, which has ['fl.hospital.org']",
    )


def test_policies_before_and_after_preparation(make_kit: MakeKit) -> None:
    folder = make_kit()
    result = {point.what: point for point in check_policies(Kit.open(folder))}
    assert set(result) == {
        "check at start",
        "approved jobs",
        "allow-list",
        "code in jobs",
        "files and logs",
        "who operates it",
        "logs",
        "private log",
        "outbound filter",
    }
    assert {point.state for point in result.values()} == {State.PROBLEM}
    assert all(point.remedy == f"fedannot deploy prepare {folder}" for point in result.values())
    prepare_kit(folder, CONFIGS)
    assert {point.state for point in check_policies(Kit.open(folder))} == {State.READY}


def changed(folder: Path, name: str, change: Callable[[Any], None]) -> None:
    """Change a file of a prepared kit by hand."""
    file = folder / "local" / name
    values = json.loads(file.read_text(encoding="utf-8"))
    change(values)
    file.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "change", "what", "said"),
    [
        ("resources.json", lambda r: r["class_allow_list"].append("*"), "allow-list", "any installed class"),
        ("resources.json", lambda r: r.update(class_list_enforcement_mode="warn"), "allow-list", "any installed class"),
        # As kits were prepared before jobs were approved.
        ("resources.json", lambda r: r["class_allow_list"].append("fedannot.custom.flare."), "allow-list", "1 entries"),
        ("resources.json", lambda r: r["class_allow_list"].pop(), "allow-list", "approved jobs may not use"),
        ("resources.json", lambda r: r["components"].pop(), "approved jobs", "any job runs here"),
        ("resources.json", lambda r: r.pop("allow_log_streaming"), "logs", "are sent, or written as others"),
        ("approved_jobs.json", lambda a: a.update(fedannot="0.0.1"), "approved jobs", "those of fedannot 0.0.1"),
        ("approved_jobs.json", lambda a: a.update(jobs=[]), "approved jobs", "jobs"),
        ("limits.json", lambda a: a.update(rounds=5), "approved jobs", "rounds"),
        ("authorization.json", lambda a: a["permissions"].update(project_admin="any"), "code in jobs", "project_admin"),
        ("authorization.json", lambda a: a["permissions"].update(project_admin="any"), "files and logs", "project_adm"),
        (
            "authorization.json",
            lambda a: a["permissions"]["lead"].update(shell_commands="o:site"),
            "files and logs",
            "open to lead",
        ),
        (
            "authorization.json",
            lambda a: a["permissions"]["lead"].pop("configure_job_log"),
            "files and logs",
            "open to lead",
        ),
        # As kits were prepared before the researcher had an organisation of its own.
        (
            "authorization.json",
            lambda a: a["permissions"]["lead"].update(operate="o:site"),
            "who operates it",
            "open to lead",
        ),
        (
            "authorization.json",
            lambda a: a["permissions"]["org_admin"].update(operate="any"),
            "who operates it",
            "open to org_admin",
        ),
        (
            "authorization.json",
            lambda a: a["permissions"]["member"].update(restart="n:somebody@elsewhere.org"),
            "who operates it",
            "open to member",
        ),
        # A name that is written out, where nobody here has it.
        (
            "authorization.json",
            lambda a: a["permissions"]["lead"].update(shell_commands="o:research"),
            "files and logs",
            "open to lead",
        ),
        # As kits were prepared before there was a private log.
        (
            "log_config.json",
            lambda c: c["handlers"]["site"].update({"class": "logging.handlers.RotatingFileHandler"}),
            "private log",
            "may hold names of files",
        ),
        ("log_config.json", lambda c: c["loggers"]["root"]["handlers"].append("nvflare"), "private log", "may hold"),
        (
            "log_config.json",
            lambda c: c["loggers"].update(fedannot={"handlers": ["console"]}),
            "private log",
            "may hold",
        ),
        # A second scope, which is not the default one.
        ("privacy.json", lambda p: p["scopes"].append({"name": "swarm"}), "outbound filter", "in the scope swarm"),
        ("privacy.json", lambda p: p.pop("default_scope"), "outbound filter", "only jobs that have it"),
    ],
)
def test_a_kit_that_lets_more_through_is_not_ready(
    make_kit: MakeKit, name: str, change: Callable[[Any], None], what: str, said: str
) -> None:
    folder = make_kit()
    prepare_kit(folder, CONFIGS)
    changed(folder, name, change)
    points = {point.what: point for point in check_policies(Kit.open(folder))}
    assert (points[what].state, said in points[what].found) == (State.PROBLEM, True), points[what]


def operators(folder: Path) -> tuple[State, str]:
    """What the check says of who operates a participant."""
    (point,) = (point for point in check_policies(Kit.open(folder)) if point.what == "who operates it")
    return point.state, point.found


@pytest.mark.parametrize("operate", ["o:site", "any", "o:coordinator", "n:lead@research.org", ["not o:research"]])
def test_nobody_but_the_project_administrator_operates_the_server(make_kit: MakeKit, operate: Any) -> None:
    """Whatever organisation and name somebody has."""
    folder = make_kit("localhost", role="server")
    prepare_kit(folder, CONFIGS)
    assert operators(folder) == (State.READY, "project_admin alone")
    for role in ("lead", "org_admin", "member"):
        changed(folder, "authorization.json", lambda a, role=role: a["permissions"][role].update(operate=operate))
    state, result = operators(folder)
    assert (state, result.startswith("open to lead, member, org_admin")) == (State.PROBLEM, True), result


def test_an_administrator_of_a_sites_own_organisation_may_operate_it(make_kit: MakeKit) -> None:
    folder = make_kit()
    prepare_kit(folder, CONFIGS)
    assert operators(folder) == (State.READY, "project_admin, and org_admin of its own organisation")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda limits: None, ""),
        # Of a kit that was prepared before, and counts as one with the defaults.
        (lambda limits: limits.pop("smallest"), ""),
        (lambda limits: limits["smallest"].update(min_sites=2), "min_sites 2, by default 3"),
        (lambda limits: limits["smallest"].update(patients=1, samples_per_step=9), "patients 1, by default 3"),
        (lambda limits: limits.update(largest_share=1), "largest_share 1, by default 0.5"),
        (lambda limits: limits.update(models_to_sites=True), "models_to_sites true, by default false"),
    ],
)
def test_a_minimum_below_the_default_is_said(make_kit: MakeKit, change: Callable[[Any], None], said: str) -> None:
    folder = make_kit()
    prepare_kit(folder, CONFIGS)
    changed(folder, "limits.json", change)
    point = only(check_minimum, folder)
    assert point.state == (State.WARNING if said else State.READY)
    assert said in point.found


def test_where_the_server_keeps_jobs(make_kit: MakeKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks.tempfile, "gettempdir", lambda: "/tmp")
    folder = make_kit("localhost", role="server")
    _, store = machine_checks.check_disk(Kit.open(folder))
    assert (store.state, store.found) == (State.WARNING, "/tmp/jobs, which a restart may empty")
    prepare_kit(folder, CONFIGS)
    _, store = machine_checks.check_disk(Kit.open(folder))
    assert (store.state, store.found) == (State.READY, str(folder / "storage" / "jobs"))


@pytest.mark.parametrize(("free", "state"), [(2**29, State.PROBLEM), (5 * 2**30, State.WARNING), (2**40, State.READY)])
def test_room_on_the_disk(make_kit: MakeKit, monkeypatch: pytest.MonkeyPatch, free: int, state: State) -> None:
    monkeypatch.setattr(check_points.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert only(machine_checks.check_disk, make_kit()).state == state


def test_versions(make_kit: MakeKit, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_kit()
    assert only(machine_checks.check_versions, folder).state == State.READY
    needed = ["nvflare<2", "no-such-package>=1", "pytest>=8; extra == 'dev'"]
    monkeypatch.setattr(machine_checks.importlib.metadata, "requires", lambda _: needed)
    point = only(machine_checks.check_versions, folder)
    assert point.state == State.PROBLEM
    assert point.found == "nvflare 2.9.0, expected <2; no-such-package is not installed"


def test_the_python_that_the_start_script_takes(
    make_kit: MakeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = make_kit(), tmp_path / "bin" / "python3"
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin")
    assert only(machine_checks.check_python, folder).state == State.READY
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    point = only(machine_checks.check_python, folder)
    assert point.state == State.PROBLEM
    assert str(other) in point.found


def test_data_of_a_site(make_kit: MakeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    folder = make_kit()
    assert "local/data.yaml" in only(machine_checks.check_data, folder).found
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=1, seed=0, images_per_site=3)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data" / "site-1"))
    point = only(machine_checks.check_data, folder)
    assert (point.state, point.found) == (State.READY, "usable: 3 of 3 training")
    for image in (tmp_path / "data" / "site-1" / "images").iterdir():
        image.write_bytes(b"")
    assert only(machine_checks.check_data, folder).state == State.PROBLEM


def test_the_servers_test_set(make_kit: MakeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    folder = make_kit("localhost", role="server")
    assert only(machine_checks.check_data, folder).state == State.READY
    (folder / "local" / "data.yaml").write_text("datalist: /nowhere/list.json\n")
    assert only(machine_checks.check_data, folder).state == State.PROBLEM
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=1, images_per_site=1, test_images=3)
    test = tmp_path / "data" / "test"
    text = (test / "data.yaml").read_text().replace("datalist: datalist.json", f"datalist: {test / 'datalist.json'}")
    (folder / "local" / "data.yaml").write_text(text)
    point = only(machine_checks.check_data, folder)
    assert (point.state, point.found) == (State.READY, "usable: 3 of 3 testing")
    sorted((test / "images").iterdir())[0].write_bytes(b"")
    point = only(machine_checks.check_data, folder)
    assert (point.state, "usable: 2 of 3 testing" in point.found) == (State.WARNING, True)


def test_threads_are_the_participants(make_kit: MakeKit, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_kit()
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert only(machine_checks.check_threads, folder).found.startswith("3 of PyTorch in a process, ")
    monkeypatch.delenv(THREADS_VARIABLE)
    (folder / "local" / "compute.json").write_text('{"threads": 5}')
    assert only(machine_checks.check_threads, folder).found.startswith("5 of PyTorch in a process, ")
    (folder / "local" / "compute.json").write_text('{"threads": "all"}')
    point = only(machine_checks.check_threads, folder)
    assert point.state == State.PROBLEM
    assert "compute.json" in point.found


def test_what_is_no_kit(tmp_path: Path) -> None:
    with pytest.raises(KitError, match="Expected the startup kit of a server, a relay or a site"):
        check_kit(tmp_path)


def test_the_command_ends_with_1_where_something_is_wrong(make_kit: MakeKit, tmp_path: Path) -> None:
    folder = make_kit()
    result = CliRunner().invoke(app, ["deploy", "check", str(folder)])
    assert result.exit_code == 1
    assert "Not ready." in result.output
    assert f"→ fedannot deploy prepare {folder}" in result.output.replace("\n", "")
