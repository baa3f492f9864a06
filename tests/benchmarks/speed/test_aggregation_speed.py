"""Aggregation of many sites' models: time against their number, and memory beyond the global model."""

import json
import subprocess
import sys

import pytest
from measuring import Measurement

pytestmark = pytest.mark.benchmark

# In a process of its own for each number. Linux tells the peak since it was last reset; every site sends one model.
AGGREGATE = """
import json, sys, time
from pathlib import Path
import torch
from fedannot.custom.aggregation.round_average import AveragingPlan, RoundAverage, SentModel
from fedannot.custom.networks.building import assign_blocks, build_network, layer_blocks

torch.set_num_threads(1)
number = int(sys.argv[1])
network = build_network()
reference = {name: tensor.detach() for name, tensor in network.state_dict().items()}
size = sum(tensor.numel() * tensor.element_size() for tensor in reference.values()) / 2**20
site = {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in reference.items()}
def memory(key):
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024
Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
before, started = memory("VmRSS"), time.perf_counter()
sent = SentModel(0, reference, assign_blocks(reference, layer_blocks(network)))
average = RoundAverage(sent, AveragingPlan(number))
for index in range(number):
    assert average.refuse_or_accept(f"site-{index}", site, 10, 0) is None
result = average.result()
seconds = time.perf_counter() - started
error = max(float((result[name] - site[name]).abs().max()) for name in reference if reference[name].is_floating_point())
print(json.dumps({"seconds": seconds, "models": (memory("VmHWM") - before) / size, "size": size, "error": error}))
"""


@pytest.mark.parametrize("number", [10, 100, 1000, 10_000])
def test_time_and_memory_of_many_results(speed_table, number):
    done = subprocess.run(
        [sys.executable, "-c", AGGREGATE, str(number)], capture_output=True, text=True, timeout=1200, check=True
    )
    result = json.loads(done.stdout)
    assert result["error"] < 1e-6
    speed_table.add(
        Measurement(
            f"aggregation of {number:,} models of {result['size']:.1f} MiB",
            result["seconds"],
            note=f"{1000 * result['seconds'] / number:.1f} ms each; {result['models']:.1f} models of memory (goal ≤ 3)",
        )
    )
