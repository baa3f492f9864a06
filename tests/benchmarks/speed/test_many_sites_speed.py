"""Rounds of which few of many sites are asked, and the average of a deployed job: time and memory at the server."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deployed_average import memory
from measuring import Measurement
from support.memory_link import MemoryLink, StepSite

from fedannot.custom.methods.fedavg import METHODS
from fedannot.custom.methods.fedavg.averaging_server import AveragingServer
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.refusals import RefusalReason
from fedannot.custom.run.round_loop import RoundLoop
from fedannot.custom.run.transport import Reply, Request, RunContext

pytestmark = pytest.mark.benchmark

ASKED, ROUNDS, TURNS = 100, 12, 5
SITES = (100, 1000, 10_000)


class QuietLink(MemoryLink):
    """Reaches those that are asked alone, and keeps nothing."""

    def give(
        self, request: Request, receive: Callable[[Reply], bool], refuse: Callable[[str, RefusalReason], None]
    ) -> None:
        del refuse
        for name in self.there if request.sites is None else request.sites:
            receive(self.there[name](request))

    def write_model(self, params: object) -> None:
        pass


def round_of(folder: Path, number: int) -> tuple[float, float]:
    """Median seconds of a round, and MiB that the run adds at its peak."""
    values = {"rounds": ROUNDS, "min_sites": 2, "fraction": ASKED / number, "validate_every": 999}
    settings = SegmentationAveragingSettings.model_validate(values | {"network": {"features": [2] * 6}})
    network = described_network(settings.network)
    for needed in ("run", "local"):
        (folder / needed).mkdir(parents=True)
    link = QuietLink({f"site-{index}": StepSite(f"site-{index}") for index in range(number)})
    loop = RoundLoop(settings, AveragingServer(settings), OutboundRegistry(METHODS[0].outbound_fields), link)
    places = {"run_folder": folder / "run", "private_folder": folder / "private", "config_folder": folder / "local"}
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = memory("VmRSS")
    loop.run(RunContext(network, network.state_dict(), **places, job_id="j"))
    assert all(len(record.sites) == ASKED for record in loop.state.history)
    # All sites validate the last model.
    return statistics.median(record.seconds for record in loop.state.history[:-1]), memory("VmHWM") - before


def test_a_round_of_a_hundred_of_many_sites(speed_table, tmp_path):
    """Sites only answer; those that are not asked should cost neither time nor memory."""
    results = {number: [] for number in SITES}
    round_of(tmp_path / "first", SITES[0])
    for turn in range(TURNS):
        for number in SITES:
            results[number].append(round_of(tmp_path / f"{number} {turn}", number))
    (reference, *others), seconds = SITES, {n: [one for one, _ in results[n]] for n in SITES}
    for number in others:
        added = max(mib for _, mib in results[number])
        ratios = [one / other for one, other in zip(seconds[number], seconds[reference], strict=True)]
        speed_table.add(
            Measurement(
                f"a round in which {ASKED} of {number:,} sites are asked",
                statistics.median(seconds[number]),
                f"{ASKED} of {reference}",
                statistics.median(seconds[reference]),
                statistics.median(ratios),
                "≤ 1.1",
                f"{min(ratios):.2f} to {max(ratios):.2f}; at most {added:.0f} MiB more",
            )
        )


WAITING = {
    None: "of the deployed default, in memory as far as they fit",
    "0": "of the deployed default, in files",
    "unbounded": "of the mean without bounds",
}


@pytest.mark.parametrize(("sites", "width"), [(100, 13), (4, 96), (8, 96), (100, 96)])
@pytest.mark.parametrize("waiting", WAITING)
def test_the_average_of_a_deployed_job(speed_table, sites, width, waiting):
    """Processor time, medians of five processes; models wait in memory as far as they fit, all in files, or not.

    That of 100 large models is taken once, as it has a hundred models in it; those that wait would take 25 GB.
    """
    is_large = sites * width >= 100 * 96
    if is_large and waiting != "unbounded":
        pytest.skip("25 GB of files: python deployed_average.py 100 96 0")
    command = [sys.executable, str(Path(__file__).with_name("deployed_average.py")), str(sites), str(width)]
    runs = []
    for _ in range(1 if is_large else TURNS):
        done = subprocess.run(
            command + ([] if waiting is None else [waiting]),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=1200,
            check=True,
        )
        runs.append(json.loads(done.stdout))
    assert len({run["digest"] for run in runs}) == 1
    times = [run["processor"] for run in runs]
    speed_table.add(
        Measurement(
            f"a model {WAITING[waiting]}, {sites} of {runs[0]['size']:.1f} MiB",
            statistics.median(times),
            note=f"{1000 * min(times):.0f} to {1000 * max(times):.0f} ms; at the peak "
            f"{max(run['models'] for run in runs):.1f} models more",
        )
    )
