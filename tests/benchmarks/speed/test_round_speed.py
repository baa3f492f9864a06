"""A round of many sites that train nothing: in one process, and with NVFlare's simulator; and memory over 50 rounds."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from measuring import Measurement

from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.drawing import phantom_site_names
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

pytestmark = pytest.mark.benchmark

JOBS = Path(__file__).parents[3] / "jobs"
NUM_SITES = 50
NUM_SIMULATED = 8
NUM_SEPARATE = 4
TIMEOUT = 1800

# In a process of its own, which tells time and memory at the end of each round; with -X tracemalloc that of Python's
# objects, too.
RUN = """
import gc, json, os, sys, time, tracemalloc
from pathlib import Path
from fedannot.apps.runs.in_process import run_in_process
from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.drawing import phantom_site_names
from fedannot.custom.interface.method import ServerMethod

os.environ["FEDANNOT_DATA"] = sys.argv[3]
rounds = []
def note(self, this_round):
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    own = next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024
    traced = 0.0
    if tracemalloc.is_tracing():
        gc.collect()
        traced = tracemalloc.get_traced_memory()[0] / 1024
    rounds.append((time.perf_counter(), own, traced))
ServerMethod.before_round = note
run_in_process(Job.open(Path(sys.argv[1])), phantom_site_names(int(sys.argv[4])), Path(sys.argv[2]))
print(json.dumps(rounds))
"""


IDLE = "idle_executor.IdleExecutor"
UNTRAINED = "idle_executor.untrained_executor"


@pytest.fixture
def idle_job(tmp_path):
    """Federated averaging of the largest default network at sites that send back what they received."""

    def make(
        rounds: int,
        num_sites: int,
        executor: str = IDLE,
        interval: float | None = None,
        features: Sequence[int] = (16, 32, 64, 128, 256, 16),
    ) -> Path:
        overrides = {"rounds": rounds, "network.features": list(features), "network.upsample": "deconv"}
        job = Job.open(JOBS / "fedavg").copy_with(overrides, tmp_path / f"job-{rounds}-{num_sites}")
        text = job.client_config.read_text(encoding="utf-8")
        text = text.replace("fedannot.custom.flare.executor.FederatedExecutor", executor)
        if executor == IDLE:
            text = text.replace("args { settings = ${?settings} }", "args {}")
        job.client_config.write_text(text, encoding="utf-8")
        if interval is not None:
            text = job.server_config.read_text(encoding="utf-8")
            changed = text.replace("task_request_interval = 0.2", f"task_request_interval = {interval}")
            assert changed != text
            job.server_config.write_text(changed, encoding="utf-8")
        meta = json.loads((job.folder / "meta.json").read_text(encoding="utf-8"))
        (members,) = meta["deploy_map"].values()
        members[:] = ["server", *phantom_site_names(num_sites)]
        (job.folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
        return job.folder

    return make


def environment(tmp_path: Path) -> dict[str, str]:
    """The idle executor can be found, and no data, so that nothing is scored."""
    (tmp_path / "no-data").mkdir(exist_ok=True)
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "FEDANNOT_DATA": str(tmp_path / "no-data")}


def rounds_in_process(
    job: Path, tmp_path: Path, num_sites: int, *options: str, data: Path | None = None
) -> list[tuple[float, float, float]]:
    """Run with options of Python; seconds, MiB of the process and KiB of Python's objects at the end of each round."""
    arguments = [job, tmp_path / "run", data or tmp_path / "no-data", num_sites]
    command = [sys.executable, *options, "-c", RUN, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, check=True, env=environment(tmp_path), cwd=tmp_path
    )
    return [tuple(entry) for entry in json.loads(done.stdout.splitlines()[-1])]


