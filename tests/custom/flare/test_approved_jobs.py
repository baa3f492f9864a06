"""The gates in the parent processes: what is refused leaves nothing behind, and what is approved goes on to NVFlare."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace
from nvflare.fuel.hci.proto import InternalCommands
from nvflare.fuel.hci.reg import CommandEntry
from nvflare.fuel.hci.server.constants import ConnProps
from nvflare.private.admin_defs import Message
from nvflare.private.defs import RequestHeader, SysCommandTopic, TrainingTopic
from nvflare.private.fed.client import training_cmds
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.server import admin, job_cmds, job_runner

from fedannot.custom.approval.approved import ApprovedJob, ApprovedJobs, installed_version, write_approved
from fedannot.custom.approval.configuration import JobConfiguration
from fedannot.custom.data.participant_folder import WAITING_FOLDER
from fedannot.custom.flare.approved_jobs import ApprovedDeployer
from fedannot.custom.flare.job_gate import JobGate
from fedannot.custom.flare.site_gate import SiteGate

JOB_ID = "01234567-89ab-cdef-0123-456789abcdef"
SETTINGS = {
    "method": "fedavg",
    "data_required": True,
    "rounds": 1,
    "min_sites": 3,
    "influence": {"max_share": 0.4},
}
JOB = JobConfiguration({"format_version": 2, "workflows": []}, {"format_version": 2, "executors": []}, SETTINGS)
META = {"name": "mine", "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    for folder in ("startup", "local"):
        (tmp_path / folder).mkdir()
    approved = ApprovedJobs(fedannot=installed_version(), installed=(ApprovedJob.of("mine", JOB),))
    write_approved(tmp_path / "local", approved)
    return tmp_path


def app(configuration: JobConfiguration = JOB, prefix: str = "", **more: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in configuration.documents().items():
            archive.writestr(f"{prefix}config/{name}", json.dumps(content))
        for name, text in more.items():
            archive.writestr(name.replace("__", "/"), text)
    return stream.getvalue()


def with_settings(**changes: Any) -> JobConfiguration:
    return JobConfiguration(JOB.server, JOB.client, SETTINGS | changes)


def deploy(kit: Path, content: bytes, job_id: str = JOB_ID, **meta: Any) -> str:
    return ApprovedDeployer().deploy(Workspace(str(kit), "site-1"), job_id, META | meta, "app", content, FLContext())


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_an_approved_job_is_deployed(kit: Path) -> None:
    assert deploy(kit, app()) == ""
    config = kit / JOB_ID / "app_site-1" / "config"
    assert sorted(path.name for path in config.iterdir()) == ["config_fed_client.json", "config_fed_server.json"]


@pytest.mark.parametrize(
    ("content", "changes", "said"),
    [
        (b"no archive", {}, "cannot be read"),
        (app(custom__mine="import os"), {}, "'custom/mine'; expected"),
        (app(JobConfiguration(JOB.server, {**JOB.client, "components": []}, SETTINGS)), {}, "is not approved here"),
        (app(JobConfiguration(JOB.server, JOB.client, SETTINGS | {"rounds": 10**6})), {}, "'rounds' is 1000000"),
        # All jobs with a server have the same configuration: what runs hangs on the method.
        (
            app(JobConfiguration(JOB.server, JOB.client, SETTINGS | {"method": "of_another_package"})),
            {},
            "Its method, 'segmentation/of_another_package', is not approved here",
        ),
        (app(), {"scope": "swarm"}, "sets scope, which is the site's to decide"),
        # A single hospital, whose exact gradient the model would be: it is named alone, or the others need not answer.
        (app(), {"deploy_map": {"app": ["server", "site-1"]}}, "The job names 1 sites; at least 3 are required here"),
        (app(), {"deploy_map": {"app": ["server", "site-1", "site-2"]}}, "The job names 2 sites"),
        (app(with_settings(min_sites=1)), {}, "'min_sites' is 1; at least 3 is required here"),
        (app(with_settings(min_sites=2)), {"deploy_map": {"app": ["server", "a", "b", "c"]}}, "'min_sites' is 2"),
        (app(with_settings(influence={"max_share": 1.0})), {}, "'influence.max_share' is 1; at most 0.5"),
        (app(with_settings(training={"batch_size": 1})), {}, "'training.batch_size' is 1; at least 4"),
        (app(), {"deploy_map": None}, "does not say which sites take part"),
        # The folder of the job is removed before it is made.
        (app(), {"job_id": "local"}, "id is not one of NVFlare's"),
        (app(), {"job_id": "../other"}, "id is not one of NVFlare's"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(kit: Path, content: bytes, changes: dict[str, Any], said: str) -> None:
    before = files(kit)
    reason = deploy(kit, content, **changes)
    assert reason.startswith("Refused: ")
    assert said in reason
    assert files(kit) == before


def test_what_goes_wrong_at_the_site_is_not_reported(kit: Path) -> None:
    """The reason is for the site's log; a path of the site is in it."""
    (kit / "local" / "approved_jobs.json").write_text("{")
    assert deploy(kit, app()) == "Refused: What is approved here cannot be read; see `fedannot deploy check`."
    (kit / "local" / "approved_jobs.json").unlink()
    assert deploy(kit, app()).startswith("Refused: No jobs are approved here")


