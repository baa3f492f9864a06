"""Whether the classes that a job's settings name for training can be used, before anything is trained."""

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import nn

from ..components.component import Component, ComponentError, first_line
from ..evaluation.inference import Inference, build_inferer
from ..settings import RunSettings, SettingsError
from .component_loss import ComponentLoss
from .optimizers import build_optimizer
from .schedules import LearningRate

_TRIED_EXTENT = 32


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
        yield "training.loss", lambda: _try_loss(loss, outputs, dims)
    if isinstance(training.optimizer, Component):
        yield "training.optimizer", lambda: _make_step(settings)
    if isinstance(training.schedule, Component):
        yield "training.schedule", lambda: LearningRate(training, 1, settings.rounds).in_round(1)
    if inferer is not None:
        yield "inferer", lambda: _try_inferer(settings)


def _try_loss(loss: Component, outputs: int, dims: int) -> None:
    """Compute the loss of an example."""
    with warnings.catch_warnings():
        # PyTorch computes with labels of another shape than the outputs, and warns.
        warnings.filterwarnings("error", message="Using a target size", category=UserWarning)
        ComponentLoss(loss).ignoring(outputs, dims)


def _try_inferer(settings: RunSettings) -> None:
    """Run an image of zeros through the inferer, with a network that leaves its extents."""
    network, inference = settings.network, Inference.of(settings)
    assert inference.inferer is not None
    build_inferer(inference.inferer)
    kind = nn.Conv2d if network.spatial_dims == 2 else nn.Conv3d
    outputs = network.num_classes + 1
    extents = inference.extents((_TRIED_EXTENT,) * network.spatial_dims)
    images = torch.zeros(1, network.in_channels, *extents)
    try:
        found = tuple(inference.logits(kind(network.in_channels, outputs, 1), images).shape)
    except Exception as error:
        # Whatever a class makes of images and a network alone.
        raise ComponentError(f"the inferer cannot run a network: {first_line(error)}") from error
    if found != (1, outputs, *extents):
        raise ComponentError(f"the inferer gives an output of the shape {found}; expected {(1, outputs, *extents)}")


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
