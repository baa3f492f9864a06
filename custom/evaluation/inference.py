"""What a model says about a site's cases, in evaluation mode and with bounded memory."""

import functools
import itertools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import JsonValue
from torch import nn

from ..components.building import build_component, component_class, parameters_of
from ..components.component import Component, ComponentError
from ..components.roles import Role
from ..data.site_data import LoadedCase
from ..networks.precision import computed_precision, computing
from ..settings import Precision, RunSettings, TrainingSettings

_LOGGER = logging.getLogger(__name__)

# Fraction of a window that the next one covers.
OVERLAP = 0.5
# What an infinite output counts as; float16 holds it.
_LARGEST_OUTPUT = 1e4
# Small batches are for training; without gradients larger ones are faster and fit all the same.
_SMALLEST_CLASSIFIER_BATCH = 64


@dataclass(frozen=True)
class Inference:
    """How a model is run over cases.

    Attributes:
        batch_size: samples, or positions of the window, that run through the network together.
        window: extents of the window that slides over whole volumes, which are taken one at a time; None runs samples
            as they are.
        mirroring: mean of the probabilities of all mirrored images; see :meth:`logits`.
        mirror_axes: axes of a sample along which they are mirrored; None for all.
        precision: in which the network computes; see :attr:`fedannot.custom.settings.TrainingSettings.precision`. Its
            outputs are float32, and so is all that is made of them.
        inferer: a class of MONAI's inferers in place of this.
    """

    batch_size: int
    window: tuple[int, ...] | None = None
    mirroring: bool = False
    inferer: Component | None = None
    mirror_axes: tuple[int, ...] | None = None
    precision: Precision = "fp32"

    @classmethod
    def of(cls, settings: RunSettings) -> "Inference":
        """Return what follows from a job's settings: the window is the patch of the training, where there is one."""
        training, mirroring = settings.training, settings.inference.mirroring
        if isinstance(training, TrainingSettings):
            inferer = _complete(settings.inferer, training)
            return cls(
                training.batch_size, training.patch, mirroring, inferer, training.mirror_axes, training.precision
            )
        batch_size = max(training.batch_size, _SMALLEST_CLASSIFIER_BATCH)
        return cls(batch_size, mirroring=mirroring, precision=training.precision)

    def num_passes(self, spatial_dims: int) -> int:
        """Return how many times an image runs through the network."""
        return 2 ** len(self.mirrored(spatial_dims)) if self.mirroring else 1

    def mirrored(self, spatial_dims: int) -> tuple[int, ...]:
        """Return along which axes of a sample mirrored images are made, from 0."""
        return tuple(axis for axis in range(spatial_dims) if self.mirror_axes is None or axis in self.mirror_axes)

    def extents(self, size: Sequence[int] | None) -> tuple[int, ...]:
        """Return the extents of what runs through the network: the inferer's window, the window, or the samples.

        Args:
            size: of the samples; None where they differ, which have a window.

        Raises:
            ValueError: if there is neither a size nor a window.
        """
        known = self.window or size
        if known is None:
            raise ValueError("Expected the size of the samples, or a window.")
        window: Any = None if self.inferer is None else self.inferer.arguments.get("roi_size")
        if window is None:
            return tuple(known)
        extents = [window] * len(known) if isinstance(window, int) else window
        # MONAI takes the image's own extent where the window has none.
        return tuple(own if own > 0 else whole for own, whole in zip(extents, known, strict=True))

    @torch.inference_mode()
    def logits(self, network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        """Return the network's output for images ``(B, channels, H, W[, D])``: ``(B, C + 1, H, W[, D])``.

        A window overlaps the next by half and counts more in its middle; the border of a volume that is smaller than
        the window goes on. The result is on the network's device.

        With mirroring the result is ``log 1/n Σ_f softmax(f⁻¹ network(f x))`` over the n mirrored images f x,
        4 or 8 by default, none and all axes among them: log probabilities, whose softmax is the mean of the
        probabilities.

        Outputs that are not finite count as 0, those that are infinite as ±10,000: weights can be made for which one
        patient's image overflows, and no answer of the site may tell by its absence that it did. The site's log does.
        """
        images = images.to(next(network.parameters()).device)
        if not self.mirroring:
            return self._outputs(network, images)
        all_axes = mirrored_axes(self.mirrored(images.ndim - 2))
        views = (self._log_probabilities(network, images, axes) for axes in all_axes)
        return functools.reduce(torch.logaddexp, views) - math.log(len(all_axes))

    def _log_probabilities(self, network: nn.Module, images: torch.Tensor, axes: list[int]) -> torch.Tensor:
        """What the network says of images that are mirrored along some axes, mirrored back where it is of pixels."""
        outputs = self._outputs(network, images.flip(axes))
        return (outputs.flip(axes) if outputs.ndim == images.ndim else outputs).log_softmax(dim=1)

    def _outputs(self, network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        """The network's output for images on its device, float32."""
        parameter = next(network.parameters(), images)
        with computing(network, computed_precision(self.precision, parameter.device)):
            return self._computed_outputs(network, images)

    def _computed_outputs(self, network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        if self.inferer is not None:
            return _finite(_inferred(self.inferer, network, images))
        if self.window is None:
            logits: torch.Tensor = network(images)
            return _finite(logits)
        # MONAI takes 2 s, and only sliding windows need it.
        from monai.inferers.utils import sliding_window_inference  # noqa: PLC0415

        together: torch.Tensor = sliding_window_inference(
            images,
            self.window,
            self.batch_size,
            network,
            overlap=OVERLAP,
            mode="gaussian",
            padding_mode="replicate",
        )
        return _finite(together)

    def batches(self, cases: Sequence[LoadedCase]) -> Iterator["SampleBatch"]:
        """Yield the samples of all cases in their order; only the batch at hand is in memory."""
        size = self.batch_size if self.window is None else 1
        samples: list[tuple[LoadedCase, int]] = []
        for case in cases:
            for index in range(len(case.image)):
                samples.append((case, index))
                if len(samples) == size:
                    yield SampleBatch.of(samples)
                    samples = []
        if samples:
            yield SampleBatch.of(samples)

    def class_probabilities(self, network: nn.Module, cases: Sequence[LoadedCase]) -> torch.Tensor:
        """Return what a classifier says of every sample, ``(N, C)`` float64 in main memory.

        Args:
            network: the model; it is run in evaluation mode.
            cases: the cases.
        """
        parts = []
        for batch in self.batches(cases):
            with evaluating(network):
                parts.append(self.logits(network, batch.images).to("cpu", torch.float64).softmax(dim=1))
        return torch.cat(parts)

    def predictions(
        self,
        network: nn.Module,
        cases: Sequence[LoadedCase],
        decide: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> Iterator[torch.Tensor]:
        """Yield the predicted classes of one case after the other, uint8 ``(S, H, W[, D])`` in main memory.

        Args:
            network: the model; it is run in evaluation mode.
            cases: the cases.
            decide: gives the classes ``(B, H, W[, D])`` for logits; by default the most probable ones.
        """
        decide = _most_probable if decide is None else decide
        samples: list[torch.Tensor] = []
        waiting = iter(cases)
        case = next(waiting, None)
        for batch in self.batches(cases):
            with evaluating(network):
                samples += decide(self.logits(network, batch.images)).to("cpu", torch.uint8)
            while case is not None and len(samples) >= len(case.image):
                yield torch.stack(samples[: len(case.image)])
                del samples[: len(case.image)]
                case = next(waiting, None)


def _complete(inferer: Component | None, training: TrainingSettings) -> Component | None:
    """An inferer with the training's patch as its window and the batch size, where it has these and does not say."""
    if inferer is None:
        return None
    known = parameters_of(component_class(inferer, Role.INFERER))
    of_training: dict[str, JsonValue] = {"sw_batch_size": training.batch_size}
    if training.patch is not None:
        of_training["roi_size"] = [*training.patch]
    given = {key: value for key, value in of_training.items() if key in known}
    return Component.model_construct(target=inferer.target, arguments={**given, **inferer.arguments})


def build_inferer(inferer: Component) -> Callable[[torch.Tensor, nn.Module], torch.Tensor]:
    """Build an inferer.

    Raises:
        ComponentError: if its class cannot be used.
    """
    built: Callable[[torch.Tensor, nn.Module], torch.Tensor] = build_component(inferer, Role.INFERER)
    return built


def _inferred(inferer: Component, network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    logits = build_inferer(inferer)(images, network)
    if not isinstance(logits, torch.Tensor) or logits.shape[2:] != images.shape[2:]:
        shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ComponentError(
            f"{inferer.target} gave {shape} for images {tuple(images.shape)}; expected logits of the same extents."
        )
    return logits


def mirrored_axes(spatial_axes: Sequence[int]) -> list[list[int]]:
    """Return all choices among spatial axes, as axes of images ``(B, channels, H, W[, D])``.

    >>> mirrored_axes([0, 1])
    [[], [2], [3], [2, 3]]
    """
    numbers = range(len(spatial_axes) + 1)
    return [[axis + 2 for axis in axes] for n in numbers for axes in itertools.combinations(spatial_axes, n)]


def _finite(logits: torch.Tensor) -> torch.Tensor:
    if bool(torch.isfinite(logits).all()):
        return logits
    _LOGGER.warning("The model's output for some images is not finite; it counts as %g or 0 there.", _LARGEST_OUTPUT)
    return torch.nan_to_num(logits, nan=0.0, posinf=_LARGEST_OUTPUT, neginf=-_LARGEST_OUTPUT)


def _most_probable(logits: torch.Tensor) -> torch.Tensor:
    return logits.argmax(dim=1)


@dataclass(frozen=True)
class SampleBatch:
    """Samples that run through a network together.

    Attributes:
        cases: the case of each sample.
        images: ``(B, channels, H, W[, D])``.
        labels: ``(B, H, W[, D])``.
    """

    cases: tuple[LoadedCase, ...]
    images: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def of(cls, samples: Sequence[tuple[LoadedCase, int]]) -> "SampleBatch":
        """Take together samples of one size, given as case and index."""
        return cls(
            tuple(case for case, _ in samples),
            torch.stack([case.image[index] for case, index in samples]),
            torch.stack([case.label[index] for case, index in samples]),
        )


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode, and every module back into its own afterwards."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
