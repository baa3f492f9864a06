"""Training of many sites on one GPU beside a plain PyTorch loop; and of volumes."""

import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch
from measuring import Measurement
from test_federation_overhead import FEATURES, federation
from test_training_speed import blobs
from torch import nn

from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.site_data import LoadedCase
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import params_in_main_memory, ready_to_compute
from fedannot.custom.networks.received import received_network
from fedannot.custom.settings import NetworkSettings, TrainingSettings
from fedannot.custom.training import captured_steps
from fedannot.custom.training.batches import PatchBatches, SampleBatches
from fedannot.custom.training.loop import train
from fedannot.custom.training.objectives import training_objective

pytestmark = [pytest.mark.benchmark, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

JOBS = Path(__file__).parents[3] / "jobs"
# Of the tasks, and of the whole rounds.
TASKS, SITES, IMAGES, SIDE = 20, 50, 32, 64
TRAINING = TrainingSettings(learning_rate=2e-3, batch_size=4, local_epochs=3)
NETWORK = NetworkSettings(features=FEATURES, upsample="nontrainable")
REPEATS = 5


def plain_site(params: dict[str, torch.Tensor], images: torch.Tensor, labels: torch.Tensor, precision: str) -> None:
    """What a researcher writes by hand for a site: all data on the GPU, the global weights, Adam, cross entropy."""
    network = build_network(features=FEATURES, upsample="nontrainable").cuda()
    network.load_state_dict(params)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3, betas=(0.9, 0.99), fused=True)
    half = torch.autocast("cuda", dtype=torch.bfloat16) if precision == "bf16" else nullcontext()
    for _ in range(TRAINING.local_epochs):
        for chosen in torch.randperm(len(images)).split(TRAINING.batch_size):
            optimizer.zero_grad()
            with half:
                loss = nn.functional.cross_entropy(network(images[chosen]), labels[chosen].long())
            loss.backward()
            optimizer.step()
    torch.cuda.synchronize()


def own_site(params: dict[str, torch.Tensor], images: torch.Tensor, labels: torch.Tensor, precision: str) -> None:
    """What a site does in a round, without NVFlare and files."""
    training = TRAINING.model_copy(update={"precision": precision})
    network = received_network(NETWORK, params)
    batches = SampleBatches(images, labels, training.batch_size, torch.device("cuda"))
    train(network, batches, training_objective(training), training, learning_rate=2e-3, seed=0)
    params_in_main_memory(network)


@contextmanager
def utilisation() -> Iterator[list[float]]:
    """The GPU's utilisation in per cent, as its driver says it ten times a second; filled when the block is over."""
    values: list[float] = []
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield values
        finally:
            process.terminate()
            output, _ = process.communicate()
            values += [float(line) for line in output.split() if line.strip().isdigit()]


def at_once(action: Callable[[], None], number: int) -> None:
    """Do an action of some sites, so many at a time."""
    with ThreadPoolExecutor(number, initializer=lambda: torch.cuda.set_stream(torch.cuda.Stream())) as pool:
        for done in [pool.submit(action) for _ in range(TASKS)]:
            done.result()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_tasks_beside_a_plain_loop(speed_table, monkeypatch, precision):
    params = {name: value.cpu() for name, value in described_network(NETWORK).state_dict().items()}
    images, labels = (tensor.cuda() for tensor in blobs(IMAGES, SIDE))

    def own() -> None:
        own_site(params, images, labels, precision)

    def single() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(captured_steps, "is_recording_device", lambda device: False)
            at_once(own, 1)

    def plain() -> None:
        for _ in range(TASKS):
            plain_site(params, images, labels, precision)

    actions: dict[str, Callable[[], None]] = {
        "a plain loop": plain,
        "steps one by one": single,
        **{f"recorded steps, {number} sites at a time": lambda n=number: at_once(own, n) for number in (1, 2, 4, 8)},
    }
    times: dict[str, list[float]] = {name: [] for name in actions}
    used: dict[str, list[float]] = {name: [] for name in actions}
    memory: dict[str, float] = {}
    for action in actions.values():
        action()
    for repeat in range(REPEATS):
        for name, action in actions.items():
            torch.cuda.reset_peak_memory_stats()
            with utilisation() if repeat == 0 else nullcontext([]) as values:
                started = time.perf_counter()
                action()
                times[name].append(time.perf_counter() - started)
            used[name] += values
            memory[name] = torch.cuda.max_memory_allocated() / 2**20
    reference = statistics.median(times["a plain loop"])
    for name, seconds in times.items():
        rates = [TASKS * TRAINING.local_epochs / each for each in seconds]
        busy = statistics.fmean(used[name]) if used[name] else float("nan")
        speed_table.add(
            Measurement(
                f"{TASKS} tasks × {IMAGES} images {SIDE} × {SIDE}, {precision}: {name}",
                statistics.median(seconds),
                "a plain loop",
                reference,
                statistics.median(seconds) / reference,
                "≤ 0.20" if name.startswith("recorded") else "",
                f"{statistics.median(rates):.0f} site-epochs/s ({min(rates):.0f} to {max(rates):.0f}), "
                f"utilisation {busy:.0f} %, {memory[name]:.0f} MiB",
            )
        )


