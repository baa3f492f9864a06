"""What is said of a federation: what has become of a job, who is silent, what to do; NVFlare's answers are given."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.fuel.flare_api.api_spec import JobNotFound, NoConnection
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.deployment import federation_status
from fedannot.apps.deployment.federation_status import (
    FederationStatus,
    NoAnswerError,
    Observer,
    connected,
)
from fedannot.apps.deployment.job_state import JobState, Process, state_of
from fedannot.apps.deployment.kit import KitError
from fedannot.apps.deployment.status_text import as_json, status_lines
from fedannot.custom.flare.live_progress import PROGRESS_GROUP
from fedannot.custom.run.run_progress import Failure, OpenRequest, Phase, RunProgress

NOW = 1_800_000_000.0
JOB, OTHER = "0123abcd-0123-4567-89ab-0123456789ab", "0123abcd-0123-4567-89ab-0123456789ac"


def progress(**changes: Any) -> RunProgress:
    request = OpenRequest(task="train", sites=("a", "b", "c"), answered=("a",), since=NOW - 40)
    values: dict[str, Any] = {
        "fedannot": "0.1.0",
        "method": "fedavg",
        "phase": Phase.WAITING,
        "rounds": 12,
        "round_number": 5,
        "finished_rounds": 4,
        "stage": "federated averaging",
        "score": 0.7123,
        "score_label": "Dice",
        "min_sites": 2,
        "grace_period": 600,
        "task_timeout": 3600,
        "request": request,
        "round_seconds": 30,
        "seconds_left": 240,
        "written": NOW,
    }
    return RunProgress.model_validate(values | changes)


@pytest.mark.parametrize(
    ("status", "process", "phase", "expected"),
    [
        ("SUBMITTED", Process.NONE, None, JobState.QUEUED),
        ("DISPATCHED", Process.NONE, None, JobState.STARTING),
        ("RUNNING", Process.STARTS, None, JobState.STARTING),
        ("RUNNING", Process.RUNS, Phase.WAITING, JobState.RUNNING),
        # NVFlare goes on to say so until it has looked.
        ("RUNNING", Process.NONE, None, JobState.ENDING),
        ("RUNNING", Process.HANGS, None, JobState.NOT_ANSWERING),
        ("FINISHED:COMPLETED", Process.NONE, Phase.FINISHED, JobState.COMPLETED),
        ("FINISHED:COMPLETED", Process.NONE, None, JobState.COMPLETED),
        # All rounds are there; a site was gone at the end.
        ("FINISHED:ABNORMAL", Process.NONE, Phase.FINISHED, JobState.COMPLETED),
        ("FINISHED:ABNORMAL", Process.NONE, Phase.WAITING, JobState.DIED),
        ("FINISHED:EXECUTION_EXCEPTION", Process.NONE, Phase.COMPUTING, JobState.DIED),
        ("FINISHED:ABANDONED", Process.NONE, Phase.WAITING, JobState.DIED),
        ("FINISHED:ABANDONED", Process.NONE, None, JobState.DIED),
        ("FINISHED:EXECUTION_EXCEPTION", Process.NONE, Phase.FAILED, JobState.FAILED),
        ("FINISHED:EXECUTION_EXCEPTION", Process.NONE, Phase.STOPPED, JobState.STOPPED),
        ("FINISHED:ABORTED", Process.NONE, Phase.STOPPED, JobState.ABORTED),
        ("FINISHED:FAILED_TO_RUN", Process.NONE, None, JobState.REFUSED),
        ("FINISHED:CAN_NOT_SCHEDULE", Process.NONE, None, JobState.NOT_STARTED),
    ],
)
def test_what_has_become_of_a_job(status: str, process: Process, phase: Phase | None, expected: JobState) -> None:
    assert state_of(status, process, None if phase is None else progress(phase=phase)) is expected


class Server:
    """NVFlare's session, with what the server would answer."""

    def __init__(self, **silent: float) -> None:
        self.silent, self.metas, self.stats = silent, {}, {}

    def add(self, job_id: str = JOB, status: str = "RUNNING", stats: Any = None, **meta: Any) -> "Server":
        started = datetime.fromtimestamp(NOW - 3600, UTC).isoformat()
        self.metas[job_id] = {"job_id": job_id, "name": "mine", "status": status, "start_time": started} | meta
        if stats is not None:
            self.stats[job_id] = stats
        return self

    def get_system_info(self) -> Any:
        clients = [SimpleNamespace(name=name, last_connect_time=NOW - age) for name, age in self.silent.items()]
        jobs = [SimpleNamespace(job_id=job) for job in self.stats]
        return SimpleNamespace(server_info=SimpleNamespace(start_time=NOW - 86400), client_info=clients, job_info=jobs)

    def list_jobs(self, **_: Any) -> list[dict[str, Any]]:
        return [{"job_id": job, "status": meta["status"]} for job, meta in self.metas.items()]

    def get_job_meta(self, job_id: str) -> dict[str, Any]:
        if job_id not in self.metas:
            raise JobNotFound(f"no such job: {job_id}")
        meta: dict[str, Any] = self.metas[job_id]
        return meta

    def show_stats(self, job_id: str, _: str) -> dict[str, Any]:
        if isinstance(self.stats[job_id], Exception):
            raise self.stats[job_id]
        return {"server": self.stats[job_id]}

    def look(self, job_id: str | None = None) -> FederationStatus:
        account = {"host": "server.org", "port": 8002}
        return Observer(self, account, ssl.create_default_context()).look(job_id)


