"""What an operator sees of a provisioned federation over TLS: a run, silent sites, dead processes, and what to do.

Deselected unless asked for: `make test-processes`.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hospitals import END_TIMEOUT, LOWER_LIMITS, SITES, Hospitals, started_hospitals
from real_processes import wait_for

from fedannot.apps.deployment.federation_status import FederationStatus, Observer, connected
from fedannot.apps.deployment.job_state import JobState
from fedannot.apps.deployment.status_text import what_to_do

pytestmark = pytest.mark.processes

LEAD = "lead@research.org"
# Seconds within which a site must be named.
NAMED_WITHIN = 60


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    with started_hospitals(tmp_path_factory, limits=LOWER_LIMITS) as started:
        yield started


@pytest.fixture
def observer(hospitals: Hospitals) -> Iterator[Observer]:
    """The researcher's view."""
    with connected(hospitals.kits / LEAD) as made:
        yield made


def command(hospitals: Hospitals, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "fedannot"), "deploy", *words],
        env=hospitals.environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def status_of(hospitals: Hospitals, job_id: str) -> tuple[dict[str, Any], int]:
    """What the command says of a job, and its exit code."""
    result = command(hospitals, "status", "--startup-kit", str(hospitals.kits / LEAD), "--job", job_id, "--json")
    return json.loads(result.stdout), result.returncode


def seconds_until(observer: Observer, job_id: str, condition: Callable[[FederationStatus], bool], what: str) -> float:
    began = time.monotonic()
    wait_for(lambda: condition(observer.look(job_id)), what, timeout=NAMED_WITHIN, every=0.5)
    return time.monotonic() - began


def finished_rounds(observer: Observer, job_id: str) -> int:
    progress = observer.look(job_id).jobs[0].progress
    return 0 if progress is None else progress.finished_rounds


def long_job(hospitals: Hospitals, rounds: int) -> str:
    job_id = hospitals.submit(hospitals.job("fedavg", rounds=rounds, grace_period=3))
    wait_for(lambda: hospitals.rounds_done(job_id) >= 1, "the first round")
    return job_id


def send(hospitals: Hospitals, site: str, what: signal.Signals) -> None:
    for process, _ in hospitals.processes(site):
        process.send_signal(what)


def test_a_run_is_reported_and_silent_sites_are_named_within_a_minute(hospitals: Hospitals, observer: Observer) -> None:
    """One site hangs and comes back, one is killed; the rounds go on, and the job does not wait for its last word.

    NVFlare alone says nothing for ten minutes, and then that the job is abnormal.
    """
    for participant in ("localhost", "site-1"):
        healthy = command(hospitals, "health", str(hospitals.kits / participant))
        assert healthy.returncode == 0, healthy.stdout
    job_id = long_job(hospitals, 40)
    said, exit_code = status_of(hospitals, job_id)
    (job,) = said["jobs"]
    assert (exit_code, job["state"], job["silent_sites"]) == (0, "running", [])
    assert {site["name"] for site in said["sites"]} == set(SITES)
    progress = job["progress"]
    assert (progress["rounds"], progress["method"], set(progress["request"]["sites"])) == (40, "fedavg", set(SITES))
    assert progress["finished_rounds"] >= 1
    assert progress["seconds_left"] == pytest.approx(progress["round_seconds"] * (40 - progress["finished_rounds"]))

    send(hospitals, "site-2", signal.SIGSTOP)
    seconds = seconds_until(observer, job_id, lambda found: found.gone(found.jobs[0]) == ("site-2",), "site-2 silent")
    print(f"A site that hangs is named after {seconds:.0f} s.")
    done = finished_rounds(observer, job_id)
    wait_for(lambda: finished_rounds(observer, job_id) > done, "another round")
    send(hospitals, "site-2", signal.SIGCONT)
    seconds_until(observer, job_id, lambda found: not found.gone(found.jobs[0]), "site-2 to be back")

    hospitals.kill("site-3")
    assert observer.look(job_id).jobs[0].state is JobState.RUNNING
    seconds = seconds_until(observer, job_id, lambda found: found.gone(found.jobs[0]) == ("site-3",), "site-3 gone")
    print(f"A site that was killed is named after {seconds:.0f} s.")
    said, exit_code = status_of(hospitals, job_id)
    assert (exit_code, said["jobs"][0]["silent_sites"]) == (1, ["site-3"])
    assert said["jobs"][0]["what_to_do"].startswith("The round goes on without site-3")
    log = hospitals.kits / "localhost" / "log.txt"
    wait_for(lambda: "Nothing heard from site-3 for" in log.read_text(encoding="utf-8"), "the log", timeout=10)
    assert "Nothing heard from site-2 for" in log.read_text(encoding="utf-8")
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    (ended,) = observer.look(job_id).jobs
    assert ended.progress is not None
    assert (ended.state, ended.progress.finished_rounds) == (JobState.COMPLETED, 40)
    hospitals.start("site-3")
    hospitals.wait_for_sites(*SITES)


