"""Keys and decisions are their owner's alone, with whatever umask they were made."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.deployment import private_files
from fedannot.apps.deployment.check_points import Point, State
from fedannot.apps.deployment.kit import KitError, prepare_kit
from fedannot.apps.deployment.kit_check import check_kit, is_ready
from fedannot.apps.deployment.private_files import check_kits_files, check_other_folder
from fedannot.custom.approval.approved import read_approved, write_approved

CONFIGS = Path(__file__).parents[3] / "site_configs"

MakeKit = Callable[..., Path]


@pytest.fixture(params=[0o022, 0o000, 0o077], ids=["umask 022", "umask 0", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_paths(folder: Path) -> list[str]:
    """What others have rights on, though it lies behind a folder that is closed."""
    return [str(path) for path in (folder, *folder.rglob("*")) if mode(path) & 0o077]


def test_a_prepared_kit_is_its_owners_alone(make_kit: MakeKit, umask: int) -> None:
    folder = make_kit()
    before = check_kits_files(folder)
    assert before.state == (State.READY if umask == 0o077 else State.PROBLEM)
    assert before.remedy == ("" if umask == 0o077 else f"chmod -R go= {folder}")
    start = folder / "startup" / "start.sh"
    start.write_text("#!/bin/sh\n")
    start.chmod(0o755)
    prepare_kit(folder, CONFIGS)
    assert open_paths(folder) == []
    assert mode(start) == 0o700
    assert check_kits_files(folder) == Point("private files", State.READY, f"{folder} is this user's alone")
    assert mode(folder / "local" / "approved_jobs.json") == 0o600


def test_what_is_approved_later_is_private_too(make_kit: MakeKit, umask: int) -> None:
    del umask
    folder = make_kit()
    prepare_kit(folder, CONFIGS)
    approved = read_approved(folder / "local")
    assert approved is not None
    write_approved(folder / "local", approved)
    assert open_paths(folder) == []


@pytest.mark.parametrize(
    ("path", "opened"),
    [
        ("", 0o755),
        ("", 0o701),
        ("startup/client.key", 0o640),
        ("startup/client.key", 0o604),
        ("local/limits.json", 0o666),
        ("local/approved_jobs.json", 0o644),
        ("fedannot_privacy.json", 0o644),
    ],
)
def test_a_kit_that_others_could_read_is_not_ready(make_kit: MakeKit, path: str, opened: int) -> None:
    folder = make_kit()
    prepare_kit(folder, CONFIGS)
    (folder / "fedannot_privacy.json").write_text("{}")
    (folder / "fedannot_privacy.json").chmod(0o600)
    assert check_kits_files(folder).state == State.READY
    (folder / path).chmod(opened)
    point = check_kits_files(folder)
    assert point.state == State.PROBLEM
    assert f"{folder / path} ({opened:o})" in point.found
    assert not is_ready([point])
    subprocess.run(point.remedy.split(), check=True)
    assert check_kits_files(folder).state == State.READY


def test_a_key_of_another_user(make_kit: MakeKit, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_kit()
    prepare_kit(folder, CONFIGS)
    monkeypatch.setattr(private_files.os, "getuid", lambda: folder.stat().st_uid + 1)
    point = check_kits_files(folder)
    assert point.state == State.PROBLEM
    assert f"belongs to another user ({folder.stat().st_uid})" in point.found


def test_a_kit_that_cannot_be_closed_is_said(make_kit: MakeKit, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_kit()

    def refuse(*_: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(KitError, match="expected a kit of this user, but Operation not permitted"):
        prepare_kit(folder, CONFIGS)


def test_a_link_out_of_the_kit_is_left_as_it_is(make_kit: MakeKit, tmp_path: Path) -> None:
    folder, shared = make_kit(), tmp_path / "shared.yaml"
    shared.write_text("x")
    shared.chmod(0o644)
    (folder / "local" / "transport.yaml").symlink_to(shared)
    prepare_kit(folder, CONFIGS)
    assert mode(shared) == 0o644


@pytest.fixture(scope="module")
def provisioned_for_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What NVFlare's provisioning leaves with a umask of 0."""
    folder = tmp_path_factory.mktemp("made")
    command = [str(Path(sys.executable).parent / "nvflare"), "provision", "-p", str(CONFIGS / "project.yml"), "-w", "."]
    environment = os.environ | {"HOME": str(folder)}
    subprocess.run(command, cwd=folder, env=environment, umask=0, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture(scope="module", params=[0o022, 0o000], ids=["umask 022", "umask 0"])
def provisioned(
    request: pytest.FixtureRequest, provisioned_for_all: Path, tmp_path_factory: pytest.TempPathFactory
) -> SimpleNamespace:
    """The same as it is with a umask, which takes rights away; keys take their time."""
    folder = tmp_path_factory.mktemp("of") / "made"
    shutil.copytree(provisioned_for_all, folder, symlinks=True)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(mode(path) & ~request.param)
    return SimpleNamespace(folder=folder, project=folder / "fedannot")


def test_what_was_provisioned_is_checked_for_who_can_read_it(provisioned: SimpleNamespace) -> None:
    """With the root key anybody makes further kits: NVFlare writes it as any file."""
    for folder in (provisioned.folder, provisioned.project):
        points = {point.what: point for point in check_other_folder(folder) or []}
        assert set(points) == {
            "root key",
            "kit of localhost",
            *(f"kit of hospital-{number}" for number in (1, 2, 3)),
            "kit of admin@coordinator.org",
            "kit of lead@research.org",
        }
        assert {point.state for point in points.values()} == {State.PROBLEM}
        assert "state/cert.json" in points["root key"].found
    account = provisioned.project / "prod_00" / "lead@research.org"
    (point,) = check_kit(account)
    assert point.state == State.PROBLEM
    refused = CliRunner().invoke(app, ["deploy", "check", str(provisioned.folder)])
    assert refused.exit_code == 1
    assert "chmod -R go=" in refused.output
    for point in check_kit(provisioned.folder):
        subprocess.run(point.remedy.split(), check=True)
    assert is_ready(check_kit(provisioned.folder))
    assert is_ready(check_kit(account))
    assert mode(provisioned.project / "state" / "cert.json") == 0o600


def test_a_folder_without_keys_is_none_of_these(tmp_path: Path) -> None:
    assert check_other_folder(tmp_path) is None
    with pytest.raises(KitError, match="Expected the startup kit"):
        check_kit(tmp_path)