@pytest.mark.parametrize("at_a_time", [1, 4])
def test_rounds_of_50_sites(speed_table, tmp_path, at_a_time):
    """Whole rounds in one process, without scores, by the run's own record."""
    data = federation(tmp_path / "data", SITES, IMAGES, SIDE)
    (data / "test").rename(tmp_path / "not-scored")
    overrides = {"rounds": 5, "validate_every": 1000, "network.features": list(FEATURES)}
    overrides |= {"training.batch_size": 4, "training.local_epochs": 3}
    with utilisation() as used:
        summary = simulate(JOBS / "fedavg", tmp_path / "run", data=data, overrides=overrides, sites_at_once=at_a_time)
    rounds = [record.seconds for record in summary.rounds[1:-1]]
    each = statistics.median(rounds)
    speed_table.add(
        Measurement(
            f"a round of {SITES} sites, {at_a_time} at a time",
            each,
            note=f"{SITES * 3 / each:.0f} site-epochs/s, utilisation over the run {statistics.fmean(used):.0f} %",
        )
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_volumes_beside_a_plain_loop(speed_table, precision):
    """Patches of 96³, batch 2, of a network whose steps fill a GPU."""
    side, number = 96, 8
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(number, 1, side, side, side, generator=generator)
    labels = (images[:, 0] > 1).to(torch.uint8)
    pairs = zip(images, labels, strict=True)
    cases = [LoadedCase(f"{i}", f"{i}", image[None], label[None], None, None) for i, (image, label) in enumerate(pairs)]
    training = TrainingSettings(
        learning_rate=2e-3, batch_size=2, local_epochs=3, patch=(side,) * 3, patches_per_volume=1, precision=precision
    )
    settings = NetworkSettings(features=(32, 64, 128, 256, 320, 32), spatial_dims=3)
    start = described_network(settings).state_dict()
    device = torch.device("cuda")
    on_gpu = images.cuda(), labels.cuda()

    def plain() -> None:
        network = ready_to_compute(described_network(settings))
        network.train()
        optimizer = torch.optim.Adam(network.parameters(), lr=2e-3, betas=(0.9, 0.99), fused=True)
        half = torch.autocast("cuda", dtype=torch.bfloat16) if precision == "bf16" else nullcontext()
        for _ in range(training.local_epochs):
            for chosen in torch.randperm(number).split(2):
                optimizer.zero_grad()
                with half:
                    loss = nn.functional.cross_entropy(network(on_gpu[0][chosen]), on_gpu[1][chosen].long())
                loss.backward()
                optimizer.step()
        torch.cuda.synchronize()

    def own() -> None:
        network = received_network(settings, start)
        batches = PatchBatches(cases, training.patch, 1, 2, device)
        train(network, batches, training_objective(training), training, learning_rate=2e-3, seed=0)
        torch.cuda.synchronize()

    times: dict[str, list[float]] = {"a plain loop": [], "local training": []}
    for repeat in range(REPEATS + 1):
        for name, action in (("a plain loop", plain), ("local training", own)):
            started = time.perf_counter()
            action()
            if repeat:
                times[name].append(time.perf_counter() - started)
    plain_seconds, seconds = (statistics.median(values) for values in times.values())
    ratios = [own / plain for plain, own in zip(*times.values(), strict=True)]
    speed_table.add(
        Measurement(
            f"volumes, patches of {side}³, batch 2, {precision}",
            seconds,
            "a plain loop",
            plain_seconds,
            statistics.median(ratios),
            "≤ 1.05",
            f"{min(ratios):.2f} to {max(ratios):.2f}, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB",
        )
    )
