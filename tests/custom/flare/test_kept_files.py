"""What a deployed job names lies in the kit, and nowhere else."""

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.apis.workspace import Workspace

from fedannot.custom.flare.kept_files import earlier_run_folders, model_file, state_file
from fedannot.custom.run.reading import METRICS_FILE
from fedannot.custom.run.state import STATE_FILE, ResumeError

NOW, BEFORE = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"


@pytest.fixture
def at_server(tmp_path: Path) -> Any:
    """The context of a job that `lead` has submitted, in a kit."""
    for folder in ("startup", "local", "models", NOW):
        (tmp_path / folder).mkdir()
    (tmp_path / NOW / "meta.json").write_text(json.dumps({"submitter_name": "lead"}))
    engine = SimpleNamespace(get_workspace=lambda: Workspace(str(tmp_path), "server"))
    return SimpleNamespace(
        get_engine=lambda: engine, get_job_id=lambda: NOW, get_identity_name=lambda: "site-1", root=tmp_path
    )


def running(root: Path, submitter: str) -> Path:
    (root / BEFORE).mkdir()
    (root / BEFORE / "meta.json").write_text(json.dumps({"submitter_name": submitter}))
    (root / BEFORE / STATE_FILE).write_bytes(b"state")
    return root / BEFORE / STATE_FILE


def ended(root: Path, submitter: str, name: str = STATE_FILE) -> None:
    folder = root / "storage" / "jobs" / BEFORE
    folder.mkdir(parents=True)
    (folder / "meta").write_text(json.dumps({"submitter_name": submitter}))
    with zipfile.ZipFile(folder / "workspace", "w") as archive:
        archive.writestr(name, b"stored state")


def test_a_run_is_continued_by_the_id_of_its_job(at_server: Any) -> None:
    state = running(at_server.root, "lead")
    assert state_file(BEFORE, at_server) == state


def test_the_state_of_a_job_that_has_ended_is_in_the_job_store(at_server: Any) -> None:
    ended(at_server.root, "lead")
    result = state_file(BEFORE, at_server)
    assert result.parent == at_server.root / NOW / "resumed"
    assert result.read_bytes() == b"stored state"
    assert [file.name for file in result.parent.iterdir()] == [STATE_FILE]


def test_the_records_of_a_job_that_has_ended_come_with_its_state(at_server: Any) -> None:
    ended(at_server.root, "lead")
    with zipfile.ZipFile(at_server.root / "storage" / "jobs" / BEFORE / "workspace", "a") as archive:
        archive.writestr(METRICS_FILE, b"records")
    records = state_file(BEFORE, at_server).with_name(METRICS_FILE)
    assert (records.read_bytes(), records.stat().st_mode & 0o777) == (b"records", 0o600)
    # Those of this run lie elsewhere.
    assert not (at_server.root / NOW / METRICS_FILE).exists()


def test_a_damaged_job_store_is_refused(at_server: Any) -> None:
    folder = at_server.root / "storage" / "jobs" / BEFORE
    ended(at_server.root, "lead")
    with zipfile.ZipFile(folder / "workspace", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(STATE_FILE, bytes(range(256)) * 99)
    content = bytearray((folder / "workspace").read_bytes())
    at = 30 + len(STATE_FILE)
    content[at : at + 8] = b"\xff" * 8
    (folder / "workspace").write_bytes(content)
    with pytest.raises(ResumeError, match=rf"has no state of job {BEFORE} \(error\)"):
        state_file(BEFORE, at_server)


def test_another_accounts_run_is_not_continued(at_server: Any) -> None:
    """Its result would be downloaded by somebody else."""
    running(at_server.root, "other")
    ended(at_server.root, "other")
    with pytest.raises(ResumeError, match="none that this account has submitted"):
        state_file(BEFORE, at_server)
    assert earlier_run_folders(BEFORE, BEFORE, at_server) == []


def test_a_job_without_a_state(at_server: Any) -> None:
    with pytest.raises(ResumeError, match="none that this account"):
        state_file(BEFORE, at_server)
    ended(at_server.root, "lead", name="other.txt")
    with pytest.raises(ResumeError, match="The job store has no state"):
        state_file(BEFORE, at_server)


def test_in_a_simulator_it_is_a_path(at_server: Any) -> None:
    assert state_file("/runs/fedannot_state.pt", at_server) == Path("/runs/fedannot_state.pt")


def test_a_model_is_one_of_those_in_the_kit(at_server: Any) -> None:
    assert model_file("bundle-1", at_server) == at_server.root / "models" / "bundle-1"
    # Settings with a path do not get into a kit; elsewhere they are one.
    assert model_file("runs/bundle", at_server) == Path("runs/bundle")


@pytest.mark.parametrize("job_id", ["../other", "/etc", "..", "", "a/b"])
def test_a_server_leads_a_site_into_no_other_folder(at_server: Any, job_id: str) -> None:
    assert earlier_run_folders(job_id, "", at_server) == []


def test_a_sites_part_of_an_earlier_job_lies_in_its_own_workspace(at_server: Any) -> None:
    running(at_server.root, "lead")
    folders = [at_server.root / "private" / BEFORE, at_server.root / BEFORE]
    assert earlier_run_folders(BEFORE, BEFORE, at_server) == folders


def test_a_state_of_a_swarms_site_leads_to_the_sites_beside_it(at_server: Any) -> None:
    """It lies in the site's own folder of the job."""
    for state in ("/runs/site-2/private/job-0/fedannot_state.pt", "/runs/site-2/job-0/fedannot_state.pt"):
        folders = [Path("/runs/site-1/private/job-0"), Path("/runs/site-1/job-0")]
        assert earlier_run_folders("", state, at_server) == folders