@pytest.fixture(autouse=True)
def server_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's clock is not this machine's."""
    monkeypatch.setattr(federation_status, "server_time", lambda *_: datetime.fromtimestamp(NOW, UTC))


def texts(status: FederationStatus) -> list[str]:
    return [line.text for line in status_lines(status)]


def running(**silent: float) -> FederationStatus:
    return Server(**silent).add(stats={PROGRESS_GROUP: progress().model_dump(mode="json")}).look(JOB)


def test_a_running_job_tells_round_sites_score_and_time_left() -> None:
    result = running(a=4, b=9, c=2)
    assert not result.is_trouble
    assert texts(result)[4:] == [
        f"Job {JOB} mine: running (RUNNING)",
        "round 5/12 (federated averaging), 4 finished; Dice 71.2 %; 30 s a round, about 4 min left",
        "1 of 3 answered 'train' in 40 s",
        "waits for b",
        "waits for c",
    ]


@pytest.mark.parametrize("silence", [{"c": 31.0}, {}], ids=["silent", "forgotten"])
def test_a_silent_site_is_named_with_what_becomes_of_the_round(silence: dict[str, float]) -> None:
    """One that is silent for longer than three signs of life, and one that NVFlare has forgotten."""
    result = running(a=4, b=30, **silence)
    assert result.is_trouble
    assert result.gone(result.jobs[0]) == ("c",)
    said = texts(result)
    assert "waits for b" in said
    assert "waits for c, which is silent" in said
    assert said[-1] == (
        "The round goes on without c, 10 min after 2 have answered at the latest; nothing to do for the job."
    )
    assert ("c: SILENT, nothing heard for 31 s" in said) == bool(silence)


def test_where_too_few_sites_are_left_that_is_said() -> None:
    said = texts(running(a=4, b=300, c=301))
    assert said[-1].startswith("Without b, c too few are left (at least 2): the round fails after 60 min.")


def test_what_has_no_finished_round_is_not_resumed() -> None:
    stats = {PROGRESS_GROUP: progress(finished_rounds=0, round_number=1).model_dump(mode="json")}
    said = texts(Server(a=4, b=300, c=301).add(stats=stats).look(JOB))
    assert said[-1].endswith("Get the sites back, or abort the job and submit it again later.")


def test_a_dead_process_is_distinguished_with_what_to_do() -> None:
    kept = progress(refused={"b": "no answer"}).model_dump(mode="json")
    result = Server(a=1).add(status="FINISHED:ABNORMAL", fedannot_progress=kept).look(JOB)
    assert result.is_trouble
    said = texts(result)
    assert f"Job {JOB} mine: ended: the server's process of the job died in round 5 of 12 (FINISHED:ABNORMAL)" in said
    assert "b does not count: no answer" in said
    assert said[-1] == (
        f"Submit the job made with --set resume_from={JOB}: it goes on after round 4, to the same bits."
    )
    assert not any("left" in text for text in said)


def test_without_a_finished_round_there_is_nothing_to_go_on_with() -> None:
    kept = progress(finished_rounds=0, round_number=1).model_dump(mode="json")
    result = Server(a=1).add(status="FINISHED:ABANDONED", fedannot_progress=kept).look(JOB)
    assert texts(result)[-1] == "No round was finished: submit the job again."


@pytest.mark.parametrize("failure", Failure)
def test_each_kind_of_failure_has_a_text_and_a_remedy(failure: Failure) -> None:
    kept = progress(phase=Phase.FAILED, failure=failure).model_dump(mode="json")
    result = Server(a=1).add(status="FINISHED:EXECUTION_EXCEPTION", fedannot_progress=kept).look(JOB)
    assert result.jobs[0].state is JobState.FAILED
    lines = status_lines(result)
    assert lines[-1].is_remedy
    assert sum("ended by itself in round 5 of 12: " in line.text for line in lines) == 1


def test_a_process_that_hangs_is_distinguished_from_one_that_starts_and_one_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By how long NVFlare waits for it, and how old the job is; NVFlare calls all of them unknown jobs."""
    young = {"start_time": datetime.fromtimestamp(NOW - 5, UTC).isoformat()}
    states = []
    for waited, meta in ((0.1, young), (0.1, {}), (5.0, {})):
        times = iter([10.0, 10.0 + waited])
        clock = SimpleNamespace(monotonic=lambda times=times: next(times), time=lambda: NOW)
        monkeypatch.setattr(federation_status, "time", clock)
        states.append(Server(a=1).add(stats=JobNotFound("unknown"), **meta).look(JOB).jobs[0].state)
    assert states == [JobState.STARTING, JobState.ENDING, JobState.NOT_ANSWERING]


