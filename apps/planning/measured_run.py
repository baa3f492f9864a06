"""Seconds that the parts of a run take on this machine, measured on the images of its first site."""

import copy
import io
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from ...custom.data.datalist import TRAINING
from ...custom.data.site_data import LoadedCase, SiteData, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.evaluation.scoring import Scoring
from ...custom.networks.described import described_network
from ...custom.networks.devices import ready_to_compute
from ...custom.planning.time_budget import PartSeconds
from ...custom.run.threads import number_of_threads
from ...custom.settings import InferenceSettings, RunSettings
from ...custom.training.batches import training_batches
from ...custom.training.loop import Stepping, run_epochs
from ...custom.training.losses import build_loss
from ...custom.training.objectives import SupervisedObjective
from ...custom.training.optimizers import build_optimizer

_TRIES, _STEPS = 3, 2
# Of the first site.
_SCORED_CASES = 3
# Messages and records of a site's round, as measured where models are small.
_LEAST_SITE_ROUND = 0.1


def measure_parts(settings: RunSettings, folder: Path, *, site: str, sites_at_once: int = 1) -> PartSeconds:
    """Train for some steps and score some cases, with everything that the settings say.

    A case is predicted without mirrored images; with them it takes at most as many times as long as there are.

    Args:
        settings: the run's.
        folder: the site's data.
        site: its name, for messages.
        sites_at_once: how many sites train at a time.

    Raises:
        DataError: if the data cannot be used.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number_of_threads(settings.threads))
    try:
        reading = _Stopwatch()
        data = load_site_data(
            folder, participant_store(), section=TRAINING, site=site, consensus=settings.training.consensus
        )
        read = reading.seconds / len(data.cases)
        with torch.random.fork_rng(devices=[]):
            network = ready_to_compute(described_network(settings.network))
            step = _step_seconds(settings, network, data, sites_at_once)
        return PartSeconds(step, _site_round_seconds(network), _case_seconds(settings, network, data), read)
    finally:
        torch.set_num_threads(before)


def _step_seconds(settings: RunSettings, network: nn.Module, data: SiteData, sites_at_once: int) -> float:
    networks = [network, *(copy.deepcopy(network) for _ in range(sites_at_once - 1))]
    sites = [_site_steps(settings, trained, data) for trained in networks]
    with ThreadPoolExecutor(sites_at_once) as pool:

        def run(steps: int) -> None:
            for finished in [pool.submit(site, steps) for site in sites]:
                finished.result()

        run(1)
        return statistics.median(_timed(lambda: run(_STEPS)) for _ in range(_TRIES)) / _STEPS


def _site_steps(settings: RunSettings, network: nn.Module, data: SiteData) -> Callable[[int], object]:
    """What trains a network for a number of steps."""
    training, threads = settings.training, number_of_threads(settings.threads)
    batches = training_batches(data, training, next(network.parameters()).device)
    objective = SupervisedObjective(build_loss(training))
    optimizer = build_optimizer(network, training, training.learning_rate)

    def run(steps: int) -> object:
        # Each thread has a number of its own.
        torch.set_num_threads(threads)
        stepping = Stepping(steps, gradient_clipping=training.gradient_clipping, precision=training.precision)
        return run_epochs(network, batches, objective, optimizer, epochs=1, seed=0, stepping=stepping)

    return run


def _case_seconds(settings: RunSettings, network: nn.Module, data: SiteData) -> float:
    unmirrored = settings.model_copy(update={"inference": InferenceSettings(mirroring=False)})

    def score(cases: Sequence[LoadedCase]) -> None:
        Scoring.of(settings.task).score(network, replace(data, cases=tuple(cases)), unmirrored)

    # The first one takes the imports of what slides windows and measures distances.
    score(data.cases[:1])
    few = data.cases[:_SCORED_CASES]
    return _timed(lambda: score(few)) / len(few)


def _site_round_seconds(network: nn.Module) -> float:
    def send_and_average() -> None:
        for _ in range(2):
            buffer = io.BytesIO()
            torch.save(network.state_dict(), buffer)
            torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)
        copy.deepcopy(network)

    return _timed(send_and_average) + _LEAST_SITE_ROUND


class _Stopwatch:
    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began


def _timed(work: Callable[[], object]) -> float:
    watch = _Stopwatch()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return watch.seconds
