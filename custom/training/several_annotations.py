"""Batches of cases with several annotations: one annotation drawn for every epoch, or fractions of the annotators."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from ..data.consensus import class_fractions
from ..data.site_data import LoadedCase
from ..seeding import derive_seed
from .batch import BEYOND_BORDER, Batch, Batches, ChangedBatches

_SEEDS = 2**62


class RandomAnnotationBatches:
    """In every epoch each case has the annotation of one of its annotators, drawn anew with equal chance.

    What is drawn follows from a number of the epoch's generator, whose seed is of run, site and round, and from the
    case's place among the site's cases. A case with one annotation keeps it.

    Args:
        cases: of the site.
        of_labels: gives the batches for labels, one tensor ``(S, …)`` for each case.
    """

    def __init__(self, cases: Sequence[LoadedCase], of_labels: Callable[[Sequence[torch.Tensor]], Batches]) -> None:
        self._cases = cases
        self._of_labels = of_labels
        first = of_labels([case.label for case in cases])
        self.samples_per_epoch = first.samples_per_epoch
        self.steps_per_epoch = first.steps_per_epoch

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield the batches of an epoch; see :class:`.batch.Batches`."""
        seed = int(torch.randint(_SEEDS, (), generator=generator))
        labels = [drawn_label(case, derive_seed(seed, place)) for place, case in enumerate(self._cases)]
        yield from self._of_labels(labels).epoch(generator)


def drawn_label(case: LoadedCase, seed: int) -> torch.Tensor:
    """Return the annotation ``(S, …)`` of one annotator of a case; its label if it has no several or is reviewed."""
    annotations = case.open_annotations
    return case.label if annotations is None else annotations[:, seed % annotations.shape[1]]


class FractionBatches(ChangedBatches):
    """Batches with the fraction of annotators that gave a pixel each class; of one annotation it is 0 or 1.

    Fractions follow a pixel through patches and augmentation by its place in its sample. Beyond a sample's border, and
    for cases with one annotation, they are those of the batch's labels.

    Args:
        batches: with places, in segmentation.
        annotations: of every sample, of patches of every volume, ``(R, …)``; None for one with one annotation.
        num_outputs: number of classes, in segmentation with the background.
    """

    def __init__(self, batches: Batches, annotations: Sequence[torch.Tensor | None], num_outputs: int) -> None:
        super().__init__(batches)
        self._annotations = annotations
        self._num_outputs = num_outputs

    def _changed_batch(self, batch: Batch, generator: torch.Generator) -> Batch:
        del generator
        of_samples = [self._fractions(batch, number) for number in range(len(batch.images))]
        return replace(batch, fractions=torch.stack(of_samples))

    def _fractions(self, batch: Batch, number: int) -> torch.Tensor:
        """Of an image of the batch, ``(C, …)``."""
        annotations = self._annotations[int(batch.samples[number])]
        label = batch.labels[number] if batch.labels.ndim == 1 else batch.labels[number, 0]
        own = class_fractions(label[None], self._num_outputs)
        if annotations is None:
            return own
        annotations = annotations.to(batch.labels.device)
        if batch.places is None:
            return class_fractions(annotations, self._num_outputs)
        places = batch.places[number].long()
        is_beyond = (places == BEYOND_BORDER).any(dim=0)
        seen = annotations[(slice(None), *places.clamp(min=0))]
        # What augmentation brought in is labelled by the batch alone.
        return torch.where(is_beyond, own, class_fractions(seen, self._num_outputs))
