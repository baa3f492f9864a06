"""Hashes of start weights: equal exactly where the entries that the networks have in common are."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fedannot.apps.runs.job import Job
from fedannot.apps.runs.start_weights import compared_start_weights, start_state
from fedannot.custom.settings import RunSettings

JOBS = Path(__file__).parents[3] / "jobs"


def settings_of(*jobs: str, **changes: Any) -> dict[str, RunSettings]:
    small = {"network.features": [4, 4, 8, 8, 8, 4]} | {key.replace("__", "."): changes[key] for key in changes}
    return {job: Job.open(JOBS / job).settings_with(small) for job in jobs}


def test_methods_that_add_to_a_network_begin_with_the_same_bits() -> None:
    settings = settings_of("ditto", "fedcurv", "decoupled_server")
    made = compared_start_weights(settings, list(settings), seed=3)
    assert made.are_equal
    # Decoupled predictions put another head in place of the last layer, a weight and a bias.
    ditto, decoupled = start_state(settings["ditto"], 3), start_state(settings["decoupled_server"], 3)
    same = [name for name in ditto if f"unet.{name}" in decoupled]
    assert made.num_entries == len(same) == len(ditto) - 2
    assert all(torch.equal(ditto[name], decoupled[f"unet.{name}"]) for name in same)


def test_another_seed_or_network_has_other_hashes() -> None:
    settings = settings_of("fedavg")
    first, same, other = (compared_start_weights(settings, ["fedavg"], seed).sha256["fedavg"] for seed in (3, 3, 4))
    assert first == same != other
    arms = settings | {"wide": settings_of("fedavg", network__upsample="deconv")["fedavg"]}
    assert not compared_start_weights(arms, list(arms), 3).are_equal


def test_a_bit_and_a_type_make_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of("fedavg", "fedaaai")
    states = [{"weight": torch.tensor([1.0, 2.0]), "count": torch.tensor(0)} for _ in settings]
    for value, equal in (
        (torch.tensor([1.0, 2.0]), True),
        (torch.tensor([1.0, 2.0000002]), False),
        (torch.tensor([[1.0, 2.0]]), False),
        (torch.tensor([1.0, 2.0]).view(torch.int32), False),
    ):
        states[1]["weight"] = value
        given = iter(states)
        monkeypatch.setattr("fedannot.apps.runs.start_weights.start_state", lambda *_, given=given: next(given))
        assert compared_start_weights(settings, list(settings), 0).are_equal == equal


def test_a_start_model_is_what_all_begin_with(tmp_path: Path) -> None:
    settings = settings_of("fedavg")
    file = tmp_path / "model.pt"
    torch.save({"model": start_state(settings["fedavg"], 8)}, file)
    arms = {"drawn": settings["fedavg"], "read": settings_of("fedavg", start_model=str(file))["fedavg"]}
    assert compared_start_weights(arms, list(arms), seed=8).are_equal
    assert not compared_start_weights(arms, list(arms), seed=9).are_equal
