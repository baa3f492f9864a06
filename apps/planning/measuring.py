"""Seconds and memory of one step of training and of one prediction, measured on images of noise."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ...custom.aggregation.quantised_updates import quantised
from ...custom.aggregation.rounded_models import message_of_model, rounded_model
from ...custom.components.component import Component
from ...custom.evaluation.inference import Inference
from ...custom.networks.described import described_network
from ...custom.networks.devices import ready_to_compute
from ...custom.networks.kept_memory import kept_tensors
from ...custom.networks.precision import computed_precision, computing
from ...custom.run.threads import number_of_threads
from ...custom.settings import ClassifierTrainingSettings, Precision, RunSettings, TrainingSettings
from ...custom.training.batch import Batch
from ...custom.training.loop import Stepping, run_epochs
from ...custom.training.losses import build_loss
from ...custom.training.objectives import SupervisedObjective
from ...custom.training.optimizers import build_optimizer

Tensors = Mapping[str, torch.Tensor]

_MB = 2**20
# Weights and gradients, and what an optimizer keeps of every weight.
_COPIES = {"adam": 4, "sgd": 3}


@dataclass(frozen=True)
class MeasuredStep:
    """What one step of training takes on this machine.

    Attributes:
        seconds: median of the measured steps, each a forward and a backward pass of one network.
        prediction_seconds: of one sample, without its gradient; of all its mirrored images where they are predicted.
        model_mb: of the model, as it goes to a site.
        update_mb: of what a site sends back.
        training_mb: of weights, gradients, optimizer and what a step of the method keeps until its gradient is known.
        device: ``cpu`` or ``cuda``.
    """

    seconds: float
    prediction_seconds: float
    model_mb: float
    update_mb: float
    training_mb: float
    device: str


class _Noise:
    """The same batch of noise again and again."""

    def __init__(self, batch: Batch, count: int) -> None:
        self.samples_per_epoch = count * len(batch.images)
        self.steps_per_epoch = count
        self._batch, self._count = batch, count

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield it."""
        del generator
        yield from [self._batch] * self._count


def measure_step(settings: RunSettings, extents: Sequence[int], *, steps: int = 3) -> MeasuredStep:
    """Train on noise for some steps with a job's network, loss, optimizer and threads.

    Args:
        settings: the job's.
        extents: rows and columns of a sample, or the extents of a patch.
        steps: how many are measured, after one that warms up.
    """
    training = settings.training
    before = torch.get_num_threads()
    torch.set_num_threads(number_of_threads(settings.threads))
    try:
        network = ready_to_compute(described_network(settings.network))
        batch = _noise(settings, training, extents, next(network.parameters()).device)
        objective = SupervisedObjective(build_loss(training))
        optimizer = build_optimizer(network, training, training.learning_rate)
        stepping = Stepping(gradient_clipping=training.gradient_clipping, precision=training.precision)

        def run(count: int) -> None:
            run_epochs(network, _Noise(batch, count), objective, optimizer, epochs=1, seed=0, stepping=stepping)

        with kept_tensors((*network.parameters(), *network.buffers())) as kept:
            run(1)
        seconds = [_timed(lambda: run(1)) for _ in range(steps)]
        network.eval()
        predictions = [_timed(lambda: _predict(network, batch, training.precision)) for _ in range(2)]
    finally:
        torch.set_num_threads(before)
    weights = _bytes(network.state_dict())
    model, update = _messages(network, settings)
    return MeasuredStep(
        seconds=sorted(seconds)[len(seconds) // 2],
        prediction_seconds=min(predictions) / len(batch.images) * Inference.of(settings).num_passes(len(extents)),
        model_mb=_bytes(model) / _MB,
        update_mb=_bytes(update) / _MB,
        training_mb=(weights * _copies(training.optimizer) + settings.kept_factor * kept.nbytes) / _MB,
        device=batch.images.device.type,
    )


def _messages(network: nn.Module, settings: RunSettings) -> tuple[Tensors, Tensors]:
    """A network as it goes to a site and back, in as many bits as the settings have."""
    params = {name: value.cpu() for name, value in network.state_dict().items()}
    trained = [name for name, _ in network.named_parameters()]
    model, update = params, params
    if settings.model_precision != "fp32":
        model = message_of_model(rounded_model(params, trained).params)
    if settings.update_precision != "fp32":
        update = quantised(params, params, settings.update_precision, trained).sent
    return model, update


def _bytes(params: Tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in params.values())


def _copies(optimizer: str | Component) -> int:
    """How many times the weights a training needs; an optimizer that is not known as much as Adam."""
    return _COPIES.get(optimizer, _COPIES["adam"]) if isinstance(optimizer, str) else _COPIES["adam"]


def _noise(
    settings: RunSettings,
    training: TrainingSettings | ClassifierTrainingSettings,
    extents: Sequence[int],
    device: torch.device,
) -> Batch:
    generator = torch.Generator().manual_seed(0)
    shape = (training.batch_size, settings.network.in_channels, *extents)
    images = torch.rand(shape, generator=generator)
    is_class = settings.task == "classification"
    of_labels = (len(images),) if is_class else (len(images), 1, *extents)
    labels = torch.randint(0, 2, of_labels, generator=generator, dtype=torch.int64 if is_class else torch.uint8)
    return Batch(images.to(device), labels.to(device), torch.arange(len(images)))


@torch.no_grad()
def _predict(network: nn.Module, batch: Batch, precision: Precision) -> None:
    with computing(network, computed_precision(precision, batch.images.device)):
        network(batch.images)


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began
