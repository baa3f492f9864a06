"""Seconds that the parts of a run take on this machine, measured on the images of its first site."""

import copy
import io
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from ...custom.data.datalist import TRAINING
from ...custom.data.site_data import LoadedCase, SiteData, load_site_data
from ...custom.data.store_location import participant_store
from ...custom.evaluation.scoring import Scoring
from ...custom.networks.described import described_network
from ...custom.networks.devices import ready_to_compute
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


@dataclass(frozen=True)
class MeasuredParts:
    """Seconds of the parts of a run.

    Attributes:
        step: one step of training, with its patches and augmentation.
        site_round: a round at a site beside its steps: its model is copied, sent and averaged.
        case: prediction and scores of a case, without mirrored images; with them at most as many times as there are.
        case_reading: first reading of a case; next to nothing where it is prepared already.
    """

    step: float
    site_round: float
    case: float
    case_reading: float


def measure_parts(settings: RunSettings, folder: Path, *, site: str) -> MeasuredParts:
    """Train for some steps and score some cases, with everything that the settings say.

    Args:
        settings: the run's.
        folder: the site's data.
        site: its name, for messages.

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
            step = _step_seconds(settings, network, data)
        return MeasuredParts(step, _site_round_seconds(network), _case_seconds(settings, network, data), read)
    finally:
        torch.set_num_threads(before)


def _step_seconds(settings: RunSettings, network: nn.Module, data: SiteData) -> float:
    training = settings.training
    batches = training_batches(data, training, next(network.parameters()).device)
    objective = SupervisedObjective(build_loss(training))
    optimizer = build_optimizer(network, training, training.learning_rate)

    def run(steps: int) -> None:
        stepping = Stepping(steps, gradient_clipping=training.gradient_clipping, precision=training.precision)
        run_epochs(network, batches, objective, optimizer, epochs=1, seed=0, stepping=stepping)

    run(1)
    return statistics.median(_timed(lambda: run(_STEPS)) for _ in range(_TRIES)) / _STEPS


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
