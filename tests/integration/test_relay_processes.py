"""A federation over TLS in which two hospitals reach the server through two relays, one after the other."""

from collections.abc import Iterator

import pytest
import torch
from conftest import JOBS
from hospitals import BOUNDS, END_TIMEOUT, ROUNDS, SETTINGS, SITES, Hospitals, Relay, started_hospitals
from plain_records import simulate
from real_processes import free_ports

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    ports = free_ports(2)
    relays = (Relay("relay-1", ports[0]), Relay("relay-2", ports[1], connects_to="relay-1", sites=SITES[:2]))
    with started_hospitals(tmp_path_factory, relays=relays) as started:
        yield started


def test_the_model_is_the_simulators(hospitals: Hospitals, tmp_path) -> None:
    job_id = hospitals.submit(hospitals.job())
    assert hospitals.wait(job_id, END_TIMEOUT) == "FINISHED:COMPLETED"
    summary, model = hospitals.result(job_id)
    assert (summary["rounds_finished"], summary["refusals"], summary["absent"]) == (ROUNDS, [], [])
    simulate(JOBS / "fedaaai", tmp_path / "out", data=hospitals.data, overrides=SETTINGS | BOUNDS)
    expected = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"]
    assert model.keys() == expected.keys()
    assert all(torch.equal(model[name], expected[name]) for name in model)
