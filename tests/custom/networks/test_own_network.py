"""A network of a researcher's own code: in the process that knows it, and nowhere else."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fedannot.apps.deployment.deployable_job import deployable_job
from fedannot.apps.runs.job import Job, JobError
from fedannot.apps.runs.own_code import own_network_changes
from fedannot.custom.components.component import ComponentError
from fedannot.custom.networks.building import layer_blocks
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.own_network import OWN_TARGET
from fedannot.custom.settings import ClassifierSettings, NetworkSettings


class TwoLayers(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, spatial_dims: int = 2) -> None:
        super().__init__()
        self.last = nn.Conv2d(3, out_channels, 1)
        self.first = nn.Conv2d(in_channels, 3, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.first(images).relu())
        return result


def settings_of(network: Any, **kept: int) -> NetworkSettings:
    changes = own_network_changes(network)
    table = {key.removeprefix("network."): value for key, value in changes.items()}
    return NetworkSettings.model_validate({**table, **kept})


def test_it_is_built_with_the_numbers_of_the_data_and_from_the_seed() -> None:
    settings = settings_of(TwoLayers, in_channels=4, num_classes=2)
    network, same = described_network(settings, 3), described_network(settings, 3)
    assert network(torch.zeros(1, 4, 8, 8)).shape == (1, 3, 8, 8)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), same.parameters(), strict=True))
    # Not as they are registered.
    assert layer_blocks(network) == ("first", "last")


def test_a_module_gives_the_weights_that_a_run_starts_with() -> None:
    given = TwoLayers(1, 2)
    network = described_network(settings_of(given), 5)
    assert network is not given
    assert torch.equal(network.state_dict()["first.weight"], given.first.weight)


def test_a_place_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def build(in_channels, out_channels):\n    return nn.Conv2d(in_channels, out_channels, 1)\n"
    (tmp_path / "own_place.py").write_text(f"from torch import nn\n{text}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(described_network(settings_of("own_place:build")), nn.Conv2d)
    sys.modules.pop("own_place")
    for place, said in (("own_place:other", "found no such function"), ("own_place", "package.module:function")):
        with pytest.raises(JobError, match=said):
            own_network_changes(place)
    with pytest.raises(JobError, match=r"Expected a torch\.nn\.Module"):
        own_network_changes(3)  # type: ignore[arg-type]


def test_another_process_refuses_the_name() -> None:
    settings = NetworkSettings.model_validate({"_target_": OWN_TARGET, "name": "nowhere:build"})
    with pytest.raises(ComponentError, match="'nowhere:build' is code of the process that began the run"):
        described_network(settings)
    with pytest.raises(ComponentError, match="misses the arguments name"):
        described_network(ClassifierSettings.model_validate(OWN_TARGET))


def test_it_cannot_be_deployed(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="TwoLayers', code of the process that ran it"):
        deployable_job(Job.open("fedavg").folder, tmp_path / "job", overrides=own_network_changes(TwoLayers))
