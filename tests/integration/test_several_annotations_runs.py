"""Runs on cases with several annotations: the same bits after a resumption, and rules that are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_records import simulate
from support.several_annotators import write_site

from fedannot.apps.runs.job import Job
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.settings import SettingsError

SITES = ("site-1", "site-2")


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several") / "federation"
    for site in SITES:
        write_site(folder / site)
    write_federation(folder, FederationDescription(name="several", sites=SITES))
    return folder


def model(out: Path) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = torch.load(out / "model.pt", weights_only=True)["model"]
    return weights


def test_annotations_drawn_in_every_epoch_are_the_same_after_a_resumption(
    small_job: Callable[..., Path], federation: Path, tmp_path: Path
) -> None:
    job = small_job("fedavg", rounds=3)
    settings: dict[str, Any] = {
        "rounds": 2,
        "min_sites": 2,
        "training.local_epochs": 1,
        "training.consensus": "random-per-epoch",
    }
    simulate(job, tmp_path / "whole", data=federation, overrides=settings)
    simulate(job, tmp_path / "parts", data=federation, overrides=settings | {"rounds": 1})
    simulate(job, tmp_path / "parts", data=federation, overrides=settings, resume=True)
    whole, parts = model(tmp_path / "whole"), model(tmp_path / "parts")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize(
    ("name", "rule", "message"),
    [
        ("auto", "majority", "the method 'auto' takes none. `fedannot data annotators DIR --scenario clean --keep"),
        ("fedaaai", "soft", "'soft', but the method 'feda3i' takes majority, staple, one:NAME."),
    ],
)
def test_rules_that_a_method_cannot_take_are_refused(
    small_job: Callable[..., Path], name: str, rule: str, message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        Job(small_job(name, rounds=20)).settings_with({"training.consensus": rule})
    assert message in str(caught.value)