def test_what_another_version_says_is_left_out_and_a_swarm_says_nothing() -> None:
    for stats in ({PROGRESS_GROUP: {"version": 99}}, {"ServerRunner": {"status": "started"}}):
        (job,) = Server(a=1).add(stats=stats).look(JOB).jobs
        assert (job.state, job.progress) == (JobState.RUNNING, None)


def test_refusals_are_shown_with_who_refused() -> None:
    detail = ["server: OK", "a: Refused: no such job is approved"]
    result = Server(a=1).add(status="FINISHED:FAILED_TO_RUN", job_deploy_detail=detail).look(JOB)
    assert "refused: a: Refused: no such job is approved" in texts(result)


def test_jobs_that_run_and_the_latest_that_have_ended_are_shown() -> None:
    server = Server(a=1)
    ids = [f"0123abcd-0123-4567-89ab-0123456789a{number}" for number in range(6)]
    for job_id in ids[:5]:
        server.add(job_id, "FINISHED:COMPLETED")
    server.add(ids[5], "SUBMITTED")
    assert [job.job_id for job in server.look().jobs] == [*ids[:3], ids[5]]


def test_a_job_that_waits_for_sites_which_are_not_there_names_them() -> None:
    server = Server(a=1).add(status="SUBMITTED", deploy_map={"app": ["server", "a", "ghost"]})
    assert texts(server.look(JOB))[-1] == "It may wait for ghost: not registered. Are they started, and called so?"
    server = Server(a=1).add(status="SUBMITTED", deploy_map={"app": ["@ALL"]})
    assert texts(server.look(JOB))[-1].startswith(f"Job {JOB}")


def test_that_not_all_ended_jobs_are_shown_is_said() -> None:
    server = Server(a=1)
    for number in range(3):
        server.add(f"0123abcd-0123-4567-89ab-0123456789a{number}", "FINISHED:COMPLETED")
    assert texts(server.look())[-1] == "Of ended jobs the latest 3 are shown; all: nvflare job list"


