"""A swarm's real processes under NVFlare's proof of concept: a server and three sites, and some of them killed.

Deselected unless asked for, since it takes some minutes: `make test-processes`.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from real_processes import Poc, started_poc, wait_for

from fedannot.custom.run.state import STATE_FILE, RunState

pytestmark = pytest.mark.processes

SITES = ("site-1", "site-2", "site-3")
SMALL = {
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.latent": 3,
    "network.encoder_features": [4, 8],
    "training.batch_size": 8,
    "training.local_epochs": 1,
    "warmup_rounds": 1,
    "embedded.sites": 3,
    "embedded.protocols": "0-C-D",
    "embedded.images_per_site": 4,
    "embedded.test_images": 1,
}
# From a death to the end of the job: NVFlare notices a site that is gone by its heartbeat.
END_TIMEOUT = 240


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poc]:
    with started_poc(SITES, tmp_path_factory) as started:
        yield started


def submit_small(federation: Poc, name: str, rounds: int, **settings: Any) -> str:
    """Submit a small job and return its id."""
    return federation.submit_with(name, SMALL | {"rounds": rounds} | settings)


def aggregator_of_latest_round(federation: Poc, job_id: str) -> str | None:
    """The site whose turn it is, by the latest round that was handed on; None before the second."""
    logs = "\n".join(federation.log(site, job_id) for site in SITES)
    rounds = re.findall(r"learn task of round (\d+) to .*; aggregation happens on ([\w-]+)", logs)
    latest = max(rounds, key=lambda entry: int(entry[0]), default=None)
    return None if latest is None or int(latest[0]) < 2 else str(latest[1])


def local_model(federation: Poc, site: str, job_id: str) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(
        federation.private(site, job_id) / "personal" / "local_model.pt", weights_only=True
    )
    return content


def kept_round(federation: Poc, site: str, job_id: str) -> int:
    return int(local_model(federation, site, job_id)["round"])


def test_a_swarm_runs_to_its_end(federation: Poc) -> None:
    job_id = submit_small(federation, "decoupled", rounds=3)
    assert federation.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    assert [kept_round(federation, site, job_id) for site in SITES] == [3, 3, 3]


@pytest.mark.parametrize("victim", ["trainer", "aggregator"])
def test_a_swarm_whose_process_dies_in_a_round_ends_with_an_error(federation: Poc, victim: str) -> None:
    """Within a minute; the others keep the model of the last round that was finished."""
    job_id = submit_small(federation, "decoupled", rounds=200)
    wait_for(lambda: aggregator_of_latest_round(federation, job_id) is not None, "the second round")
    aggregator = aggregator_of_latest_round(federation, job_id)
    trainers = [site for site in SITES if site != aggregator]
    killed = trainers[0] if victim == "trainer" else str(aggregator)
    federation.kill(killed, job_id)
    died = time.monotonic()
    assert federation.wait(job_id, END_TIMEOUT).startswith("FINISHED:EXECUTION_EXCEPTION")
    assert time.monotonic() - died < 60
    for site in SITES:
        if site != killed:
            assert 1 <= kept_round(federation, site, job_id) < 200


def test_a_server_form_whose_trainer_dies_in_a_round_ends_with_an_error(federation: Poc) -> None:
    job_id = submit_small(federation, "decoupled_server", rounds=200)
    wait_for(lambda: "Round 2:" in federation.log("site-2", job_id), "the second round")
    federation.kill("site-2", job_id)
    died = time.monotonic()
    assert federation.wait(job_id, END_TIMEOUT).startswith("FINISHED:EXECUTION_EXCEPTION")
    assert time.monotonic() - died < 60


def test_a_site_that_is_gone_ends_the_swarm_and_can_come_back(federation: Poc) -> None:
    job_id = submit_small(federation, "decoupled", rounds=200)
    wait_for(lambda: aggregator_of_latest_round(federation, job_id) is not None, "the second round")
    federation.kill("site-3")
    assert federation.wait(job_id, END_TIMEOUT).startswith("FINISHED:EXECUTION_EXCEPTION")
    assert 1 <= kept_round(federation, "site-1", job_id) < 200
    federation.nvflare("poc", "start", "-p", "site-3", "--timeout", "120")
    again = submit_small(federation, "decoupled", rounds=2)
    assert federation.wait(again, END_TIMEOUT) == "FINISHED:COMPLETED"
    assert [kept_round(federation, site, again) for site in SITES] == [2, 2, 2]


def test_after_all_processes_were_killed_a_swarm_goes_on_to_the_same_end(federation: Poc) -> None:
    whole = submit_small(federation, "decoupled", rounds=15)
    assert federation.wait(whole, END_TIMEOUT) == "FINISHED:COMPLETED"
    job_id = submit_small(federation, "decoupled", rounds=15)
    state = federation.private("site-1", job_id) / STATE_FILE
    wait_for(lambda: state.is_file() and RunState.load(state).round_number >= 3, "the state after the third round")
    for participant in (*SITES, "server"):
        federation.kill(participant)
    assert RunState.load(state).round_number < 14, "else there was little left to do"
    federation.start()
    again = submit_small(federation, "decoupled", rounds=15, resume_from=str(state))
    assert federation.wait(again, END_TIMEOUT) == "FINISHED:COMPLETED"
    for site in SITES:
        one, other = (local_model(federation, site, each) for each in (whole, again))
        assert one["round"] == other["round"] == 15
        for part in ("shared", "personal"):
            assert all(torch.equal(one[part][name], value) for name, value in other[part].items())
