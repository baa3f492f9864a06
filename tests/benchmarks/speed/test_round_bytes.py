"""Bytes that the server writes in a round without training: whether they grow with the number of the round."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from measuring import Measurement
from support.memory_link import MemoryLink, StepSite

from fedannot.custom.methods.fedavg import METHODS
from fedannot.custom.methods.fedavg.averaging_server import AveragingServer
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.round_loop import RoundLoop
from fedannot.custom.run.transport import RunContext

pytestmark = pytest.mark.benchmark

SITES, ROUNDS, SHOWN = 20, 500, (5, 50, 250, 500)
# Rounds on both sides of one that is shown.
AROUND = 5


def written() -> int:
    """Bytes that this process has written by now."""
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


class CountingLink(MemoryLink):
    """Notes what is written in each round, and keeps no model."""

    def __init__(self, names: list[str]) -> None:
        super().__init__({name: StepSite(name) for name in names})
        self.marks: list[tuple[int, float]] = []

    def write_model(self, params: Mapping[str, torch.Tensor]) -> None:
        del params
        self.requests.clear()
        self.marks.append((written(), time.perf_counter()))


def test_what_a_round_writes(speed_table, tmp_path):
    """Each round is counted from the moment at which its model is handed on to the same one of the next."""
    settings = SegmentationAveragingSettings.model_validate(
        {"rounds": ROUNDS + AROUND + 1, "min_sites": 2, "validate_every": 9999, "network": {"features": [2] * 6}}
    )
    network = described_network(settings.network)
    for needed in ("run", "local"):
        (tmp_path / needed).mkdir()
    link = CountingLink([f"site-{index}" for index in range(SITES)])
    loop = RoundLoop(settings, AveragingServer(settings), OutboundRegistry(METHODS[0].outbound_fields), link)
    places = {name: tmp_path / part for name, part in (("run_folder", "run"), ("private_folder", "private"))}
    loop.run(RunContext(network, network.state_dict(), **places, config_folder=tmp_path / "local", job_id="j"))
    size = sum(value.numel() * value.element_size() for value in network.state_dict().values())
    for number in SHOWN:
        (bytes_before, began), (bytes_after, ended) = link.marks[number - AROUND], link.marks[number + AROUND - 1]
        rounds = 2 * AROUND - 1
        kib = (bytes_after - bytes_before) / rounds / 1024
        speed_table.add(
            Measurement(
                f"round {number}, {SITES} sites",
                (ended - began) / rounds,
                note=f"{kib:.0f} KiB, model {size / 1024:.0f} KiB",
            )
        )
