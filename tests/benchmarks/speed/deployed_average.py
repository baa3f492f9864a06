"""One round of the deployed default at the server: prints seconds and MiB of each model, and a digest of the result.

``python deployed_average.py SITES WIDTH [MEMORY_MB]``: how many sites, the width of the network's first level, and what
models that wait may take in memory; none is the default. ``unbounded`` in its place takes the mean without the deployed
bounds of influence, to which every model is added as it comes. Models are made before the time is taken.
"""

import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from support.rounds import round_of

from fedannot.custom.aggregation.influence import InfluenceBounds, deployed_aggregation, deployed_influence
from fedannot.custom.aggregation.reported_counts import ReportedCounts
from fedannot.custom.methods.fedavg.server import FedAvgServer
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.layout import NetworkLayout
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.round_training import RoundTraining, TrainingRun
from fedannot.custom.run.transport import Reply

_MIB = 2**20


def memory(key: str) -> float:
    """MiB of this process by the system's name."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def refused(site: str, reason: object) -> None:
    raise AssertionError(f"{site} is refused: {reason}")


def main(num_sites: int, width: int, waiting: str | None = None) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = build_network(features=[width * times for times in (1, 2, 4, 8, 16, 1)], upsample="nontrainable")
    reference = {name: tensor.detach() for name, tensor in network.state_dict().items()}
    # Ten models that the sites send in turns: where they come from takes no memory of the average.
    models = [
        {name: value + 0.01 * torch.randn(value.shape) if value.is_floating_point() else value
         for name, value in reference.items()}
        for _ in range(min(num_sites, 10 if width < 50 else 2))
    ]  # fmt: skip
    values: dict[str, Any] = {"min_sites": 3}
    if waiting != "unbounded":
        values |= {"influence": deployed_influence(num_sites), "aggregation": deployed_aggregation(num_sites)}
        values |= {} if waiting is None else {"waiting_memory_mb": int(waiting)}
    settings = FedAvgSettings.model_validate(values)
    this_round = round_of(1)
    this_round.params, this_round.bounds = reference, InfluenceBounds(settings.influence, lambda _: None)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = memory("VmRSS")
    with tempfile.TemporaryDirectory() as folder:
        claims, layout = ReportedCounts(lambda _: None), NetworkLayout.of(network, reference, ())
        run = TrainingRun(settings, layout, OutboundRegistry(()), claims, Path(folder, "waiting"), refused)
        started, processor = time.perf_counter(), time.process_time()
        training = RoundTraining(run, FedAvgServer(settings), this_round, num_sites)
        for number in range(num_sites):
            fields = {"num_samples": 10, "num_excluded": 0, "embedded_data": False}
            training.receive(Reply(f"site-{number}", 1, fields, models[number % len(models)]))
        this_round.reports = training.reports
        params = training.average().params
        training.give_up()
        seconds, processor = time.perf_counter() - started, time.process_time() - processor
    digest = hashlib.sha256(b"".join(params[name].numpy().tobytes() for name in sorted(params)))
    size = sum(value.numel() * value.element_size() for value in reference.values()) / _MIB
    result = {
        "sites": num_sites,
        "size": size,
        "seconds": seconds / num_sites,
        "processor": processor / num_sites,
        "models": (memory("VmHWM") - before) / size,
        "anonymous": memory("RssAnon"),
        "digest": digest.hexdigest()[:16],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
