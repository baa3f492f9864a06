"""Attacks on a provisioned federation over TLS, each with the account that a researcher or an administrator has.

What an attack would do can be seen: a file is written, a folder is gone, a listener is connected to, a site's text is
at the server. Deselected unless asked for: `make test-processes`.
"""

import http.server
import json
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS
from hospitals import END_TIMEOUT, LOWER_LIMITS, MAJORITY, SITES, Hospitals, started_hospitals
from hostile_jobs import Bait, HostileJob, all_jobs, honest_job, named_attacks
from nvflare.fuel.f3.cellnet.defs import CellChannel
from nvflare.fuel.flare_api.api_spec import InvalidJobDefinition
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session
from nvflare.private.admin_defs import Message
from nvflare.private.defs import RequestHeader, SysCommandTopic, TrainingTopic, new_cell_message
from real_processes import wait_for

from fedannot.apps.deployment.deployable_job import read_configuration
from fedannot.custom.data.participant_folder import WAITING_FOLDER
from fedannot.custom.flare.kit_files import START_CHECK_FILE
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.networks.described import described_network
from fedannot.custom.run.state import STATE_FILE, RunState

pytestmark = pytest.mark.processes

ADMIN, LEAD = "admin@coordinator.org", "lead@research.org"
# Of the thousands of hostile jobs, those that are sent to real sites.
SENT = 24


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    with started_hospitals(tmp_path_factory) as started:
        yield started


class Listener:
    """A web server that counts who asks."""

    def __init__(self) -> None:
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"seed = 1\n")

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/canary"


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.server.shutdown()


@pytest.fixture
def bait(hospitals: Hospitals, listener: Listener, tmp_path: Path) -> Bait:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "kept").write_text("kept")
    return Bait(tmp_path / "marker", tmp_path / "victim", hospitals.data / "site-1" / "datalist.json", listener.url)


def names_of_images(hospitals: Hospitals) -> set[str]:
    """Names of the sites' images, which no file of the server may hold."""
    return {path.name for site in SITES for path in (hospitals.data / site / "images").iterdir()}


def files_with(folder: Path, texts: set[str]) -> list[str]:
    """The files below a folder that hold one of these texts."""
    wanted = re.compile("|".join(re.escape(text) for text in sorted(texts)).encode())
    return sorted(
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink() and wanted.search(file.read_bytes())
    )


def assert_harmless(hospitals: Hospitals, bait: Bait, listener: Listener) -> None:
    assert not bait.marker.exists()
    assert (bait.victim / "kept").read_text() == "kept"
    assert listener.asked == []
    assert files_with(hospitals.kits / "localhost", names_of_images(hospitals)) == []


def kept_files(hospitals: Hospitals, *participants: str) -> set[str]:
    """What lies in kits beside logs and NVFlare's own bookkeeping."""
    return {
        str(path.relative_to(hospitals.kits))
        for participant in participants
        for path in (hospitals.kits / participant).rglob("*")
        if not re.search(r"log|\.fl$|transfer|storage|audit|stats|snapshot", str(path.relative_to(hospitals.kits)))
    }


@contextmanager
def session_of(hospitals: Hospitals, account: str) -> Iterator[Session]:
    """An account's connection to the server; unlike NVFlare's command it sends jobs without a look into them."""
    session = new_secure_session(account, str(hospitals.kits / account))
    try:
        yield session
    finally:
        session.close()


def test_the_server_refuses_every_kind_before_it_parses_it(
    hospitals: Hospitals, bait: Bait, listener: Listener, tmp_path: Path
) -> None:
    honest = honest_job(tmp_path / "honest", SITES)
    before = kept_files(hospitals, "localhost", *SITES)
    with session_of(hospitals, LEAD) as session:
        for number, attack in enumerate(named_attacks(honest, bait)):
            job = attack.write(honest, tmp_path / f"job{number}")
            with pytest.raises(InvalidJobDefinition, match="Refused: "):
                session.submit_job(str(job))
    assert kept_files(hospitals, "localhost", *SITES) == before
    assert_harmless(hospitals, bait, listener)