def test_json_has_the_same_and_says_what_to_do() -> None:
    values = json.loads(json.dumps(as_json(running(a=4, b=5, c=45))))
    assert values["server"]["now"] == NOW
    assert [site["is_silent"] for site in values["sites"]] == [False, False, True]
    (job,) = values["jobs"]
    assert (job["state"], job["silent_sites"], job["progress"]["round_number"]) == ("running", ["c"], 5)
    assert job["what_to_do"].startswith("The round goes on without c")


def test_what_is_no_job_and_what_is_unknown_is_said() -> None:
    for job_id, said in (("../x", "Expected a job's id"), (OTHER, "no such job")):
        with pytest.raises(NoAnswerError, match=said):
            Server(a=1).look(job_id)


def test_a_server_that_stops_answering_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()

    def fail() -> None:
        raise NoConnection("gone")

    monkeypatch.setattr(server, "get_system_info", fail)
    with pytest.raises(NoAnswerError, match=r"server.org:8002 does not answer\..*resume_from=JOB_ID"):
        server.look()


# --- the command


@pytest.fixture
def lead(tmp_path: Path, authority: Any) -> Path:
    authority.write(tmp_path / "lead" / "startup", "client", "lead@org")
    account = {"admin": {"username": "lead@org", "host": "localhost", "port": 1}}
    (tmp_path / "lead" / "startup" / "fed_admin.json").write_text(json.dumps(account))
    return tmp_path / "lead"


def test_a_kit_of_a_site_is_none_of_a_person(make_kit: Any) -> None:
    with pytest.raises(KitError, match="fedannot deploy health"), connected(make_kit()):
        pass


def test_no_server_is_an_error_with_what_to_do(lead: Path) -> None:
    result = CliRunner().invoke(app, ["deploy", "status", "--startup-kit", str(lead)])
    assert result.exit_code == 1
    assert "The server localhost:1 does not answer." in result.output


@pytest.mark.parametrize(("silent", "exit_code"), [(4.0, 0), (45.0, 1)])
def test_the_exit_code_says_whether_somebody_is_needed(
    monkeypatch: pytest.MonkeyPatch, lead: Path, silent: float, exit_code: int
) -> None:
    status = running(a=4, b=5, c=silent)

    @contextmanager
    def given(_: Path) -> Iterator[Any]:
        yield SimpleNamespace(look=lambda job: status)

    monkeypatch.setattr(federation_status, "connected", given)
    for options in ([], ["--json"]):
        result = CliRunner().invoke(app, ["deploy", "status", "--startup-kit", str(lead), *options])
        assert result.exit_code == exit_code, result.output
    assert json.loads(result.output)["is_trouble"] == bool(exit_code)


def test_watching_a_job_ends_with_it(monkeypatch: pytest.MonkeyPatch, lead: Path) -> None:
    server = Server(a=1, b=1, c=1).add(stats={PROGRESS_GROUP: progress().model_dump(mode="json")})
    looks = [server.look(JOB), server.look(JOB), Server(a=1).add(status="FINISHED:COMPLETED").look(JOB)]
    seconds: list[float] = []

    @contextmanager
    def given(_: Path) -> Iterator[Any]:
        yield SimpleNamespace(look=lambda job: looks.pop(0))

    monkeypatch.setattr(federation_status, "connected", given)
    monkeypatch.setattr("fedannot.apps.commands.operation.time.sleep", seconds.append)
    command = ["deploy", "status", "--startup-kit", str(lead), "--job", JOB, "--watch", "7"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert (seconds, looks) == ([7.0, 7.0], [])


def test_the_time_difference_of_this_machine_makes_nobody_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the server's time its newest sign of life counts, not a clock that goes slow."""
    monkeypatch.setattr(federation_status, "server_time", lambda *_: None)
    slow = SimpleNamespace(time=lambda: NOW - timedelta(days=1).total_seconds(), monotonic=lambda: 0.0)
    monkeypatch.setattr(federation_status, "time", slow)
    signs = {sign.name: sign.silent for sign in Server(a=2, b=50).look().sites}
    assert signs == {"a": 0.0, "b": 48.0}