def test_a_fault_of_the_gate_itself_lets_nothing_through(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("/secret/folder")

    monkeypatch.setattr("fedannot.custom.flare.approved_jobs.check_job", broken)
    before = files(kit)
    reason = deploy(kit, app())
    assert reason == "Refused: it could not be looked at; see the participant's log."
    assert files(kit) == before


@pytest.fixture
def unchecked_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kit that holds no more than what is looked at here; tests/apps/deployment/test_kit_start.py has whole ones."""
    for gate in ("job_gate", "site_gate"):
        monkeypatch.setattr(f"fedannot.custom.flare.{gate}.check_start", lambda: None)


@pytest.fixture
def gate(kit: Path, unchecked_start: None) -> Iterator[None]:
    before = job_cmds.JobMetaValidator, job_runner.AppDeployer, admin.AuthzFilter
    JobGate(str(kit / "local"))
    yield
    job_cmds.JobMetaValidator, job_runner.AppDeployer, admin.AuthzFilter = before


@pytest.fixture
def processors(unchecked_start: None) -> Iterator[dict[str, Any]]:
    """What a site answers to behind its gate, by topic."""
    given = ClientRequestProcessors.request_processors
    before = list(given)
    SiteGate()
    yield {topic: processor for processor in given for topic in processor.get_topics()}
    given[:] = before


def test_a_site_answers_to_nobody_who_reads_or_removes_files(processors: dict[str, Any]) -> None:
    """NVFlare asks for rights only where a request says that they are to be asked for."""
    assert not set(processors) & {
        SysCommandTopic.SHELL,
        SysCommandTopic.REPORT_ENV,
        SysCommandTopic.CONFIGURE_SITE_LOG,
        TrainingTopic.CONFIGURE_JOB_LOG,
        TrainingTopic.DELETE_RUN,
    }
    assert {TrainingTopic.DEPLOY, TrainingTopic.START_JOB, TrainingTopic.ABORT} <= set(processors)


def test_a_site_unpacks_nothing_before_it_is_approved(
    kit: Path, processors: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = []
    monkeypatch.setattr(training_cmds, "unzip_all_from_bytes", lambda *arguments: unpacked.append(arguments))
    engine = SimpleNamespace(args=SimpleNamespace(workspace=str(kit)), get_client_name=lambda: "site-1")
    request = Message(TrainingTopic.DEPLOY, app(custom__mine="import os"))
    request.set_header(RequestHeader.JOB_ID, JOB_ID)
    request.set_header(RequestHeader.JOB_META, META)
    reply = processors[TrainingTopic.DEPLOY].process(request, engine)
    assert "Refused: The job holds 'custom/mine'" in reply.body
    assert unpacked == []


@pytest.mark.parametrize("job_id", ["startup", "..", "../other", "a/b"])
def test_no_request_is_about_a_job_that_is_a_folder_of_the_kit(processors: dict[str, Any], job_id: str) -> None:
    request = Message(TrainingTopic.ABORT, "")
    request.set_header(RequestHeader.JOB_ID, job_id)
    assert "Refused: The job's id" in processors[TrainingTopic.ABORT].process(request, object()).body


def submitted(content: bytes, meta: Any = META) -> bytes:
    stream = io.BytesIO(content)
    with zipfile.ZipFile(stream, "a") as archive:
        for folder in ("mine/", "mine/app/", "mine/app/config/"):
            archive.writestr(folder, "")
        archive.writestr("mine/meta.json", json.dumps(meta))
    return stream.getvalue()


@pytest.mark.usefixtures("gate")
def test_the_servers_gate_stands_before_nvflares_validator() -> None:
    valid, reason, meta = job_cmds.JobMetaValidator().validate("mine", submitted(app(prefix="mine/app/")))
    assert (valid, reason, meta["name"]) == (True, "", "mine")
    other = JobConfiguration({**JOB.server, "components": [{"path": "subprocess.Popen"}]}, JOB.client, SETTINGS)
    valid, reason, meta = job_cmds.JobMetaValidator().validate("mine", submitted(app(other, prefix="mine/app/")))
    assert (valid, meta) == (False, {})
    assert "is not approved here" in reason
    assert job_runner.AppDeployer is ApprovedDeployer, "what was stored before is looked at when it is deployed"


@pytest.mark.usefixtures("unchecked_start")
def test_the_server_does_not_start_without_a_place_for_the_gate(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(job_cmds, "JobMetaValidator")
    with pytest.raises(RuntimeError, match="in this version of NVFlare, but found none"):
        JobGate(str(kit))


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize(
    ("configuration", "sites", "said"),
    [
        (JOB, ["site-1"], "The job names 1 sites; at least 3 are required here"),
        (with_settings(min_sites=1), ["site-1", "site-2", "site-3"], "'min_sites' is 1; at least 3"),
    ],
)
def test_the_server_takes_no_job_of_one_site(configuration: JobConfiguration, sites: list[str], said: str) -> None:
    meta = META | {"deploy_map": {"app": ["server", *sites]}}
    content = submitted(app(configuration, prefix="mine/app/"), meta)
    valid, reason, _ = job_cmds.JobMetaValidator().validate("mine", content)
    assert (valid, said in reason) == (False, True), reason


@pytest.mark.parametrize(
    ("limits", "sites", "refused"),
    [
        # Of an older kit, which knows no minimum.
        ({"largest": {"rounds": 5}}, ["site-1"], True),
        ({"smallest": {"min_sites": 2}}, ["site-1"], True),
        ({"smallest": {"min_sites": 1}}, ["site-1"], False),
        ({"smallest": {"min_sites": 4}}, ["site-1", "site-2", "site-3", "site-4"], True),
    ],
)
def test_a_site_decides_of_how_few_sites_a_model_may_be(
    kit: Path, limits: dict[str, Any], sites: list[str], refused: bool
) -> None:
    (kit / "local" / "limits.json").write_text(json.dumps(limits))
    assert bool(deploy(kit, app(), deploy_map={"app": ["server", *sites]})) == refused


@pytest.mark.usefixtures("unchecked_start")
def test_models_that_a_killed_job_left_are_removed_when_the_server_starts(kit: Path) -> None:
    before = job_cmds.JobMetaValidator, job_runner.AppDeployer, admin.AuthzFilter
    waiting = kit / "private" / JOB_ID / WAITING_FOLDER
    waiting.mkdir(parents=True)
    JobGate(str(kit / "local")).handle_event(EventType.SYSTEM_START, FLContext())
    job_cmds.JobMetaValidator, job_runner.AppDeployer, admin.AuthzFilter = before
    assert not waiting.exists()
    assert waiting.parent.exists()


class Asked:
    """A connection of an account with a command of NVFlare's."""

    def __init__(self, role: str, scope: str, name: str) -> None:
        entry = CommandEntry(SimpleNamespace(name=scope), name, "", "", None, None, False, "", None)
        self.props = {ConnProps.CMD_ENTRY: entry, ConnProps.USER_ROLE: role}
        self.errors: list[str] = []

    def get_prop(self, name: str, default: Any = None) -> Any:
        return self.props.get(name, default)

    def append_error(self, text: str, meta: Any) -> None:
        self.errors.append(f"{text} {meta['status']}")


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize(
    ("scope", "name", "is_open"),
    [
        ("cellnet", "stress", False),
        ("cellnet", "show_config_vars", False),
        ("sess", InternalCommands.LIST_SESSIONS, False),
        ("of a later NVFlare", "unknown", False),
        ("sess", InternalCommands.CHECK_SESSION, True),
        ("login", InternalCommands.LOGOUT, True),
    ],
)
def test_commands_that_ask_for_no_right_are_the_operators(scope: str, name: str, is_open: bool) -> None:
    commands = admin.AuthzFilter()
    assert commands.pre_command(Asked("project_admin", scope, name), [name])
    for role in ("lead", "org_admin", "member", ""):
        asked = Asked(role, scope, name)
        assert commands.pre_command(asked, [name]) == is_open
        assert len(asked.errors) == (not is_open)