def test_a_job_whose_process_hangs_or_dies_is_distinguished(hospitals: Hospitals, observer: Observer) -> None:
    job_id = long_job(hospitals, 200)
    (process,) = [process for process, words in hospitals.processes("localhost") if job_id in words]
    process.send_signal(signal.SIGSTOP)
    assert observer.look(job_id).jobs[0].state is JobState.NOT_ANSWERING
    process.send_signal(signal.SIGCONT)
    seconds_until(observer, job_id, lambda found: found.jobs[0].state is JobState.RUNNING, "it to answer again")
    process.kill()
    seconds_until(observer, job_id, lambda found: found.jobs[0].state.is_end, "the job's end")
    assert_died(hospitals, observer, job_id)


def test_a_job_of_a_killed_server_has_ended_and_goes_on_as_a_new_one(hospitals: Hospitals) -> None:
    """NVFlare alone says RUNNING for ever."""
    job_id = long_job(hospitals, 200)
    hospitals.kill("localhost")
    gone = command(hospitals, "status", "--startup-kit", str(hospitals.kits / LEAD))
    assert gone.returncode == 1
    assert "does not answer" in gone.stderr
    for participant, what in (("localhost", "none runs with this kit"), ("site-1", "connection: none to")):
        wait_for(lambda who=participant, said=what: is_unhealthy(hospitals, who, said), what, timeout=60, every=1)
    hospitals.start("localhost")
    hospitals.wait_for_sites(*SITES)
    with connected(hospitals.kits / LEAD) as observer:
        assert observer.look(job_id).jobs[0].nvflare_status == "FINISHED:ABANDONED"
        kept = assert_died(hospitals, observer, job_id)
        again = hospitals.submit(hospitals.job("fedavg", rounds=kept + 1, resume_from=job_id))
        assert hospitals.wait(again, END_TIMEOUT) == "FINISHED:COMPLETED"
        (ended,) = observer.look(again).jobs
        assert ended.progress is not None
        assert (ended.progress.finished_rounds, ended.progress.rounds) == (kept + 1, kept + 1)


def is_unhealthy(hospitals: Hospitals, participant: str, said: str) -> bool:
    result = command(hospitals, "health", str(hospitals.kits / participant))
    return result.returncode == 1 and said in result.stdout


def assert_died(hospitals: Hospitals, observer: Observer, job_id: str) -> int:
    """A job has died, and the command says where and how it goes on; return its last finished round."""
    result = observer.look(job_id)
    (job,) = result.jobs
    assert (job.state, result.is_trouble) == (JobState.DIED, True)
    assert job.progress is not None
    assert job.progress.finished_rounds >= 1
    assert job.progress.rounds == 200
    remedy = what_to_do(job, result) or ""
    assert f"--set resume_from={job_id}" in remedy
    assert f"after round {job.progress.finished_rounds}" in remedy
    said = command(hospitals, "status", "--startup-kit", str(hospitals.kits / LEAD), "--job", job_id)
    assert said.returncode == 1
    assert f"died in round {job.progress.round_number} of 200" in said.stdout
    return job.progress.finished_rounds
