"""A batch of training: images, labels, the samples that they are of, and where in a sample each pixel comes from."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

# What a pixel's place is, along every axis, where it shows none of the sample's own.
BEYOND_BORDER = -1


@dataclass(frozen=True)
class Batch:
    """What a network is trained on in one step, on the training device.

    With `places`, what is remembered per pixel of a sample is read and written through augmentation and patches: pixel
    ``p`` of image ``b`` shows the pixel ``places[b, :, *p]`` of sample ``samples[b]``.

    Attributes:
        images: ``(B, C, H, W[, D])`` float32.
        labels: ``(B, 1, H, W[, D])``, 0 for background, 255 for ignored pixels; classes ``(B,)`` in classification.
        samples: index of each among the site's samples, among its cases where these are whole volumes; ``(B,)`` int64
            in main memory.
        places: index along each axis of the sample's own pixel that a pixel shows, ``(B, 2, H, W)`` or
            ``(B, 3, H, W, D)`` int32; -1 where it comes from beyond the border. None unless asked for, and in
            classification.
        fractions: of the annotators that gave each class, ``(B, C + 1, H, W[, D])`` float32 or ``(B, C)`` in
            classification, all 0 where a pixel is ignored; None unless they are trained on.
    """

    images: torch.Tensor
    labels: torch.Tensor
    samples: torch.Tensor
    places: torch.Tensor | None = None
    fractions: torch.Tensor | None = None


class Batches(Protocol):
    """A source of batches for training.

    Attributes:
        samples_per_epoch: how many samples or patches an epoch has.
        steps_per_epoch: how many batches an epoch has.
    """

    samples_per_epoch: int
    steps_per_epoch: int

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield the batches of an epoch; the generator decides everything random."""


class ChangedBatches(ABC):
    """Batches of a source, each of which is changed; as many as the source has.

    Args:
        batches: the source.
    """

    def __init__(self, batches: Batches) -> None:
        self.samples_per_epoch = batches.samples_per_epoch
        self.steps_per_epoch = batches.steps_per_epoch
        self._batches = batches

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield the batches of an epoch; see :class:`Batches`."""
        for batch in self._batches.epoch(generator):
            yield self._changed_batch(batch, generator)

    @abstractmethod
    def _changed_batch(self, batch: Batch, generator: torch.Generator) -> Batch:
        """The batch with the change; the generator decides everything random in it."""


def pixel_places(axes: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the place of every pixel of a grid, ``(2, H, W)`` or ``(3, H, W, D)`` int32.

    Args:
        axes: the index in the sample of each of the grid's rows, columns and slices; -1 beyond the border.
    """
    places = torch.stack(torch.meshgrid(*axes, indexing="ij")).to(torch.int32)
    return places.masked_fill((places == BEYOND_BORDER).any(dim=0), BEYOND_BORDER)