@contextmanager
def server_without_gate(hospitals: Hospitals) -> Iterator[None]:
    """A server that lets every job through, as one that was not prepared, or whose operator is the attacker.

    An operator who is, takes out the check at the start, too; it keeps a server from being opened by mistake.
    """
    local = hospitals.kits / "localhost" / "local"
    before = {name: (local / name).read_text(encoding="utf-8") for name in ("resources.json", START_CHECK_FILE)}
    opened = {name: json.loads(text) for name, text in before.items()}
    opened["resources.json"]["components"] = [
        entry for entry in opened["resources.json"]["components"] if entry["id"] != "job_gate"
    ]
    opened[START_CHECK_FILE]["components"] = []

    def restart(files: dict[str, str]) -> None:
        hospitals.kill("localhost")
        for name, text in files.items():
            (local / name).write_text(text, encoding="utf-8")
        hospitals.start("localhost")
        hospitals.wait_for_sites(*SITES)

    restart({name: json.dumps(values) for name, values in opened.items()})
    try:
        yield
    finally:
        restart(before)


def meta_of(hospitals: Hospitals, job_id: str) -> dict[str, Any]:
    result: dict[str, Any] = hospitals.nvflare("job", "meta", job_id, *hospitals.who)["data"]
    return result


def test_every_site_refuses_by_itself_whatever_the_server_lets_through(
    hospitals: Hospitals, bait: Bait, listener: Listener, tmp_path: Path
) -> None:
    """Nothing is built, nothing written, and what the server learns is what was found in the job."""
    honest = honest_job(tmp_path / "honest", SITES)
    everything = list(all_jobs(honest, bait, read_configuration(honest)[1].classes))
    # What would strike the open server itself is left out; it is the sites that are looked at.
    at_sites = [job for job in everything if all("config_fed_server" not in path for path in job.files)]
    named = [job for job in at_sites if job in named_attacks(honest, bait) and job.name != "code"]
    step = max(1, len(at_sites) // (SENT - len(named)))
    sent = named + [job for job in at_sites[::step] if job not in named and not job.name.startswith("settings.")]
    before = kept_files(hospitals, *SITES)
    with server_without_gate(hospitals):
        with session_of(hospitals, LEAD) as session:
            ids = {}
            for number, job in enumerate(sent):
                ids[session.submit_job(str(job.write(honest, tmp_path / f"job{number}")))] = job
            wait_for(
                lambda: all(str(session.get_job_meta(job_id)["status"]).startswith("FINISHED") for job_id in ids),
                "all refusals",
                timeout=300,
                every=2,
            )
            for job_id, job in ids.items():
                meta = session.get_job_meta(job_id)
                detail = meta.get("job_deploy_detail") or []
                # A scope that a site does not have is refused by NVFlare at the server or by the site.
                assert meta["status"] == "FINISHED:FAILED_TO_RUN", (job.name, meta)
                refused = [line for line in detail if "Refused: " in line]
                named = [site for site in SITES if site in job.meta.get("deploy_map", {"app": SITES})["app"]]
                assert len(refused) == len(named), (job.name, detail)
                assert not any((hospitals.kits / site / job_id).exists() for site in SITES), job.name
        assert_harmless(hospitals, bait, listener)
    assert kept_files(hospitals, *SITES) == before


def test_a_job_of_an_earlier_version_is_refused_with_what_to_do(hospitals: Hospitals, tmp_path: Path) -> None:
    """HOCON without code, as `deploy job` made it before."""
    job = shutil.copytree(JOBS / "fedavg", tmp_path / "earlier", ignore=shutil.ignore_patterns("custom", "settings"))
    meta = {"name": "fedavg", "min_clients": 2, "deploy_map": {"app": ["server", *SITES]}}
    (job / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    answer = hospitals.nvflare("job", "submit", "-j", str(job), *hospitals.who)
    assert "Refused: " in answer["message"]
    assert "Make the job with `fedannot deploy job`." in answer["message"]


def test_a_site_that_approves_nothing_is_not_in_the_job(hospitals: Hospitals) -> None:
    """The others go on; the researcher reads why."""
    approved = hospitals.kits / "site-2" / "local" / "approved_jobs.json"
    before = approved.read_text(encoding="utf-8")
    try:
        approved.unlink()
        with hospitals.with_limits(LOWER_LIMITS, "localhost", *SITES):
            job_id = hospitals.submit(hospitals.job("fedavg", rounds=1, min_sites=MAJORITY))
            assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    finally:
        approved.write_text(before, encoding="utf-8")
    assert hospitals.result(job_id)[0]["absent"] == ["site-2"]
    (line,) = [line for line in meta_of(hospitals, job_id)["job_deploy_detail"] if line.startswith("site-2")]
    assert "Refused: No jobs are approved here" in line


def test_limits_are_the_sites_own(hospitals: Hospitals) -> None:
    with (
        hospitals.with_limits(LOWER_LIMITS, "localhost", *SITES),
        hospitals.with_limits({"largest": {"rounds": 1}}, "site-3"),
    ):
        job_id = hospitals.submit(hospitals.job("fedavg", rounds=2, min_sites=MAJORITY))
        assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    assert hospitals.result(job_id)[0]["absent"] == ["site-3"]
    detail = "\n".join(meta_of(hospitals, job_id)["job_deploy_detail"])
    assert "The setting 'rounds' is 2; at most 1 is allowed here." in detail


def test_names_of_images_stay_where_they_are(hospitals: Hospitals) -> None:
    """In an honest job one image cannot be read, and at another site none: names are in the sites' own logs alone."""
    broken = [*sorted((hospitals.data / "site-2" / "images").iterdir())[:1]]
    broken += sorted((hospitals.data / "site-3" / "images").iterdir())
    contents = [path.read_bytes() for path in broken]
    try:
        for path in broken:
            path.write_bytes(b"broken")
        with hospitals.with_limits(LOWER_LIMITS, "localhost", *SITES):
            job_id = hospitals.submit(hospitals.job("fedavg", rounds=2, min_sites=MAJORITY))
            assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    finally:
        for path, content in zip(broken, contents, strict=True):
            path.write_bytes(content)
    hospitals.download(job_id, hospitals.jobs / "results")
    names = names_of_images(hospitals)
    assert files_with(hospitals.kits / "localhost", names) == []
    assert files_with(hospitals.jobs / "results" / job_id, names) == []
    for site, image in (("site-2", broken[0]), ("site-3", broken[1])):
        log = hospitals.private(site, job_id) / "fedannot_site.log"
        assert image.name in log.read_text(encoding="utf-8")
        assert files_with(hospitals.kits / site / job_id, {image.name}) == []


def test_a_job_of_which_one_hospital_is_left_gives_no_model(hospitals: Hospitals) -> None:
    """Two of the named sites do not take part, and the job says that it may start with one: no round counts."""
    job = hospitals.job("fedavg", rounds=9)
    meta = json.loads((job / "meta.json").read_text(encoding="utf-8"))
    (job / "meta.json").write_text(json.dumps(meta | {"min_clients": 1}), encoding="utf-8")
    files = [hospitals.kits / site / "local" / "approved_jobs.json" for site in SITES[1:]]
    before = [file.read_text(encoding="utf-8") for file in files]
    try:
        for file in files:
            file.unlink()
        job_id = hospitals.submit(job)
        assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:EXECUTION_EXCEPTION"
    finally:
        for file, text in zip(files, before, strict=True):
            file.write_text(text, encoding="utf-8")
    summary, model = hospitals.result(job_id)
    assert summary["absent"] == list(SITES[1:])
    start = described_network(read_job_settings(read_configuration(job)[1].settings).network).state_dict()
    assert all(torch.equal(model[name], value) for name, value in start.items())
    state = RunState.load(hospitals.jobs / "results" / job_id / "workspace" / STATE_FILE)
    assert all(torch.equal(state.params[name], value) for name, value in start.items())
    assert not (hospitals.private("localhost", job_id) / WAITING_FOLDER).exists()


def test_the_researcher_operates_nothing(hospitals: Hospitals) -> None:
    """Its account is of the server's organisation here; what it may do hangs on the role."""
    running = {process.pid for who in ("localhost", *SITES) for process, _ in hospitals.processes(who)}
    for words in (
        ("restart", "server"),
        ("restart", "all"),
        ("restart", "client", "site-1"),
        ("shutdown", "all"),
        ("shutdown", "server"),
        ("shutdown", "client", "site-1"),
        ("disable-client", "site-1"),
    ):
        answer = hospitals.nvflare("system", *words, "--force", *hospitals.who)
        # What a site refuses the server may say in other words; who still runs is seen below.
        said = json.dumps(answer).lower()
        assert "not authorized" in said or "failed to shut down all clients" in said, (words, answer)
    with session_of(hospitals, LEAD) as session:
        for command in (
            "remove_client site-1",
            "disable_client site-1",
            "cells",
            "stress 1 1",
            "show_config_vars server",
            "process_info server",
            "list_sessions",
        ):
            answer = json.dumps(session.api.do_command(command), default=str).lower()
            assert "not authorized" in answer or "not_authorized" in answer, (command, answer)
    time.sleep(5)
    assert {process.pid for who in ("localhost", *SITES) for process, _ in hospitals.processes(who)} == running
    assert set(SITES) <= hospitals.members()


@pytest.mark.parametrize("account", [ADMIN, LEAD])
def test_no_account_reads_files_or_changes_logs(hospitals: Hospitals, account: str) -> None:
    commands = (
        "cat site-1 local/resources.json",
        "grep site-1 datalist local/resources.json",
        "head site-1 local/resources.json",
        "tail site-1 local/resources.json",
        "ls site-1 -R",
        "pwd site-1",
        "cat server local/resources.json",
        "configure_site_log client site-1 DEBUG",
    )
    with session_of(hospitals, account) as session:
        for command in commands:
            answer = json.dumps(session.api.do_command(command), default=str)
            # The server refuses for itself; a site does not know such requests.
            assert "not authorized" in answer.lower() or "invalid_request" in answer, (command, answer)
            assert not any(text in answer for text in ("class_allow_list", "data.yaml", str(hospitals.kits)))


@pytest.mark.parametrize("account", [ADMIN, LEAD])
def test_a_message_to_a_site_that_asks_for_no_rights_reads_and_removes_nothing(
    hospitals: Hospitals, account: str
) -> None:
    """The server forwards it; NVFlare's own commands would have had the rights asked for."""
    before = kept_files(hospitals, "site-1")
    requests = [
        Message(SysCommandTopic.SHELL, "cat local/resources.json"),
        Message(SysCommandTopic.REPORT_ENV, ""),
        Message(TrainingTopic.DELETE_RUN, ""),
        Message(TrainingTopic.DEPLOY, b"PK"),
    ]
    with session_of(hospitals, account) as session:
        for request in requests:
            request.set_header(RequestHeader.JOB_ID, "models")
            reply = session.api.cell.send_request(
                channel=CellChannel.CLIENT_MAIN,
                topic="any",
                target="site-1",
                request=new_cell_message({}, request),
                timeout=10,
            )
            assert "class_allow_list" not in str(
                vars(reply.payload) if hasattr(reply.payload, "body") else reply.payload
            )
    assert kept_files(hospitals, "site-1") == before


def test_an_administrator_sends_no_code_either(hospitals: Hospitals, bait: Bait, tmp_path: Path) -> None:
    honest = honest_job(tmp_path / "honest", SITES)
    job = HostileJob("code", {"app/custom/mine.py": "print(1)\n"}).write(honest, tmp_path / "code")
    answer = hospitals.nvflare("job", "submit", "-j", str(job), "--startup-kit", str(hospitals.kits / ADMIN))
    assert "Refused: The job holds 'app/custom/" in answer["message"]
