"""A federation over TLS in which two hospitals reach the server through two relays, one after the other."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from hospitals import END_TIMEOUT, ROUNDS, SITES, Hospitals, Relay, assert_same, simulated_model, started_hospitals
from real_processes import free_ports, wait_for

pytestmark = pytest.mark.processes

BEHIND = SITES[:2]
RELAYS = ("relay-1", "relay-2")
# NVFlare's communication_timeout: a site whose question was lost asks again after so many seconds.
RETRY_TIMEOUT = 300


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    ports = free_ports(2)
    relays = (Relay(RELAYS[0], ports[0]), Relay(RELAYS[1], ports[1], connects_to=RELAYS[0], sites=BEHIND))
    with started_hospitals(tmp_path_factory, relays=relays) as started:
        yield started


@pytest.fixture(scope="module")
def simulated(hospitals: Hospitals, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The model of the same job and data in one process."""
    return simulated_model(hospitals, tmp_path_factory.mktemp("simulated") / "out")


def remote_ports(hospitals: Hospitals, participant: str) -> set[int]:
    """The ports to which the processes of a participant, those of jobs among them, have connections."""
    processes = [process for process, _ in hospitals.processes(participant)]
    connections = [connection for process in processes for connection in process.net_connections("tcp")]
    return {connection.raddr.port for connection in connections if connection.raddr}


def assert_result(
    hospitals: Hospitals, job_id: str, expected: dict[str, torch.Tensor], timeout: int = END_TIMEOUT
) -> None:
    assert hospitals.wait(job_id, timeout) == "FINISHED:COMPLETED"
    summary, model = hospitals.result(job_id)
    assert (summary["rounds_finished"], summary["refusals"], summary["absent"]) == (ROUNDS, [], [])
    assert_same(model, expected)


def test_kits_of_relays_are_ready_and_healthy(hospitals: Hospitals) -> None:
    for command, participant in ((command, name) for command in ("check", "health") for name in (*RELAYS, BEHIND[0])):
        kit = hospitals.kits / participant
        if participant in BEHIND:
            # Of this test's making: what `deploy prepare` writes is private.
            (kit / "local" / "limits.json").chmod(0o600)
        words = [str(Path(sys.executable).parent / "fedannot"), "deploy", command, str(kit)]
        done = subprocess.run(words, env=hospitals.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (participant, done.stdout)
        assert ("own name" in done.stdout) == (command == "check" and participant in RELAYS)


def test_the_model_is_the_simulators_and_all_messages_pass_the_relays(
    hospitals: Hospitals, simulated: dict[str, torch.Tensor]
) -> None:
    job_id = hospitals.submit(hospitals.job())
    wait_for(lambda: hospitals.rounds_done(job_id) >= 1, "the first round")
    for site in BEHIND:
        assert not remote_ports(hospitals, site) & set(hospitals.ports)
    assert remote_ports(hospitals, SITES[2]) & set(hospitals.ports)
    assert_result(hospitals, job_id, simulated)


def test_a_killed_relay_starts_again_and_the_job_goes_on(
    hospitals: Hospitals, simulated: dict[str, torch.Tensor]
) -> None:
    job_id = hospitals.submit(hospitals.job())
    wait_for(lambda: hospitals.rounds_done(job_id) >= 1, "the first round")
    (program,) = [process for process, words in hospitals.processes(RELAYS[0]) if "relay.relay" in words]
    program.kill()
    psutil.wait_procs([program], timeout=30)
    assert_result(hospitals, job_id, simulated, RETRY_TIMEOUT + END_TIMEOUT)
    assert [process.pid for process, words in hospitals.processes(RELAYS[0]) if "relay.relay" in words] != [program.pid]
