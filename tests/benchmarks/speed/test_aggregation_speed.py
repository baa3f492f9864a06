"""Aggregation of many sites' models: time against their number, and memory beyond the global model."""

import json
import subprocess
import sys

import pytest
from measuring import Measurement

pytestmark = pytest.mark.benchmark

# A process of its own for each number: the peak of a process never goes down. The models are made one at a time.
AGGREGATE = """
import json, resource, sys, time
import torch
from fedannot.custom.aggregation import StreamingAverage
from fedannot.custom.networks import assign_blocks, build_network, layer_blocks

torch.set_num_threads(1)
number = int(sys.argv[1])
network = build_network()
reference = {name: tensor.detach() for name, tensor in network.state_dict().items()}
size = sum(tensor.numel() * tensor.element_size() for tensor in reference.values()) / 2**20
blocks = layer_blocks(network)
site = {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in reference.items()}
weights = dict.fromkeys(blocks, 1 / number)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, started = peak(), time.perf_counter()
average = StreamingAverage(reference, assign_blocks(reference, blocks))
for index in range(number):
    average.add(f"site-{index}", site, weights, 10)
result = average.result()
seconds = time.perf_counter() - started
error = max(float((result[name] - site[name]).abs().max()) for name in reference if reference[name].is_floating_point())
print(json.dumps({"seconds": seconds, "models": (peak() - before) / size, "size": size, "error": error}))
"""


@pytest.mark.parametrize("number", [10, 100, 1000, 10_000])
def test_time_and_memory_of_many_results(speed_table, number):
    done = subprocess.run(
        [sys.executable, "-c", AGGREGATE, str(number)], capture_output=True, text=True, timeout=1200, check=True
    )
    found = json.loads(done.stdout)
    assert found["error"] < 1e-6
    speed_table.add(
        Measurement(
            f"aggregation of {number:,} models of {found['size']:.1f} MiB",
            found["seconds"],
            note=f"{1000 * found['seconds'] / number:.1f} ms each; {found['models']:.1f} models of memory (goal ≤ 3)",
        )
    )
