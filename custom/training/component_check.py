"""Whether the classes that a job's settings name for training can be used, before anything is trained."""

from collections.abc import Callable, Iterator

import torch
from torch import nn

from ..components.component import Component, ComponentError
from ..evaluation.inference import Inference, build_inferer
from ..settings import RunSettings, SettingsError
from .component_loss import ComponentLoss
from .optimizers import build_optimizer
from .schedules import LearningRate


def check_training(settings: RunSettings, source: str = "the job's settings") -> None:
    """Check loss, optimizer, schedule and inferer where they are classes: each is built, and tried on small numbers.

    Args:
        settings: the job's settings.
        source: the file to name in an error.

    Raises:
        SettingsError: if one cannot be used; the text names its key, what was found and what is allowed.
    """
    for key, try_it in _trials(settings):
        try:
            try_it()
        except ComponentError as error:
            raise SettingsError(f"{source}: key {key!r}: {str(error).removesuffix('.')}.") from error


def _trials(settings: RunSettings) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is to be tried, by the setting's key."""
    training, inferer = settings.training, settings.inferer
    if isinstance(training.loss, Component):
        loss, is_segmentation = training.loss, settings.task == "segmentation"
        outputs = settings.network.num_classes + is_segmentation
        dims = settings.network.spatial_dims if is_segmentation else 0
        yield "training.loss", lambda: ComponentLoss(loss).ignoring(outputs, dims)
    if isinstance(training.optimizer, Component):
        yield "training.optimizer", lambda: _make_step(settings)
    if isinstance(training.schedule, Component):
        yield "training.schedule", lambda: LearningRate(training, 1, settings.rounds).in_round(1)
    if inferer is not None:
        yield "inferer", lambda: build_inferer(Inference.of(settings).inferer or inferer)


def _make_step(settings: RunSettings) -> None:
    """Make a step of the optimizer on a network with parameters of two and of one dimension."""
    network = nn.Conv2d(1, 1, 1)
    optimizer = build_optimizer(network, settings.training, settings.training.learning_rate)
    network(torch.zeros(1, 1, 2, 2)).sum().backward()
    try:
        optimizer.step()
    except Exception as error:
        # Whatever a class makes of a step without more than gradients.
        raise ComponentError(f"{type(optimizer).__name__} makes no step: {type(error).__name__}: {error}") from error
