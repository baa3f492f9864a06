"""What the server does in a round by each rule of aggregation, optimizer and correction of drift, beside FedAvg's."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from measuring import Measurement
from support.memory_link import StepSite, link_of

from fedannot.custom.methods.fedavg import METHODS
from fedannot.custom.methods.fedavg.averaging_server import AveragingServer
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.round_loop import RoundLoop
from fedannot.custom.run.transport import Reply, Request, RunContext

pytestmark = pytest.mark.benchmark

TURNS, SITES = 3, 5
PLAIN = {"optimizer": "sgd", "momentum": 0.0}
RULES: dict[str, dict[str, Any]] = {
    "federated averaging": {},
    "median": {"aggregation": {"rule": "median"}},
    "trimmed mean": {"aggregation": {"rule": "trimmed_mean"}},
    "geometric median": {"aggregation": {"rule": "geometric_median"}},
    "multi-Krum": {"aggregation": {"rule": "multi_krum"}},
    "FedAvgM": {"server_optimizer": {"name": "fedavgm"}},
    "FedAdam": {"server_optimizer": {"name": "fedadam"}},
    "FedYogi": {"server_optimizer": {"name": "fedyogi"}},
    "SCAFFOLD": {"drift_correction": "scaffold"},
    "FedNova": {"drift_correction": "fednova"},
}


class RandomSite(StepSite):
    """A site that moves every parameter at random, and has made as many steps as its name says."""

    def trained(self, request: Request, **changes: Any) -> Reply:
        reply, generator = super().trained(request, **changes), torch.Generator().manual_seed(int(self.name))
        params = {
            name: value + 0.01 * torch.randn(value.shape, generator=generator) if value.is_floating_point() else value
            for name, value in request.params.items()
        }
        return replace(reply, params=params)


def seconds_of(folder: Path, changes: dict[str, Any]) -> float:
    """Median over three rounds; in each the sites' models come without any training."""
    values = {"rounds": 4, "min_sites": SITES, "training": PLAIN, "validate_every": 999}
    settings = SegmentationAveragingSettings.model_validate(values | changes)
    network = described_network(settings.network)
    for needed in ("run", "local"):
        (folder / needed).mkdir(parents=True)
    sites = [RandomSite(str(number), fields={"num_steps": number}) for number in range(1, SITES + 1)]
    loop = RoundLoop(settings, AveragingServer(settings), OutboundRegistry(METHODS[0].outbound_fields), link_of(*sites))
    places = {"run_folder": folder / "run", "private_folder": folder / "private", "config_folder": folder / "local"}
    loop.run(RunContext(network, network.state_dict(), **places, job_id="j"))
    return statistics.median(record.seconds for record in loop.state.history[:3])


def test_a_round_without_training(speed_table, tmp_path):
    """Runs take turns; the network has 7.4 MiB, and the state is written as in any run."""
    times: dict[str, list[float]] = {name: [] for name in RULES}
    for turn in range(TURNS):
        for name, changes in RULES.items():
            times[name].append(seconds_of(tmp_path / f"{name} {turn}", changes))
    reference, *others = RULES
    for name in others:
        ratios = [one / other for one, other in zip(times[name], times[reference], strict=True)]
        speed_table.add(
            Measurement(
                f"a round without training, five sites, 7.4 MiB: {name}",
                statistics.median(times[name]),
                reference,
                statistics.median(times[reference]),
                statistics.median(ratios),
                "",
                f"{min(ratios):.2f} to {max(ratios):.2f} in {TURNS} turns",
            )
        )