def test_a_round_of_fifty_sites_and_memory_over_fifty_rounds(speed_table, idle_job, tmp_path):
    rounds = rounds_in_process(idle_job(51, NUM_SITES), tmp_path, NUM_SITES)
    times = sorted(later[0] - earlier[0] for earlier, later in itertools.pairwise(rounds))
    memory = [own for _, own, _ in rounds]
    speed_table.add(
        Measurement(
            f"a round of {NUM_SITES} sites without training, in one process", times[len(times) // 2], goal="≤ 2.5 s"
        )
    )
    note = f"{memory[5]:.0f} MiB after 5 rounds, {memory[25]:.0f} after 25, {memory[50]:.0f} after 50"
    speed_table.add(Measurement(f"own memory of a run of 50 rounds, {NUM_SITES} sites", note=note, goal="flat"))


def test_a_round_of_fifty_sites_that_build_the_network(speed_table, idle_job, tmp_path):
    """All that a task asks of a site but the training: data, network, filters, answer."""
    data = tmp_path / "data"
    write_phantom_federation(data, LesionImages(), num_sites=NUM_SITES, images_per_site=3, test_images=1)
    (data / "test").rename(tmp_path / "not-scored")
    rounds = rounds_in_process(idle_job(12, NUM_SITES, UNTRAINED), tmp_path, NUM_SITES, data=data)
    # The first round decodes the images.
    times = sorted(later[0] - earlier[0] for earlier, later in itertools.pairwise(rounds[1:]))
    what = f"a round of {NUM_SITES} sites that build the network and do not train, in one process"
    speed_table.add(Measurement(what, times[len(times) // 2], goal="≤ 2.5 s"))


def test_what_python_keeps_of_a_round_of_fifty_sites(speed_table, idle_job, tmp_path):
    """A small network, as this does not depend on it: tracing takes its time."""
    job = idle_job(42, NUM_SITES, features=(4, 4, 8, 8, 8, 4))
    rounds = rounds_in_process(job, tmp_path, NUM_SITES, "-X", "tracemalloc=1")
    each = (rounds[41][2] - rounds[11][2]) / 30
    speed_table.add(Measurement(f"Python's objects, {NUM_SITES} sites", note=f"{each:.0f} KiB more after each round"))


def seconds_of_a_simulated_round(make_job, tmp_path, processes, num_sites, data, **options) -> float:
    """The difference of two runs is what rounds cost, without the start and the end of the simulator."""
    seconds = []
    for rounds in (1, 4):
        command = [
            str(Path(sys.executable).parent / "nvflare"),
            "simulator",
            str(make_job(rounds, num_sites, **options)),
        ]
        command += ["-w", str(tmp_path / f"workspace-{rounds}"), "-t", str(processes)]
        started = time.perf_counter()
        subprocess.run(
            command,
            capture_output=True,
            timeout=TIMEOUT,
            check=True,
            env=environment(tmp_path) | {"FEDANNOT_DATA": str(data)},
            cwd=tmp_path,
        )
        seconds.append(time.perf_counter() - started)
    return (seconds[1] - seconds[0]) / 3


@pytest.mark.parametrize("processes", [1, 2, NUM_SIMULATED])
def test_a_round_in_the_simulator(speed_table, idle_job, tmp_path, processes):
    each = seconds_of_a_simulated_round(idle_job, tmp_path, processes, NUM_SIMULATED, tmp_path / "no-data")
    what = f"a round of {NUM_SIMULATED} sites without training, nvflare simulator -t {processes}"
    speed_table.add(Measurement(what, each, note=f"{each / NUM_SIMULATED:.2f} s a task"))


@pytest.mark.parametrize(
    ("what", "options", "goal"),
    [
        ("a bare executor, NVFlare's polling every 2 s", {"executor": IDLE, "interval": 2}, ""),
        ("a bare executor, polling as in our jobs", {"executor": IDLE}, ""),
        ("a site of ours", {"executor": UNTRAINED}, "≤ 4 s"),
    ],
)
def test_a_task_without_training(speed_table, idle_job, tmp_path, what, options, goal):
    """With one process for all sites NVFlare starts a new one for every task."""
    data = tmp_path / "data"
    write_phantom_federation(data, LesionImages(), num_sites=NUM_SEPARATE, images_per_site=12, test_images=1)
    (data / "test").rename(tmp_path / "not-scored")
    each = seconds_of_a_simulated_round(idle_job, tmp_path, 1, NUM_SEPARATE, data, **options) / NUM_SEPARATE
    speed_table.add(Measurement(f"a site's task without training in a new process: {what}", each, goal=goal))
